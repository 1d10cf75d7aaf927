// Captures an app's data in the bucket for a snapshot, while the app may run.
import { contentOf, each, LARGE_VALUE, OBJECT, readIfThere } from '../../bucket/app-folder.ts';
import type { S3Store } from '../../bucket/s3-store.ts';
import type { Stored } from '../../bucket/store.ts';
import { SerialQueue } from '../../queues/serial-queue.ts';
import type { FileEntry } from '../store/manifest.ts';

/** Maximum rounds of reading until all objects are consistent. */
const ROUNDS = 5;
/** Stands for all files of no Durable Object, such as alarms. They may change at any time: the last round accepts them. */
const NONE = '';
/** The file that names the process which owns a Durable Object. */
const OWNER = /\/own\.json$/;

export interface FolderCapture {
  /** Returns the previous snapshot's file of this name. */
  before: (name: string) => FileEntry | undefined;
  /** Adds an object of the bucket to the snapshot. */
  add: (name: string, stamp: string, bytes: Buffer) => Promise<FileEntry>;
}

/**
 * Reads a folder. The first list has every write that was acknowledged before. Each round reads the files of the latest
 * list. It accepts a Durable Object's files when all could be read, and the next list has the same owner process for the
 * object. Otherwise the next round reads the object again.
 * @throws {Error} when an object changes its owner, or is compacted, in every round
 */
export async function captureFolder(store: S3Store, { before, add }: FolderCapture): Promise<FileEntry[]> {
  const read = new Map<string, FileEntry>();
  const adding = new SerialQueue();
  const accepted: FileEntry[] = [];
  let listed = await contentOf(store);
  let pending = new Set(listed.map(objectOf));
  for (let round = 0; round < ROUNDS; round++) {
    const missing = new Set<string>();
    const wanted = listed.filter((each) => pending.has(objectOf(each)));
    await each(wanted, async (stored) => {
      const { name, etag } = stored;
      const known = [read.get(name), before(name)].find((file) => file?.stamp === etag);
      const bytes = known === undefined ? await readIfThere(store, name) : null;
      const file = known ?? (bytes && (await adding.run(() => add(name, etag, bytes))));
      if (file) read.set(name, file);
      else missing.add(objectOf(stored));
    });
    const next = await contentOf(store);
    const [owners, nextOwners] = [ownersIn(listed), ownersIn(next)];
    const isLast = round === ROUNDS - 1;
    const isWhole = (object: string) =>
      object === NONE
        ? isLast || !missing.has(NONE)
        : !missing.has(object) && owners.get(object) === nextOwners.get(object);
    for (const stored of wanted) {
      const file = read.get(stored.name);
      if (file !== undefined && isWhole(objectOf(stored))) accepted.push(file);
    }
    pending = new Set([...pending].filter((object) => !isWhole(object)));
    if (pending.size === 0) return accepted;
    listed = next;
  }
  throw new Error('its objects were moved repeatedly while they were read');
}

/** Returns the Durable Object that a name belongs to, or `NONE`. */
function objectOf({ name }: Stored): string {
  return OBJECT.exec(name)?.[1] ?? LARGE_VALUE.exec(name)?.[1] ?? NONE;
}

/** Returns the etag of the file that names the owner, by Durable Object. */
function ownersIn(listed: Stored[]): Map<string, string> {
  return new Map(
    listed.filter(({ name }) => OWNER.test(name)).map((stored) => [objectOf(stored), stored.etag]),
  );
}
