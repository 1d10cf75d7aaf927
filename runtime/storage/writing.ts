// What an app keeps, changed for its owner by a process of the app, which alone may have the storage.
import type { KvWrite } from '../../handlers/contract/host/host-storage.ts';
import type { Apps } from '../apps/apps.ts';
import type { LeasedCell } from '../fleets/admission/leasing.ts';
import { reason } from '../log.ts';
import { FairQueue, QueueFull } from '../resources/fair-queue.ts';
import { askSocket, askSocketForBytes } from '../sockets/ask-socket.ts';
import { find, type Stored } from './places.ts';
import { ReadingRefused } from './reading.ts';
import type { StorageQueries } from './storage-queries.ts';

/** Longest answer about a value: nothing, or one message. */
const KV_ANSWER_BYTES = 64 * 1024;
/** Longest answer of a database, which limits what it answers itself. */
const DATABASE_ANSWER_BYTES = 11 * 1024 * 1024;

/** Each request under way keeps its body and its answer in the host's memory. */
const LIMITS = { name: 'SQL requests', running: 8, runningPerOwner: 4, waitingPerOwner: 100 };
const queue = new FairQueue(LIMITS);

const ENDED = "the app's process ended before it had answered; look whether the write was carried out";

/** Where writes go: to a process of the app. */
interface Writing {
  apps: Apps;
  storageQueries: StorageQueries;
}

/** SQL for one of an app's databases. */
export interface DatabaseRequest {
  /** Its id, its binding or its name. */
  database: string;
  /** Queries as JSON, or a file of SQL. Each is one transaction. */
  kind: 'query' | 'import';
  /** Reads the body, once its turn has come. */
  body: () => Promise<Buffer>;
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal | undefined;
}

/**
 * Has the app's process run SQL; one is started for it where none runs, and a sleeping app sleeps on. Requests of one app run
 * one after another, and accounts take turns.
 * @returns JSON that nobody has parsed: a `DatabaseAnswer`
 * @throws {ReadingRefused} without a process that answers, and when too many requests wait; the signal's reason
 */
export async function runSql(
  writing: Writing,
  appId: string,
  { database, kind, body, signal }: DatabaseRequest,
): Promise<Buffer> {
  const { databases } = await writing.storageQueries.places(appId);
  const { storageId } = bound(find(databases, database), `database ${database}`);
  const path = `/${kind}/${encodeURIComponent(storageId)}`;
  const run = async () => {
    const asked = { method: 'POST', path, body: await body(), limitBytes: DATABASE_ANSWER_BYTES };
    return withProcess(writing, appId, 'SQL', async (cell) => {
      const ended = signal === undefined ? cell.signal : AbortSignal.any([cell.signal, signal]);
      const { status, bytes } = await askSocketForBytes(cell.databasePath, { ...asked, signal: ended });
      if (bytes === null || status !== 200) throw noResult(status);
      return bytes;
    });
  };
  const owner = writing.apps.ownerOf(appId);
  return queue.run({ owner, key: appId, signal }, run).catch((error: unknown) => {
    throw error instanceof QueueFull ? new ReadingRefused('host_unavailable', error.message) : error;
  });
}

/** Has the app's process change a value of a namespace. @throws {ReadingRefused} also in the process's own words */
export async function writeValue(writing: Writing, appId: string, { of, ...asked }: KvWrite): Promise<void> {
  const { namespaces } = await writing.storageQueries.places(appId);
  const { binding } = bound(find(namespaces, of), `namespace ${of}`);
  const body = JSON.stringify({ kind: 'kv', binding, ...asked });
  const answer = await withProcess(
    writing,
    appId,
    'a write to its storage',
    async ({ socketPath, signal }) => {
      const request = { method: 'POST', body, limitBytes: KV_ANSWER_BYTES, signal };
      const { status, text } = await askSocket(socketPath, request);
      if (text === null || status !== 200) throw noResult(status);
      return JSON.parse(text) as { failed?: unknown };
    },
  );
  if ('failed' in answer) throw new ReadingRefused('query_failed', String(answer.failed).replace(/\.$/, ''));
}

/** What the live release has a binding to: only that is in its process. */
function bound(found: Stored | undefined, what: string): Stored {
  if (found === undefined) throw new ReadingRefused('storage_not_found', `the app has no ${what}`);
  if (found.binding !== null) return found;
  throw new ReadingRefused(
    'storage_not_found',
    `the live release has no binding to the ${what}, and only it can write`,
  );
}

function withProcess<T>(
  { apps }: Writing,
  appId: string,
  purpose: 'SQL' | 'a write to its storage',
  use: (cell: LeasedCell) => Promise<T>,
): Promise<T> {
  return apps.withCell(appId, purpose, use, purpose === 'SQL').catch((error: unknown) => {
    const hasEnded = (error as NodeJS.ErrnoException).code === 'ECONNRESET';
    throw new ReadingRefused('app_unavailable', hasEnded ? ENDED : reason(error));
  });
}

function noResult(status: number): Error {
  return new Error(`the process answered with status ${status} and no result`);
}
