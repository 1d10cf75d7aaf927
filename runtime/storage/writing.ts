// Changes an app's storage through a process of the app: no other process may write to the storage.
import { KV_VALUE_MS } from '../../handlers/contract/host/deadlines.ts';
import type { KvWrite } from '../../handlers/contract/host/host-storage.ts';
import type { Apps } from '../apps/apps.ts';
import type { LeasedCell } from '../fleets/admission/leasing.ts';
import { reason } from '../log.ts';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { askSocket, askSocketForBytes, type StreamedBody } from '../sockets/ask-socket.ts';
import { find, type Stored } from './places.ts';
import { ReadingRefused } from './reading.ts';
import type { StorageQueries } from './storage-queries.ts';

/** Maximum bytes of the answer to a write of a KV value. It has at most an error message. */
const KV_ANSWER_BYTES = 64 * 1024;
/** Maximum bytes of an answer to SQL. The process that answers has a lower limit. */
const DATABASE_ANSWER_BYTES = 11 * 1024 * 1024;

/** SQL requests are limited, because each running one has its body and answer in the host's memory. */
const LIMITS = { name: 'SQL requests', running: 8, runningPerOwner: 4, waitingPerOwner: 100 };
const queue = new FairQueue(LIMITS);

const ENDED = "the app's process ended before it had answered; check whether the write was done";

interface Writing {
  apps: Apps;
  storageQueries: StorageQueries;
}

/** SQL for one of an app's databases. */
export interface DatabaseRequest {
  /** The database's id, binding or name. */
  database: string;
  /** What the body is: queries as JSON, or an SQL file. Either runs as one transaction. */
  kind: 'query' | 'import';
  /** Reads the body. Called when the request's turn comes. */
  body: () => Promise<Buffer>;
  /** Aborted when the client has disconnected. */
  signal: AbortSignal | undefined;
}

/**
 * Runs SQL in a process of the app. If the app sleeps, a process is started for the SQL, and the app still counts as
 * asleep.
 * One app's requests run one by one, and accounts take turns.
 * @returns unparsed JSON: a `DatabaseAnswer`
 * @throws {ReadingRefused} when the database is unknown or not bound, no process answers, or the queue is full
 * @throws the signal's reason when the signal aborts before the request's turn
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

/**
 * Changes a value of a KV namespace through the app's process.
 * @param value the new value, streamed to the process; null to delete the key
 * @param left aborts when the client has disconnected
 * @throws {ReadingRefused} when the namespace is unknown or not bound, no process answers, or the process refuses the write
 */
export async function writeValue(
  writing: Writing,
  appId: string,
  { of, ...write }: KvWrite,
  value: StreamedBody | null,
  left: AbortSignal,
): Promise<void> {
  const { namespaces } = await writing.storageQueries.places(appId);
  const { binding } = bound(find(namespaces, of), `namespace ${of}`);
  const asked = JSON.stringify({ kind: 'kv', binding, value: null, ...write });
  const sent =
    value === null
      ? { method: 'POST', body: asked }
      : { method: 'PUT', body: value, path: `/?${new URLSearchParams({ asked })}` };
  const answer = await withProcess(
    writing,
    appId,
    'a write to its storage',
    async ({ socketPath, signal }) => {
      const ended = AbortSignal.any([signal, left]);
      const request = { ...sent, limitBytes: KV_ANSWER_BYTES, signal: ended };
      const { status, text } = await askSocket(socketPath, request);
      if (text === null || status !== 200) throw noResult(status);
      return JSON.parse(text) as { failed?: unknown };
    },
  );
  if ('failed' in answer) throw new ReadingRefused('query_failed', String(answer.failed).replace(/\.$/, ''));
}

/** Returns `found`. @throws {ReadingRefused} without a binding in the live release: a process has only bound storage */
function bound(found: Stored | undefined, what: string): Stored {
  if (found === undefined) throw new ReadingRefused('storage_not_found', `the app has no ${what}`);
  if (found.binding !== null) return found;
  throw new ReadingRefused(
    'storage_not_found',
    `the live release has no binding to the ${what}: only bound storage can be written`,
  );
}

function withProcess<T>(
  { apps }: Writing,
  appId: string,
  purpose: 'SQL' | 'a write to its storage',
  use: (cell: LeasedCell) => Promise<T>,
): Promise<T> {
  return apps
    .withCell(appId, purpose, use, purpose === 'SQL' ? { mayBlock: true } : { ms: KV_VALUE_MS })
    .catch((error: unknown) => {
      const hasEnded = (error as NodeJS.ErrnoException).code === 'ECONNRESET';
      throw new ReadingRefused('app_unavailable', hasEnded ? ENDED : reason(error));
    });
}

function noResult(status: number): Error {
  return new Error(`the process answered with status ${status} and no result`);
}
