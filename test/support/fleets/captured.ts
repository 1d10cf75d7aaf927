// A Worker that runs in workerd, and what its entry tells of what it throws and prints.
import { dirname } from 'node:path';
import type { TestContext } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { readLogEnvelope } from '../../../runtime/telemetry/logs/log-envelope.ts';
import { eventually } from '../e2e/processes.ts';
import { temporaryDirectory } from '../temporary.ts';
import { call, cellOptions, makeRelease } from './release.ts';

/** The trace of requests that name none of their own. */
export const TRACE = 'abcdef0123456789abcdef0123456789';

export interface Told {
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
/** What a Worker printed, as its entry tells it. */
export interface Line {
  level: string;
  text: string;
  trace: unknown;
  error: Told | undefined;
}
/** A Worker, what it printed, and how it is asked. */
export interface Started {
  cell: Cell;
  lines: Line[];
  get: (path: string) => Promise<{ status: number; text: string }>;
  /** Resolves with the first error told with these words. */
  told: (message: string) => Promise<Told & { trace: unknown }>;
}

/**
 * Starts a Worker in workerd.
 * @param edit changes what the directory has that workerd is started with
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
  const onLine = (line: string) => {
    const { level, message } = JSON.parse(line) as { level: string; message: string };
    const marked = readLogEnvelope(message);
    const error = marked?.said.error as Told | undefined;
    lines.push({ level, text: marked?.text ?? message, trace: marked?.said.trace_id, error });
  };
  const options = await cellOptions(root, directory);
  edit(dirname(options.config));
  const cell = await startCell({ ...options, output: lineSink(onLine) });
  t.after(() => cell.stop());
  const headers = { traceparent: `00-${TRACE}-0123456789abcdef-01` };
  const told: Started['told'] = async (message) => {
    const find = () => lines.find(({ error }) => error?.message === message);
    await eventually(() => find() !== undefined, `it is told: ${message}`);
    const { error, trace } = find()!;
    return { ...error!, trace };
  };
  return { cell, lines, get: (path) => call(cell.socketPath('http'), `${path}?secret=1`, { headers }), told };
}
