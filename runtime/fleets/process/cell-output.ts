// Forwards a process's output with a rate limit, and keeps its tail, which explains why the process ended.
import { readSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { cutText } from '../../../handlers/contract/text.ts';
import { countLines, LineReader, messageOf } from '../../processes/lines.ts';
import type { OutputPipe, OutputSink } from '../../processes/output-sink.ts';
import { Allowance } from '../../resources/allowance.ts';
import type { MemoryEnd } from '../../resources/cell-groups.ts';
import { ReportedErrors } from './reported-errors.ts';

/** Why a process ended, as text for people. */
export interface ExitReason {
  reason: string;
  /** The host's limit that it exceeded; null when it ended for another reason. */
  limit: string | null;
}

/** Rate limit of forwarded output, in bytes a second. Unused rate may be used later in a burst. */
export const BYTES_PER_S = 256 * 1024;
/** The largest burst, in seconds of `BYTES_PER_S`. */
const SAVED_S = 4;
/**
 * The number of dropped lines is reported to the sink after at most this time, in ms, even if the app prints nothing more.
 */
const REPORT_MS = 1_000;
/**
 * Shortest time between two reads of a flooded pipe, in ms. A pipe is flooded when some of its output must be dropped. Each
 * read empties the pipe, which is cheap for the host. In between, the app blocks once the pipe is full.
 */
const REST_MIN_MS = 1;
/** Longest time between two reads of a flooded pipe, in ms. */
const REST_MAX_MS = 10;
/**
 * The pause between two reads is chosen so that the app prints this many bytes meanwhile, which does not block it. On Linux,
 * the pipe (a unix socket) holds 166 lines of any length. These bytes are half of 166 lines of 50 bytes, workerd's shortest.
 */
const CALM_BYTES = 4 * 1024;
/** Maximum bytes read from a flooded pipe per ms, because counting dropped lines takes the host's CPU time. */
const FLOOD_BYTES = 20_000;
/** Output bytes kept to explain why the process ended. */
const KEPT_BYTES = 16 * 1024;
/**
 * Number of last lines that are searched for an explanation. Warnings may follow a load error, so one line is not enough.
 */
const KEPT_LINES = 20;
/** Maximum number of lines in an explanation. */
const EXPLAINING_LINES = 5;
/** Maximum length of each line in an explanation, in characters. */
const EXPLAINING_LENGTH = 500;
/** Maximum length of a load error, in characters. */
const LOAD_ERROR_LENGTH = 4_000;
/** workerd's prefix of a load error: the name that the app's service has in the config. */
const APP_SERVICE = 'service app: ';
/** V8's out-of-memory messages. */
const OUT_OF_MEMORY = /(JavaScript heap|process) out of memory/;
const MACHINE_OUT_OF_MEMORY =
  'the kernel ended the process because the machine, or the container that Cellar runs in, ran out of memory';

/** Number of flooded pipes. The pause between reads grows with it, so that many pipes cost little more CPU time than one. */
let flooded = 0;
/** Read buffer of all flooded pipes. It is larger than a pipe's capacity. */
let shared: Buffer | null = null;
const SHARED_BYTES = 256 * 1024;

/** Node's internal handle of a pipe stream. */
interface PipeHandle {
  /** -1 when closed. */
  fd: number;
  readStop(): unknown;
  readStart(): unknown;
}

export class CellOutput {
  readonly #sink: OutputSink;
  readonly #memoryMb: number;
  /** A buffer with the last `#keptBytes` bytes of output; null before any output. */
  #kept: Buffer | null = null;
  #keptBytes = 0;
  readonly #allowance = new Allowance(BYTES_PER_S, SAVED_S);
  readonly #errors = new ReportedErrors();

  /** @param memoryMb memory that the process may use, in MiB, for the out-of-memory message */
  constructor(sink: OutputSink, memoryMb: number) {
    this.#sink = sink;
    this.#memoryMb = memoryMb;
  }

  read(pipe: OutputPipe, stream: Readable): void {
    let dropped: number | null = null;
    let reporting: NodeJS.Timeout | null = null;
    let isFlooded = false;
    const pass = (piece: Buffer): void => {
      this.#sink.write(pipe, piece, dropped);
      dropped = null;
    };
    const report = (): void => {
      reporting = null;
      if (dropped !== null) pass(Buffer.alloc(0));
    };
    const drop = (piece: Buffer): void => {
      if (piece.length === 0) return;
      dropped = (dropped ?? 0) + countLines(piece);
      reporting ??= setTimeout(report, REPORT_MS).unref();
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
      if (reporting !== null) clearTimeout(reporting);
      report();
      this.#sink.end(pipe);
    });
  }

  /**
   * Returns why the process ended: workerd's load error, a lack of memory, or else the exit code or signal with the last
   * lines.
   * @param forMemory which limit was reached when the kernel killed the process for lack of memory: the app's or the
   *   machine's; null if it did not
   */
  explain(
    code: number | null,
    signal: NodeJS.Signals | null,
    forMemory: MemoryEnd | null = null,
  ): ExitReason {
    // Lines without a message explain nothing: for example the entry module's reports of calls.
    const messages = this.#lastLines()
      .map((line) => oneLine(messageOf(line)))
      .filter((message) => message !== '');
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

  /**
   * Returns whether `bytes` may be forwarded now, and if so, takes them from the rate limit. If the sink is crowded, the app
   * must have more than half of its burst left.
   */
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

/**
 * Returns a sink that splits output into lines on this thread, for a process that prints little or is the host's only one.
 */
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
  // The lookbehind keeps the time linear in long runs of spaces.
  return text.replace(/(?<!\s)\s*\n\s*/g, ' ').trim();
}

/**
 * Reads a flooded pipe at intervals until it is empty or at its end. Then the stream reads again. The stream alone would
 * make a system call for every few lines, and it reads ahead even when paused.
 * @param onPiece called with the data, in a reused buffer
 * @param onCalm called when the stream reads again
 * @returns false for a stream without an open pipe: then nothing changes
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

/** Reads a pipe into a reused buffer. Returns null when the pipe is empty or at its end. */
function readPipe(fd: number): Buffer | null {
  shared ??= Buffer.allocUnsafeSlow(SHARED_BYTES);
  try {
    const length = readSync(fd, shared);
    return length === 0 ? null : shared.subarray(0, length);
  } catch {
    // Usually EAGAIN: the pipe is empty. The stream gets any other error when it reads again.
    return null;
  }
}

/** Returns the pause before the next read of a pipe, in ms. The app printed `bytes` in the last `elapsedMs`. */
function restAfter(bytes: number, elapsedMs: number): number {
  const calm = Math.max(elapsedMs, REST_MIN_MS) * (CALM_BYTES / bytes);
  return Math.min(Math.max(calm, bytes / FLOOD_BYTES, REST_MIN_MS + flooded - 1), REST_MAX_MS);
}
