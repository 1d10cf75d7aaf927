// Passes on what a process prints, within bounds, and keeps the end of it, which says why the process ended.
import type { Readable } from 'node:stream';
import { cutText } from '../../handlers/contract/text.ts';
import { countLines, LineReader, messageOf } from '../machine/lines.ts';
import type { OutputPipe, OutputSink } from '../machine/output-sink.ts';

/** Why a process ended, for people. */
export interface ExitReason {
  reason: string;
  /** Which of the host's limits it went over; null when it ended for another reason. */
  limit: string | null;
}

/** Bytes of output that are passed on in a second. An app that used less may use the rest later at once. */
export const BYTES_PER_S = 256 * 1024;
/** How many seconds' worth of such bytes an app can save up. */
const SAVED_S = 4;
/**
 * Between two readings of a pipe that is flooded, in ms. So much is read at once then, which costs the host little; and what
 * the app prints meanwhile must find room in the pipe, or the app waits.
 */
const REST_MIN_MS = 1;
const REST_MAX_MS = 10;
/** Half of what a pipe takes on Linux, in bytes, and what each write to it takes there besides its own bytes. */
const PIPE_BYTES = 100_000;
const WRITE_BYTES = 1_280;
/** Bytes of output that are kept to explain why the process ended. */
const KEPT_BYTES = 16 * 1024;
/** How many of the last lines may explain the end: a load error may be followed by warnings. */
const KEPT_LINES = 20;
/** How many lines explain an end, and how many characters of each. */
const EXPLAINING_LINES = 5;
const EXPLAINING_LENGTH = 500;
/** Characters that are kept of a load error, which explains the end by itself. */
const LOAD_ERROR_LENGTH = 4_000;
/** What workerd puts before a load error: the name that the app's code has in its configuration. */
const APP_SERVICE = 'service app: ';
/** How V8 says that it has no memory left. */
const OUT_OF_MEMORY = /(JavaScript heap|process) out of memory/;

/** How many pipes rest now. The more rest, the longer each does, so that many floods cost no more than one. */
let resting = 0;

export class CellOutput {
  readonly #sink: OutputSink;
  readonly #memoryMb: number;
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  #filledAt = performance.now();
  #bytes = BYTES_PER_S * SAVED_S;

  /** @param memoryMb what the process may use, for whoever reads that it ran out of it */
  constructor(sink: OutputSink, memoryMb: number) {
    this.#sink = sink;
    this.#memoryMb = memoryMb;
  }

  read(pipe: OutputPipe, stream: Readable): void {
    let dropped: number | null = null;
    let readAt = performance.now();
    stream.on('data', (chunk: Buffer) => {
      this.#keep(chunk);
      if (this.#takes(chunk.length)) {
        this.#sink.write(pipe, chunk, dropped);
        dropped = null;
        return;
      }
      const lines = countLines(chunk);
      dropped = (dropped ?? 0) + lines;
      const now = performance.now();
      const rest = restAfter(lines * WRITE_BYTES + 2 * chunk.length, now - readAt);
      readAt = now;
      resting++;
      stream.pause();
      setTimeout(() => {
        resting--;
        stream.resume();
      }, rest);
    });
    stream.on('end', () => {
      if (dropped !== null) this.#sink.write(pipe, Buffer.alloc(0), dropped);
      this.#sink.end(pipe);
    });
  }

  /**
   * A load error in workerd's words; else how it ended, and its last lines.
   * @param forMemory whether the kernel ended it because of its memory
   */
  explain(code: number | null, signal: NodeJS.Signals | null, forMemory = false): ExitReason {
    const messages = this.#lastLines().map(messageOf).map(oneLine);
    const loadError = messages.findLast((message) => message.startsWith(`${APP_SERVICE}Uncaught`));
    if (code === 1 && loadError !== undefined)
      return { reason: cutText(loadError.slice(APP_SERVICE.length), LOAD_ERROR_LENGTH, ' …'), limit: null };
    if (forMemory || (code !== 0 && messages.some((message) => OUT_OF_MEMORY.test(message)))) {
      const limit = `the app needed more memory than RUNNER_CELL_MAX_MB (${this.#memoryMb}) allows`;
      return { reason: limit, limit };
    }
    const how = signal === null ? `workerd exited with code ${code}` : `workerd was ended by ${signal}`;
    const last = messages.slice(-EXPLAINING_LINES).map((message) => cutText(message, EXPLAINING_LENGTH));
    const reason = last.length === 0 ? how : `${how}; its last lines:\n${last.join('\n')}`;
    return { reason, limit: null };
  }

  /** Whether the app may print so much more now. Where others wait, it is one that has printed little lately. */
  #takes(bytes: number): boolean {
    const now = performance.now();
    const seconds = (now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#bytes = Math.min(this.#bytes + seconds * BYTES_PER_S, BYTES_PER_S * SAVED_S);
    if (this.#bytes <= (this.#sink.isCrowded ? (BYTES_PER_S * SAVED_S) / 2 : 0)) return false;
    this.#bytes -= bytes;
    return true;
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

/** A sink that reads all lines on this thread: for a process that prints little, or is alone on its host. */
export function lineSink(onLine: (line: string, pipe: OutputPipe) => void): OutputSink {
  const reader = (pipe: OutputPipe) => new LineReader((line) => onLine(line, pipe));
  const readers = { stdout: reader('stdout'), stderr: reader('stderr') };
  return {
    isCrowded: false,
    write: (pipe, piece, dropped) => {
      if (dropped !== null) readers[pipe].skip();
      readers[pipe].write(piece);
    },
    end: (pipe) => readers[pipe].end(),
  };
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/** How long a pipe may rest that has taken so many bytes in so many ms, in ms. */
function restAfter(bytes: number, elapsedMs: number): number {
  const rest = Math.max(elapsedMs, REST_MIN_MS) * (PIPE_BYTES / bytes);
  return Math.min(Math.max(rest, REST_MIN_MS + resting), REST_MAX_MS);
}
