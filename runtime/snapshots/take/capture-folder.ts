// Captures an app's data in the bucket for a snapshot, while the app may run.
import { contentOf, each, readIfThere } from '../../bucket/app-folder.ts';
import type { S3Store } from '../../bucket/s3-store.ts';
import { SerialQueue } from '../../queues/serial-queue.ts';
import type { FileEntry } from '../store/manifest.ts';

/** Most lists of a folder whose objects are moved meanwhile. */
const ROUNDS = 5;
/** The object that names which process has a Durable Object. */
const OWNER = /\/own\.json$/;

export interface FolderCapture {
  /** Returns what the previous snapshot has of an object. */
  before: (name: string) => FileEntry | undefined;
  /** Adds an object to the snapshot. */
  add: (name: string, stamp: string, bytes: Buffer) => Promise<FileEntry>;
}

/**
 * Reads a folder. A list has every write that was acknowledged before it. The folder is listed again while objects are removed
 * or get another owner: then the parts that were read may not fit each other.
 */
export async function captureFolder(store: S3Store, { before, add }: FolderCapture): Promise<FileEntry[]> {
  const read = new Map<string, FileEntry>();
  const adding = new SerialQueue();
  let owners: string | null = null;
  for (let round = 0; round < ROUNDS; round++) {
    const listed = await contentOf(store);
    const found: FileEntry[] = [];
    await each(listed, async ({ name, etag }) => {
      const known = [read.get(name), before(name)].find((file) => file?.stamp === etag);
      const bytes = known === undefined ? await readIfThere(store, name) : null;
      const file = known ?? (bytes && (await adding.run(() => add(name, etag, bytes))));
      if (!file) return;
      read.set(name, file);
      found.push(file);
    });
    const last: string | null = owners;
    owners = JSON.stringify(
      listed.filter(({ name }) => OWNER.test(name)).map(({ name, etag }) => [name, etag]),
    );
    if (found.length === listed.length && owners === last) return found;
  }
  throw new Error('its objects were moved repeatedly while they were read');
}
