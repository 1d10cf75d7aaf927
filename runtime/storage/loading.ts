// Loads objects of an app in the bucket into its process, whose files on this disk can then be read.
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { LeasedCell } from '../fleets/admission/leasing.ts';
import { askSocket } from '../sockets/ask-socket.ts';
import { ReadingRefused } from './reading.ts';

/** Most objects that one reading loads. Each takes some milliseconds, and a file on the disk. */
const MOST_OBJECTS = 2_000;
const ANSWER_BYTES = 64 * 1024;

/** What a reading needs on the disk. */
export interface Needed {
  /** Ids of objects by the unique key of their namespace; `all` for every object of it. */
  objects: Record<string, string[] | 'all'>;
  /** A value of KV that may be large. `namespace`: its storage id. */
  value?: { namespace: string; key: string };
}

/**
 * Loads objects, and resolves when their files can be read.
 * @throws {ReadingRefused} when there are too many, or the live release does not bind their namespace
 */
export async function loadNeeded(
  cluster: AppCluster,
  { loadPath, signal }: LeasedCell,
  { objects, value = undefined }: Needed,
): Promise<void> {
  const stored = await cluster.objects(Object.keys(objects), signal);
  // Loading a missing object would make it.
  const ids = Object.fromEntries(
    Object.entries(objects).map(([key, wanted]) => [
      key,
      Object.keys(stored[key]!).filter((id) => wanted === 'all' || wanted.includes(id)),
    ]),
  );
  const count = Object.values(ids).reduce((sum, each) => sum + each.length, 0);
  if (count > MOST_OBJECTS)
    throw new ReadingRefused(
      'answer_too_large',
      `this reads ${count} objects from the bucket, and at most ${MOST_OBJECTS} are read at once`,
    );
  const body = JSON.stringify({ objects: ids, value: value ?? null });
  const request = { method: 'POST', body, limitBytes: ANSWER_BYTES, signal };
  const { status, text } = await askSocket(loadPath, request);
  if (status !== 200 || text === null)
    throw new ReadingRefused('storage_unreadable', 'the storage could not be loaded from the bucket');
  const { unbound } = JSON.parse(text) as { unbound: string[] };
  if (unbound.length > 0)
    throw new ReadingRefused(
      'storage_unreadable',
      'the live release does not bind it: of an app in the bucket, only bound storage can be read. Deploy a release that binds it',
    );
}
