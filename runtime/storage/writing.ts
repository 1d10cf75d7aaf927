// Writes to what an app keeps, for its owner: by a process of the app, which alone may have the storage.
import { Client } from 'undici';
import type { StorageWrite, StorageWritten } from '../../handlers/contract/host-calls.ts';
import type { Apps } from '../apps/apps.ts';
import type { LeasedCell } from '../fleets/leasing.ts';
import { reason } from '../log.ts';
import { readAtMost } from '../machine/read-at-most.ts';
import type { Looking } from './looking.ts';
import { find } from './places.ts';
import { ReadingRefused } from './reading.ts';

/** Longest answer: a few numbers for each statement, or one message. */
const ANSWER_BYTES = 64 * 1024;

type Answer =
  | { done: [changes: number, lastRowId: number | null, durationMs: number][] | null }
  | { failed: string };

/**
 * Has the app's process carry out a write; one is started for it where none runs, and a sleeping app sleeps on.
 * @throws {ReadingRefused} with SQLite's own message when a statement fails: then none of them has changed anything
 */
export async function writeStorage(
  { apps, looking }: { apps: Apps; looking: Looking },
  appId: string,
  { kind, of, ...asked }: StorageWrite,
): Promise<StorageWritten> {
  const { databases, namespaces } = await looking.places(appId);
  const what = kind === 'd1' ? 'database' : 'namespace';
  const found = find(kind === 'd1' ? databases : namespaces, of);
  if (found === undefined) throw new ReadingRefused('storage_not_found', `the app has no ${what} ${of}`);
  if (found.binding === null)
    throw new ReadingRefused(
      'storage_not_found',
      `the live release has no binding to the ${what}, and only it can write`,
    );
  const body = JSON.stringify({ kind, binding: found.binding, ...asked });
  const answer = await apps
    .withCell(appId, 'a write to its storage', (cell) => ask(cell, body))
    .catch((error: unknown) => {
      throw new ReadingRefused('app_unavailable', reason(error));
    });
  if ('failed' in answer) throw new ReadingRefused('query_failed', String(answer.failed).replace(/\.$/, ''));
  return (answer.done ?? []).map(([changes, lastRowId, durationMs]) => ({
    changes: Number(changes),
    last_row_id: lastRowId === null ? null : Number(lastRowId),
    duration_ms: Number(durationMs),
  }));
}

async function ask({ socketPath, signal }: LeasedCell, body: string): Promise<Answer> {
  const client = new Client('http://cell', { socketPath, headersTimeout: 0 });
  try {
    const response = await client.request({ method: 'POST', path: '/', body, signal });
    const text = await readAtMost(response.body, ANSWER_BYTES);
    if (text === null || response.statusCode !== 200)
      throw new Error(`the process answered with status ${response.statusCode} and no result`);
    return JSON.parse(text.toString('utf8')) as Answer;
  } finally {
    await client.destroy();
  }
}
