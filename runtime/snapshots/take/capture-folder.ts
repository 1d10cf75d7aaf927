// Captures an app's data in the bucket for a snapshot, while the app may run.
import { contentOf, each, LARGE_VALUE, OBJECT, readIfThere } from '../../bucket/app-folder.ts';
import type { S3Store } from '../../bucket/s3-store.ts';
import type { Stored } from '../../bucket/store.ts';
import { SerialQueue } from '../../queues/serial-queue.ts';
import type { FileEntry } from '../store/manifest.ts';

/** Most attempts to get consistent lists. */
const ROUNDS = 5;
/** The key of files that belong to no Durable Object, such as alarms, which an app may set again and again. */
const NONE = '';
/** The file that names the process of a Durable Object. */
const OWNER = /\/own\.json$/;

export interface FolderCapture {
  /** Returns what the previous snapshot has of a name. */
  before: (name: string) => FileEntry | undefined;
  /** Adds a name to the snapshot. */
  add: (name: string, stamp: string, bytes: Buffer) => Promise<FileEntry>;
}

/**
 * Reads a folder. Its first list has every write that was acknowledged before. Reads the files of a Durable Object that are in
 * one list. They are accepted when all could be read, and the next list has the same owner. Otherwise they are read again.
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

/** The state of each object's owner, by object. */
function ownersIn(listed: Stored[]): Map<string, string> {
  return new Map(
    listed.filter(({ name }) => OWNER.test(name)).map((stored) => [objectOf(stored), stored.etag]),
  );
}
