// The access log's file: written in batches beside the requests, and turned over before it grows too large.
import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { log, reason } from '../../log.ts';

/** How long a line may wait for its batch, in ms. */
const FLUSH_MS = 100;

/** How much is kept. */
export interface AccessLogLimits {
  /** A file that has reached this size, in bytes, is put aside. */
  fileBytes: number;
  /** Files in all: `access.ndjson`, then `access.ndjson.1`, the last one put aside, and so on. */
  files: number;
  /** Bytes that may wait for a slow disk; lines above that are dropped and counted. */
  waiting: number;
}

/** Size of the pieces in which lines wait, in bytes. Each is a write of its own, which costs as much as dozens of lines. */
const PIECE_BYTES = 256 * 1024;
/** Pieces that are kept for the next lines: to get as much anew costs two fifths of what it does to write it to the file. */
const SPARES_MAX = 4;

const LIMITS: AccessLogLimits = { fileBytes: 100 * 1024 * 1024, files: 5, waiting: 4 * 1024 * 1024 };

/** How an entry becomes a line. */
export interface LineFormat<Entry> {
  /** Most bytes of a line: no more than a piece has, nor than may wait. */
  lineBytes: number;
  /** Writes the line of an entry at a place in bytes, where it has room. Returns where it ends, behind its line feed. */
  put(entry: Entry, bytes: Buffer, at: number): number;
}

/** Bytes that are lines, at the front of others. */
interface Piece {
  bytes: Buffer;
  used: number;
}

/** Takes lines at once and writes them soon. A disk that fails or is slow costs lines, never a request. */
export class AccessLog<Entry> {
  readonly #path: string;
  readonly #format: LineFormat<Entry>;
  readonly #limits: AccessLogLimits;
  /** Pieces that have no room for another line, and the bytes of their lines. */
  #full: Piece[] = [];
  #fullBytes = 0;
  /** The one that is being filled. */
  #piece: Piece | null = null;
  readonly #preforkPool: Buffer[] = [];
  #dropped = 0;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #file: FileHandle | null = null;
  #bytes = 0;
  #failing = false;

  /** @param path of the current file; its directory is made when it is missing */
  constructor(path: string, format: LineFormat<Entry>, limits: AccessLogLimits = LIMITS) {
    this.#path = path;
    this.#format = format;
    this.#limits = limits;
  }

  /** Takes what becomes a line. */
  write(entry: Entry): void {
    if (this.#waiting > this.#limits.waiting - this.#format.lineBytes) this.#dropped++;
    else {
      const piece = this.#pieceWithRoom();
      piece.used = this.#format.put(entry, piece.bytes, piece.used);
    }
    if (this.#timer === null && !this.#busy) this.#timer = setTimeout(() => this.#flush(), FLUSH_MS).unref();
  }

  /** Writes what waits, and ends. */
  async close(): Promise<void> {
    await this.#writing;
    this.#flush();
    await this.#writing;
    await this.#letGo();
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const pieces = this.#take();
    if (pieces.length === 0) return;
    const dropped = this.#dropped;
    this.#dropped = 0;
    this.#busy = true;
    this.#writing = this.#append(pieces, dropped).finally(() => {
      this.#busy = false;
      if (this.#waiting > 0) this.#timer = setTimeout(() => this.#flush(), FLUSH_MS).unref();
    });
  }

  /** Bytes of lines that wait. */
  get #waiting(): number {
    return this.#fullBytes + (this.#piece?.used ?? 0);
  }

  #pieceWithRoom(): Piece {
    const { lineBytes } = this.#format;
    if (this.#piece !== null && this.#piece.used + lineBytes > this.#piece.bytes.length) this.#finishPiece();
    this.#piece ??= { bytes: this.#preforkPool.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES), used: 0 };
    return this.#piece;
  }

  #finishPiece(): void {
    if (this.#piece === null) return;
    this.#full.push(this.#piece);
    this.#fullBytes += this.#piece.used;
    this.#piece = null;
  }

  /** Takes all lines that wait. */
  #take(): Piece[] {
    this.#finishPiece();
    const pieces = this.#full;
    this.#full = [];
    this.#fullBytes = 0;
    return pieces;
  }

  async #append(pieces: Piece[], dropped: number): Promise<void> {
    try {
      this.#file ??= await this.#open();
      for (const { bytes, used } of pieces) {
        await this.#file.appendFile(bytes.subarray(0, used));
        this.#bytes += used;
      }
      this.#failing = false;
      if (dropped > 0) log('warn', 'the disk is slow: access lines were dropped', { dropped });
      if (this.#bytes >= this.#limits.fileBytes) await this.#turnOver();
    } catch (error) {
      if (!this.#failing) {
        log('error', 'the access log cannot be written; its lines are dropped', { error: reason(error) });
      }
      this.#failing = true;
      await this.#letGo(this.#bytes);
    } finally {
      for (const { bytes } of pieces)
        if (this.#preforkPool.length < SPARES_MAX) this.#preforkPool.push(bytes);
    }
  }

  async #open(): Promise<FileHandle> {
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    const file = await open(this.#path, 'a', 0o600);
    this.#bytes = (await file.stat()).size;
    return file;
  }

  /** Puts the file aside, and each one put aside before a place further; the last falls out. */
  async #turnOver(): Promise<void> {
    await this.#letGo();
    for (let i = this.#limits.files - 2; i >= 0; i--) {
      const from = i === 0 ? this.#path : `${this.#path}.${i}`;
      await rename(from, `${this.#path}.${i + 1}`).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      });
    }
  }

  /** @param bytes what the file had before a write that failed: a part of a line must not stay */
  async #letGo(bytes: number | null = null): Promise<void> {
    const file = this.#file;
    this.#file = null;
    if (bytes !== null) await file?.truncate(bytes).catch(() => {});
    await file?.close().catch(() => {});
  }
}
