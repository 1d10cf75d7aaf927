// Splits chunks of apps' output into lines, and parses them: log lines, and reports of the apps' Workers.
import type { TailedPart } from '../../../handlers/contract/host/host-calls.ts';
import { LineReader } from '../../processes/lines.ts';
import type { ErrorReport } from '../errors/error-intake.ts';
import type { OutputPiece } from '../protocol.ts';
import {
  type LogRecord,
  type ReportedByApp,
  type ReportedError,
  type ReportedPoint,
  type ReportedRun,
  readLine,
} from './log-lines.ts';
import type { ReportedCalls } from './reported-calls.ts';
import { UncaughtLines, uncaughtError } from './uncaught-lines.ts';

/** Receives the parsed output. */
export interface OutputTaker {
  onRecord: (appId: string, record: LogRecord) => void;
  onError: (report: ErrorReport) => void;
  /** Called when a run of a cron has ended. */
  onRun: (appId: string, traceId: string | null, run: ReportedRun) => void;
  onPoint: (appId: string, at: number, point: ReportedPoint) => void;
  onCalls: (appId: string, at: number, traceId: string, calls: ReportedCalls) => void;
  /** Called when the app has called its binding to `cellar`. */
  onReport: (appId: string, at: number, report: ReportedByApp) => void;
  /** Called with the number of lines that were dropped from the output. */
  onLost: (appId: string, lines: number) => void;
}

interface Pipe {
  reader: LineReader;
  lines: string[];
}

export class OutputReader {
  readonly #to: OutputTaker;
  readonly #pipes = new Map<number, Pipe>();
  readonly #uncaught = new UncaughtLines();

  constructor(to: OutputTaker) {
    this.#to = to;
  }

  read(piece: OutputPiece): void {
    const { appId, pipe, bytes, dropped, isLast } = piece;
    let known = this.#pipes.get(pipe);
    if (known === undefined) {
      const lines: string[] = [];
      known = { lines, reader: new LineReader((line) => lines.push(line)) };
      this.#pipes.set(pipe, known);
    }
    const { reader, lines } = known;
    let lost = dropped ?? 0;
    if (dropped !== null) reader.skip();
    const wasSkipping = reader.isSkipping;
    reader.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    // The line that ends here began in dropped output, so it is lost too.
    if (wasSkipping && !reader.isSkipping) lost++;
    if (isLast) {
      reader.end();
      this.#pipes.delete(pipe);
    }
    if (lost > 0) this.#to.onLost(appId, lost);
    for (const line of lines.splice(0)) this.#readLine(line, piece);
  }

  forget(appId: string): void {
    this.#uncaught.forget(appId);
  }

  #readLine(line: string, { appId, deployId: release, stream, at: cameAt }: OutputPiece): void {
    const { record, error, run, point, calls, report } = readLine(line, stream, cameAt);
    const { at, traceId, source, text, fields } = record;
    let exception = exceptionOf(error);
    if (point !== null) {
      this.#to.onPoint(appId, at, point);
      return;
    }
    if (calls !== null) {
      if (traceId !== null) this.#to.onCalls(appId, at, traceId, calls);
      return;
    }
    if (report !== null) {
      this.#to.onReport(appId, at, report);
      return;
    }
    if (run !== null) this.#to.onRun(appId, traceId, run);
    if (error !== null) {
      this.#uncaught.add(appId, error);
      this.#to.onError({ appId, release, at, traceId, error });
    } else if (source === 'workerd') {
      if (this.#uncaught.repeats(appId, text)) return;
      const uncaught = uncaughtError(text);
      exception = exceptionOf(uncaught);
      if (uncaught !== null) this.#to.onError({ appId, release, at, traceId: null, error: uncaught });
    }
    if (text !== '' || fields !== null)
      this.#to.onRecord(appId, { ...record, release, ...(exception && { tail: { exception } }) });
  }
}

/** Returns the exception that a tail shows; undefined without an error, or if it was only printed. */
function exceptionOf(error: ReportedError | null): TailedPart['exception'] {
  if (error === null || error.mechanism === 'console') return undefined;
  const { type, message, stack, mechanism } = error;
  // workerd shows a thrown value that is not an `Error` with the name `Error`.
  const name = stack === null && mechanism === 'uncaught' && /^[a-z]/.test(type) ? 'Error' : type;
  return { name, message, hasStack: stack !== null, isUncaught: mechanism === 'uncaught' };
}
