// What a process prints: its app's log, within bounds, and the last of it, which says why it ended.
import type { Readable } from 'node:stream';
import { cutText } from '../../handlers/contract/text.ts';
import { LineReader, messageOf } from '../machine/lines.ts';

/** Why a process ended, for people. */
export interface ExitReason {
  reason: string;
  /** Which limit of the host's it went over; null when it ended for something else. */
  limit: string | null;
}

/** Bytes of output that are read as lines in a second, and lines. What an app did not use it may use at once later. */
const BYTES_PER_S = 256 * 1024;
const LINES_PER_S = 2_000;
/** Seconds of that which an app can have saved up. */
const SAVED_S = 4;
/** Reading rests so long, in ms, after each piece of output that was dropped: an app that prints on waits for its pipe. */
const REST_MS = 10;
/** Between two lines that say how much was dropped, in ms. */
const TELL_EVERY_MS = 1_000;
/** Bytes kept for whoever asks why the process ended. */
const KEPT_BYTES = 16 * 1024;
/** Lines among them that may say so: a load error may be followed by warnings. */
const KEPT_LINES = 20;
/** How many of them explain an end, and how much of each. */
const EXPLAINING_LINES = 5;
const EXPLAINING_LENGTH = 500;
/** Characters kept of a load error, which says all by itself. */
const LOAD_ERROR_LENGTH = 4_000;
/** How V8 says that it has no memory left. */
const OUT_OF_MEMORY = /(JavaScript heap|process) out of memory/;

export class CellOutput {
  readonly #onLine: (line: string) => void;
  readonly #memoryMb: number;
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #filledAt = performance.now();
  #bytes = BYTES_PER_S * SAVED_S;
  #lines = LINES_PER_S * SAVED_S;
  #dropped = 0;
  #telling: NodeJS.Timeout | null = null;

  /**
   * @param onLine gets the lines, but for those beyond the bounds, and a line that says how much was dropped
   * @param memoryMb what the process may use, for whoever reads that it ran out of it
   */
  constructor(onLine: (line: string) => void, memoryMb: number) {
    this.#memoryMb = memoryMb;
    this.#onLine = onLine;
  }

  read(stream: Readable): void {
    const reader = new LineReader(this.#onLine);
    stream.on('data', (chunk: Buffer) => {
      this.#keep(chunk);
      const dropped = this.#pass(reader, chunk);
      if (dropped === 0) return;
      this.#drop(dropped);
      stream.pause();
      setTimeout(() => stream.resume(), REST_MS);
    });
    stream.on('end', () => {
      reader.end();
      if (this.#telling !== null) this.#tell();
    });
  }

  /** A load error in workerd's words; else how it ended, and its last lines. */
  explain(code: number | null, signal: NodeJS.Signals | null): ExitReason {
    const messages = this.#lastLines().map(messageOf).map(oneLine);
    const loadError = messages.findLast((message) => message.startsWith('service app: Uncaught'));
    if (code === 1 && loadError !== undefined)
      return { reason: cutText(loadError, LOAD_ERROR_LENGTH, ' …'), limit: null };
    if (code !== 0 && messages.some((message) => OUT_OF_MEMORY.test(message))) {
      const limit = `the app needed more memory than RUNNER_CELL_MAX_MB (${this.#memoryMb}) allows`;
      return { reason: limit, limit };
    }
    const how = signal === null ? `workerd exited with code ${code}` : `workerd was ended by ${signal}`;
    const last = messages.slice(-EXPLAINING_LINES).map((message) => cutText(message, EXPLAINING_LENGTH));
    const reason = last.length === 0 ? how : `${how}; its last lines:\n${last.join('\n')}`;
    return { reason, limit: null };
  }

  /** Reads a piece of output as lines, if the app may still print some. @returns the bytes that were dropped */
  #pass(reader: LineReader, chunk: Buffer): number {
    this.#fill();
    if (this.#bytes <= 0 || this.#lines <= 0) {
      reader.skip();
      return chunk.length;
    }
    const { lines, bytes } = reader.write(chunk, this.#lines);
    this.#lines -= lines;
    this.#bytes -= bytes;
    if (bytes < chunk.length) reader.skip();
    return chunk.length - bytes;
  }

  #fill(): void {
    const now = performance.now();
    const seconds = (now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#bytes = Math.min(this.#bytes + seconds * BYTES_PER_S, BYTES_PER_S * SAVED_S);
    this.#lines = Math.min(this.#lines + seconds * LINES_PER_S, LINES_PER_S * SAVED_S);
  }

  #drop(bytes: number): void {
    this.#dropped += bytes;
    this.#telling ??= setTimeout(() => this.#tell(), TELL_EVERY_MS);
  }

  #tell(): void {
    clearTimeout(this.#telling!);
    this.#telling = null;
    const most = `${BYTES_PER_S / 1024} KiB and ${LINES_PER_S} lines`;
    this.#onLine(
      `${Math.ceil(this.#dropped / 1024)} KiB of output were dropped: an app may print ${most} a second`,
    );
    this.#dropped = 0;
  }

  #keep(chunk: Buffer): void {
    this.#kept.push(chunk);
    this.#keptBytes += chunk.length;
    while (this.#keptBytes - this.#kept[0]!.length >= KEPT_BYTES)
      this.#keptBytes -= this.#kept.shift()!.length;
  }

  #lastLines(): string[] {
    const lines: string[] = [];
    const reader = new LineReader((line) => lines.push(line));
    reader.write(Buffer.concat(this.#kept).subarray(-KEPT_BYTES));
    reader.end();
    return lines.slice(-KEPT_LINES);
  }
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ').trim();
}
