// Loads Durable Objects from the bucket into a process of their app. Readers then use the process's files on this disk.
import type { AppCluster } from '../bucket/app-cluster.ts';
import { type ListedObjects, MOST_LISTED } from '../bucket/app-folder.ts';
import type { LeasedCell } from '../fleets/admission/leasing.ts';
import { askSocket } from '../sockets/ask-socket.ts';
import { ReadingRefused } from './reading.ts';

const ANSWER_BYTES = 64 * 1024;

/** The objects and the value that a storage query reads, and so needs on the disk. */
export interface Needed {
  /** Objects by the unique key of their namespace. */
  objects: Record<string, ListedObjects>;
  /** A KV value, which may be in an object of its own in the bucket. `namespace`: the namespace's storage id. */
  value?: { namespace: string; key: string };
}

/**
 * Loads objects, and resolves when their files can be read.
 * @throws {ReadingRefused} for too many objects, a refused load, or a namespace without a binding in the live release
 */
export async function loadNeeded(
  cluster: AppCluster,
  { loadPath, signal }: LeasedCell,
  { objects, value = undefined }: Needed,
): Promise<void> {
  // Loads only existing objects: loading a missing one would create it.
  const found = await cluster.objects(objects, signal);
  const ids = Object.fromEntries(
    Object.entries(found).map(([key, { listed }]) => [key, Object.keys(listed)]),
  );
  const isTooMuch = Object.values(ids).some((each) => each.length > MOST_LISTED);
  if (isTooMuch)
    throw new ReadingRefused(
      'answer_too_large',
      `the read needs more than ${MOST_LISTED} objects from the bucket; at most ${MOST_LISTED} are read at once`,
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
      'the live release has no binding for this storage; deploy one that has, then read again',
    );
}
