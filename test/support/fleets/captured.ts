// Runs a Worker in workerd, and parses the errors and lines that its entry module reports.
import { dirname } from 'node:path';
import type { TestContext } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { readLogEnvelope } from '../../../runtime/telemetry/logs/log-envelope.ts';
import { eventually } from '../processes.ts';
import { temporaryDirectory } from '../temporary.ts';
import { call, cellOptions, makeRelease } from './release.ts';

/** The trace id of all requests of `get`. */
export const TRACE = 'abcdef0123456789abcdef0123456789';

export interface ErrorReport {
  id: string;
  type: string;
  message: string;
  stack: string | null;
  mechanism: string;
  handler?: string;
  method?: string;
  path?: string;
  untold?: number;
}
/** A line that a Worker printed, as its entry module reports it. */
export interface Line {
  level: string;
  text: string;
  trace: unknown;
  error: ErrorReport | undefined;
}
/** A running Worker, its output, and functions to query it. */
export interface Started {
  cell: Cell;
  lines: Line[];
  /** One entry for each reported event: its handler, then the calls that it waited for. */
  calls: unknown[][];
  get: (path: string) => Promise<{ status: number; text: string }>;
  /** Resolves with the first reported error with this message. */
  reported: (message: string) => Promise<ErrorReport & { trace: unknown }>;
}

/**
 * Starts a Worker in workerd.
 * @param edit changes files in the directory of workerd's configuration
 */
export async function started(
  t: TestContext,
  code: string,
  fields: Partial<Release>,
  edit: (directory: string) => void = () => {},
): Promise<Started> {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, code, fields);
  const lines: Line[] = [];
  const calls: unknown[][] = [];
  const onLine = (line: string) => {
    const { level, message } = JSON.parse(line) as { level: string; message: string };
    const envelope = readLogEnvelope(message);
    if (envelope?.said.calls !== undefined) {
      calls.push(envelope.said.calls as unknown[]);
      return;
    }
    const error = envelope?.said.error as ErrorReport | undefined;
    lines.push({ level, text: envelope?.text ?? message, trace: envelope?.said.trace_id, error });
  };
  const options = await cellOptions(root, directory);
  edit(dirname(options.config));
  const cell = await startCell({ ...options, output: lineSink(onLine) });
  t.after(() => cell.stop());
  const headers = { traceparent: `00-${TRACE}-0123456789abcdef-01` };
  const reported: Started['reported'] = async (message) => {
    const find = () => lines.find(({ error }) => error?.message === message);
    await eventually(() => find() !== undefined, `the error is reported: ${message}`);
    const { error, trace } = find()!;
    return { ...error!, trace };
  };
  const get = (path: string) => call(cell.socketPath('http'), `${path}?secret=1`, { headers });
  return { cell, lines, calls, get, reported };
}
