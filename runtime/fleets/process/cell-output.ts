// Passes on what a process prints, within bounds, and keeps the end of it, which says why the process ended.
import { readSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { cutText } from '../../../handlers/contract/text.ts';
import { countLines, LineReader, messageOf } from '../../processes/lines.ts';
import type { OutputPipe, OutputSink } from '../../processes/output-sink.ts';
import { Allowance } from '../../resources/allowance.ts';
import type { MemoryEnd } from '../../resources/cell-groups.ts';
import { ReportedErrors } from './reported-errors.ts';

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
 * Between two readings of a flooded pipe, in ms. All that is in the pipe is read at once then, which costs the host little;
 * and what the app prints meanwhile must find room in the pipe, or the app waits.
 */
const REST_MIN_MS = 1;
const REST_MAX_MS = 10;
/**
 * An app that prints so much in a rest is not held up, in bytes: a pipe on Linux takes 166 lines, however short they are, and
 * workerd's shortest have 50 bytes.
 */
const CALM_BYTES = 4 * 1024;
/** Bytes of one flood that are read in a ms: to count the lines of more would take too much of the host. */
const FLOOD_BYTES = 20_000;
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
const MACHINE_OUT_OF_MEMORY =
  'the kernel ended the process because the machine, or the container that Cellar runs in, ran out of memory';

/** How many pipes are flooded now. The more there are, the longer each rests, so that many floods cost no more than one. */
let flooded = 0;
/** What is read of a flooded pipe. It has room for all that a pipe takes. */
let shared: Buffer | null = null;
const SHARED_BYTES = 256 * 1024;

/** A pipe as Node has it below a stream. */
interface PipeHandle {
  /** -1 when it is closed. */
  fd: number;
  readStop(): unknown;
  readStart(): unknown;
}

export class CellOutput {
  readonly #sink: OutputSink;
  readonly #memoryMb: number;
  /** The end of all that was read; null before there was anything. */
  #kept: Buffer | null = null;
  #keptBytes = 0;
  readonly #allowance = new Allowance(BYTES_PER_S, SAVED_S);
  readonly #errors = new ReportedErrors();

  /** @param memoryMb what the process may use, for whoever reads that it ran out of it */
  constructor(sink: OutputSink, memoryMb: number) {
    this.#sink = sink;
    this.#memoryMb = memoryMb;
  }

  read(pipe: OutputPipe, stream: Readable): void {
    let dropped: number | null = null;
    let isFlooded = false;
    const pass = (piece: Buffer): void => {
      this.#sink.write(pipe, piece, dropped);
      dropped = null;
    };
    const drop = (piece: Buffer): void => {
      if (piece.length > 0) dropped = (dropped ?? 0) + countLines(piece);
    };
    const take = (chunk: Buffer): void => {
      this.#keep(chunk);
      if (this.#takes(chunk.length)) {
        pass(chunk);
        return;
      }
      let at = 0;
      for (const { from, to } of this.#errors.in(chunk)) {
        drop(chunk.subarray(at, from));
        pass(chunk.subarray(from, to));
        at = to;
      }
      drop(chunk.subarray(at));
    };
    stream.on('data', (chunk: Buffer) => {
      take(chunk);
      if (dropped === null || isFlooded) return;
      isFlooded = readAtIntervals(stream, take, () => {
        isFlooded = false;
      });
    });
    stream.on('end', () => {
      if (dropped !== null) this.#sink.write(pipe, Buffer.alloc(0), dropped);
      this.#sink.end(pipe);
    });
  }

  /**
   * A load error in workerd's words; else how it ended, and its last lines.
   * @param forMemory for whose memory the kernel ended it
   */
  explain(
    code: number | null,
    signal: NodeJS.Signals | null,
    forMemory: MemoryEnd | null = null,
  ): ExitReason {
    const messages = this.#lastLines().map(messageOf).map(oneLine);
    const loadError = messages.findLast((message) => message.startsWith(`${APP_SERVICE}Uncaught`));
    if (code === 1 && loadError !== undefined)
      return { reason: cutText(loadError.slice(APP_SERVICE.length), LOAD_ERROR_LENGTH, ' …'), limit: null };
    if (forMemory === 'machine' && signal === 'SIGKILL')
      return { reason: MACHINE_OUT_OF_MEMORY, limit: null };
    if (forMemory === 'limit' || (code !== 0 && messages.some((message) => OUT_OF_MEMORY.test(message)))) {
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
    if (this.#allowance.left() <= (this.#sink.isCrowded ? (BYTES_PER_S * SAVED_S) / 2 : 0)) return false;
    this.#allowance.use(bytes);
    return true;
  }

  #keep(chunk: Buffer): void {
    this.#kept ??= Buffer.allocUnsafeSlow(KEPT_BYTES);
    const added = chunk.subarray(-KEPT_BYTES);
    const staying = Math.min(this.#keptBytes, KEPT_BYTES - added.length);
    this.#kept.copyWithin(0, this.#keptBytes - staying, this.#keptBytes);
    added.copy(this.#kept, staying);
    this.#keptBytes = staying + added.length;
  }

  #lastLines(): string[] {
    const lines: string[] = [];
    const reader = new LineReader((line) => lines.push(line));
    if (this.#kept !== null) reader.write(this.#kept.subarray(0, this.#keptBytes));
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

/**
 * Has a flooded pipe read at intervals, until nothing is in it or it is at its end: then its stream reads it as before. The
 * stream would read every few lines by themselves, also while it is paused, since it reads ahead.
 * @param onPiece is given what was read, in memory that is used again
 * @param onCalm is called when the stream reads again
 * @returns whether it is done: not where there is no pipe below the stream
 */
function readAtIntervals(stream: Readable, onPiece: (piece: Buffer) => void, onCalm: () => void): boolean {
  const { _handle: handle } = stream as Readable & { _handle?: PipeHandle | null };
  if (!handle || !(handle.fd >= 0)) return false;
  handle.readStop();
  flooded++;
  let readAt = performance.now();
  const look = (): void => {
    const piece = stream.destroyed ? null : readPipe(handle.fd);
    if (piece === null) {
      flooded--;
      onCalm();
      if (!stream.destroyed) handle.readStart();
      return;
    }
    onPiece(piece);
    const now = performance.now();
    setTimeout(look, restAfter(piece.length, now - readAt));
    readAt = now;
  };
  setTimeout(look, REST_MIN_MS);
  return true;
}

/** What is in a pipe, in memory that is used again; null when nothing is in it, and at its end. */
function readPipe(fd: number): Buffer | null {
  shared ??= Buffer.allocUnsafeSlow(SHARED_BYTES);
  try {
    const length = readSync(fd, shared);
    return length === 0 ? null : shared.subarray(0, length);
  } catch {
    // Most often EAGAIN. Whatever else it is, the stream meets it too.
    return null;
  }
}

/** How long a pipe may rest in which so many bytes were found after so many ms, in ms. */
function restAfter(bytes: number, elapsedMs: number): number {
  const calm = Math.max(elapsedMs, REST_MIN_MS) * (CALM_BYTES / bytes);
  return Math.min(Math.max(calm, bytes / FLOOD_BYTES, REST_MIN_MS + flooded - 1), REST_MAX_MS);
}
