// The access log's file: written in batches beside the requests, and turned over before it grows too large.
import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { log, reason } from '../log.ts';

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
/** Most bytes of a character in UTF-8 for each unit of a string. */
const UNIT_BYTES = 3;

const NOTHING = Buffer.alloc(0);
const LIMITS: AccessLogLimits = { fileBytes: 100 * 1024 * 1024, files: 5, waiting: 4 * 1024 * 1024 };

/** Takes lines at once and writes them soon. A disk that fails or is slow costs lines, never a request. */
export class AccessLog {
  readonly #path: string;
  readonly #limits: AccessLogLimits;
  /** Lines as bytes: as strings made of dozens of parts each they would cost the garbage collector more than they are worth. */
  #full: Buffer[] = [];
  #piece: Buffer = NOTHING;
  /** Bytes of the last piece that are lines, and of all pieces before it. */
  #used = 0;
  #fullBytes = 0;
  #dropped = 0;
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> = Promise.resolve();
  #busy = false;
  #file: FileHandle | null = null;
  #bytes = 0;
  #failing = false;

  /** @param path of the current file; its directory is made when it is missing */
  constructor(path: string, limits: AccessLogLimits = LIMITS) {
    this.#path = path;
    this.#limits = limits;
  }

  /** Takes a line, which ends with a line feed. */
  write(line: string): void {
    if (this.#fullBytes + this.#used + line.length > this.#limits.waiting) this.#dropped++;
    else this.#add(line);
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
    const lines = this.#take();
    if (lines.length === 0) return;
    const dropped = this.#dropped;
    this.#dropped = 0;
    this.#busy = true;
    this.#writing = this.#append(lines, dropped).finally(() => {
      this.#busy = false;
      if (this.#fullBytes + this.#used > 0) this.#timer = setTimeout(() => this.#flush(), FLUSH_MS).unref();
    });
  }

  #add(line: string): void {
    const most = line.length * UNIT_BYTES;
    if (this.#used + most > this.#piece.length) {
      this.#finishPiece();
      this.#piece = Buffer.allocUnsafeSlow(Math.max(PIECE_BYTES, most));
    }
    this.#used += this.#piece.write(line, this.#used);
  }

  #finishPiece(): void {
    if (this.#used > 0) this.#full.push(this.#piece.subarray(0, this.#used));
    this.#fullBytes += this.#used;
    this.#piece = this.#piece.subarray(this.#used);
    this.#used = 0;
  }

  /** Takes all lines that wait. */
  #take(): Buffer[] {
    this.#finishPiece();
    const lines = this.#full;
    this.#full = [];
    this.#fullBytes = 0;
    return lines;
  }

  async #append(lines: Buffer[], dropped: number): Promise<void> {
    try {
      this.#file ??= await this.#open();
      for (const bytes of lines) {
        await this.#file.appendFile(bytes);
        this.#bytes += bytes.length;
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
