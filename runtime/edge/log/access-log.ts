// The access log's file: written in batches in the background, and rotated before it grows too large.
import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { log, reason } from '../../log.ts';

/** How long a line may wait for its batch, in ms. */
const FLUSH_MS = 100;

export interface AccessLogLimits {
  /** A file of this size, in bytes, is rotated. */
  fileBytes: number;
  /** Maximum number of files: `access.ndjson`, then `access.ndjson.1`, which was rotated most recently, and so on. */
  files: number;
  /** Maximum buffered bytes while the disk is slow; further lines are dropped and counted. */
  waiting: number;
}

/** Size of a buffer for lines, in bytes. Each buffer is one write, which costs as much as dozens of lines. */
const BUFFER_BYTES = 256 * 1024;
/** Maximum number of buffers kept for reuse. Allocating one costs two fifths of writing it to the file. */
const FREE_BUFFERS_MAX = 4;

const LIMITS: AccessLogLimits = { fileBytes: 100 * 1024 * 1024, files: 5, waiting: 4 * 1024 * 1024 };

export interface LineFormat<Entry> {
  /** Maximum bytes of a line. Must not exceed the size of a buffer, nor the limit of buffered bytes. */
  lineBytes: number;
  /**
   * Writes an entry's line to `bytes` at `at`, where there is enough space. Returns the position after its line feed.
   */
  put(entry: Entry, bytes: Buffer, at: number): number;
}

/** A buffer with lines in its first `used` bytes. */
interface Piece {
  bytes: Buffer;
  used: number;
}

/** Buffers lines and writes them soon after. On a slow or failing disk, lines are lost, but no request is blocked. */
export class AccessLog<Entry> {
  readonly #path: string;
  readonly #format: LineFormat<Entry>;
  readonly #limits: AccessLogLimits;
  /** Buffers that take no more lines, and wait to be written. */
  #full: Piece[] = [];
  /** Bytes of the lines in `#full`. */
  #fullBytes = 0;
  /** The buffer that is being filled. */
  #piece: Piece | null = null;
  readonly #freeBuffers: Buffer[] = [];
  #dropped = 0;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #file: FileHandle | null = null;
  #bytes = 0;
  #failing = false;

  /** @param path of the current file; its directory is created when missing */
  constructor(path: string, format: LineFormat<Entry>, limits: AccessLogLimits = LIMITS) {
    this.#path = path;
    this.#format = format;
    this.#limits = limits;
  }

  /** Buffers the line of an entry. */
  write(entry: Entry): void {
    if (this.#waiting > this.#limits.waiting - this.#format.lineBytes) this.#dropped++;
    else {
      const piece = this.#pieceWithRoom();
      piece.used = this.#format.put(entry, piece.bytes, piece.used);
    }
    if (this.#timer === null && !this.#busy) this.#timer = setTimeout(() => this.#flush(), FLUSH_MS).unref();
  }

  /** Writes all buffered lines and closes the file. */
  async close(): Promise<void> {
    await this.#writing;
    this.#flush();
    await this.#writing;
    await this.#closeFile();
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

  /** Bytes of buffered lines. */
  get #waiting(): number {
    return this.#fullBytes + (this.#piece?.used ?? 0);
  }

  #pieceWithRoom(): Piece {
    const { lineBytes } = this.#format;
    if (this.#piece !== null && this.#piece.used + lineBytes > this.#piece.bytes.length) this.#finishPiece();
    this.#piece ??= { bytes: this.#freeBuffers.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES), used: 0 };
    return this.#piece;
  }

  #finishPiece(): void {
    if (this.#piece === null) return;
    this.#full.push(this.#piece);
    this.#fullBytes += this.#piece.used;
    this.#piece = null;
  }

  /** Removes and returns all buffered lines. */
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
      if (this.#bytes >= this.#limits.fileBytes) await this.#rotate();
    } catch (error) {
      if (!this.#failing) {
        log('error', 'the access log cannot be written; its lines are dropped', { error: reason(error) });
      }
      this.#failing = true;
      await this.#closeFile(this.#bytes);
    } finally {
      for (const { bytes } of pieces)
        if (this.#freeBuffers.length < FREE_BUFFERS_MAX) this.#freeBuffers.push(bytes);
    }
  }

  async #open(): Promise<FileHandle> {
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    const file = await open(this.#path, 'a', 0o600);
    this.#bytes = (await file.stat()).size;
    return file;
  }

  /** Rotates: renames the file to `.1`, `.1` to `.2` and so on, and overwrites the oldest. */
  async #rotate(): Promise<void> {
    await this.#closeFile();
    for (let i = this.#limits.files - 2; i >= 0; i--) {
      const from = i === 0 ? this.#path : `${this.#path}.${i}`;
      await rename(from, `${this.#path}.${i + 1}`).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error;
      });
    }
  }

  /** Closes the file. @param bytes the file's size before a failed write: a partial line is truncated */
  async #closeFile(bytes: number | null = null): Promise<void> {
    const file = this.#file;
    this.#file = null;
    if (bytes !== null) await file?.truncate(bytes).catch(() => {});
    await file?.close().catch(() => {});
  }
}
