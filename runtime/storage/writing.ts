// Writes to what an app keeps, for its owner: by a process of the app, which alone may have the storage.
import type { StorageWrite, StorageWritten } from '../../handlers/contract/host-storage.ts';
import type { Result } from '../../handlers/contract/index.ts';
import type { Apps } from '../apps/apps.ts';
import type { LeasedCell } from '../fleets/leasing.ts';
import { reason } from '../log.ts';
import { askSocket } from '../machine/ask-socket.ts';
import type { Looking } from './looking.ts';
import { find } from './places.ts';
import { ReadingRefused } from './reading.ts';

/** Longest answer: a few numbers for each statement, or one message. */
const ANSWER_BYTES = 64 * 1024;

const ENDED = "the app's process ended before it had answered; look whether the write was carried out";

/** What became of one statement, or of a whole file: then its second is how many statements that had. */
type Done = [changes: number, lastRowId: number | null, durationMs: number];
type Answer = { done: Done[] | null } | { failed: string };

/** Where writes go: to a process of the app. */
interface Writing {
  apps: Apps;
  looking: Looking;
}

/**
 * Has the app's process carry out a write; one is started for it where none runs, and a sleeping app sleeps on.
 * @throws {ReadingRefused} with SQLite's own message when a statement fails: then none of them has changed anything
 */
export async function writeStorage(
  writing: Writing,
  appId: string,
  { kind, of, ...asked }: StorageWrite,
): Promise<StorageWritten> {
  const binding = await bindingOf(writing, appId, kind, of);
  const done = await written(writing, appId, '/', JSON.stringify({ kind, binding, ...asked }));
  return done.map(([changes, lastRowId, durationMs]) => ({
    changes: Number(changes),
    last_row_id: Number.isSafeInteger(lastRowId) ? lastRowId : null,
    duration_ms: Number(durationMs),
  }));
}

/** Has the app's process run a file of SQL in one transaction. @throws {ReadingRefused} as `writeStorage` */
export async function importDatabase(
  writing: Writing,
  appId: string,
  database: string,
  sql: Buffer,
): Promise<Result<'storage.d1.import'>> {
  const binding = await bindingOf(writing, appId, 'd1', database);
  const path = `/?import=${encodeURIComponent(binding)}`;
  const [[changes, statements, durationMs] = [0, 0, 0]] = await written(writing, appId, path, sql);
  return { statements: Number(statements), changes: Number(changes), duration_ms: Number(durationMs) };
}

/** The name that the live release has for a database or namespace. */
async function bindingOf(
  { looking }: Writing,
  appId: string,
  kind: StorageWrite['kind'],
  of: string,
): Promise<string> {
  const { databases, namespaces } = await looking.places(appId);
  const what = kind === 'd1' ? 'database' : 'namespace';
  const found = find(kind === 'd1' ? databases : namespaces, of);
  if (found === undefined) throw new ReadingRefused('storage_not_found', `the app has no ${what} ${of}`);
  if (found.binding === null)
    throw new ReadingRefused(
      'storage_not_found',
      `the live release has no binding to the ${what}, and only it can write`,
    );
  return found.binding;
}

async function written(
  { apps }: Writing,
  appId: string,
  path: string,
  body: string | Buffer,
): Promise<Done[]> {
  const answer = await apps
    .withCell(appId, 'a write to its storage', (cell) => ask(cell, path, body))
    .catch((error: unknown) => {
      const hasEnded = (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      throw new ReadingRefused('app_unavailable', hasEnded ? ENDED : reason(error));
    });
  if ('failed' in answer) throw new ReadingRefused('query_failed', String(answer.failed).replace(/\.$/, ''));
  return answer.done ?? [];
}

async function ask({ socketPath, signal }: LeasedCell, path: string, body: string | Buffer): Promise<Answer> {
  const asked = { method: 'POST', path, body, limitBytes: ANSWER_BYTES, signal };
  const { status, text } = await askSocket(socketPath, asked);
  if (text === null || status !== 200)
    throw new Error(`the process answered with status ${status} and no result`);
  return JSON.parse(text) as Answer;
}
