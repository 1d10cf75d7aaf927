// Finds an app in the snapshots.
import { NotThere, Unusable } from '../errors.ts';
import {
  type Head,
  listSnapshots,
  type Manifest,
  type Part,
  readManifest,
  timeOf,
} from '../store/manifest.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';

/** A snapshot by its key, or the newest one that had read all apps by a time (`at`, in ISO 8601). */
export type Which = { key: string } | { at: string };

/** Maximum number of snapshots that are read to find one with the app: snapshots of other hosts may lack it. */
const MOST_READ = 50;

/**
 * Finds an app in the named snapshot, or in the newest snapshot by a time.
 * @param of the id of this Cellar
 * @throws {NotThere} when no such snapshot has the app; {Unusable} when a snapshot is damaged, or of another Cellar
 */
export async function findApp(
  store: SnapshotStore,
  of: string,
  which: Which,
  app: string,
): Promise<{ head: Head; part: Part }> {
  if ('key' in which) {
    const manifest = await readOwn(store, of, which.key);
    const part = partOf(manifest, app);
    // An app that could never be read has no files to restore.
    const isEmpty = part?.files.length === 0 && hasFailed(manifest, part);
    if (part === undefined || isEmpty) throw new NotThere(`snapshot ${which.key} has no app ${app}`);
    return { head: manifest.head, part };
  }
  const at = Date.parse(which.at);
  const ids = (await listSnapshots(store)).filter((id) => timeOf(id) <= at).reverse();
  for (const id of ids.slice(0, MOST_READ)) {
    const manifest = await readOwn(store, of, id);
    const part = partOf(manifest, app);
    const { read_at, created_at } = manifest.head;
    // Skips a snapshot that may have writes from after `at`, or that has only an earlier snapshot's files of the app.
    const isEarly = Date.parse(read_at || created_at) <= at;
    if (part !== undefined && isEarly && !hasFailed(manifest, part)) return { head: manifest.head, part };
  }
  throw new NotThere(
    `no snapshot from before ${which.at} has app ${app}; \`cellar snapshots\` lists them all`,
  );
}

async function readOwn(store: SnapshotStore, of: string, key: string): Promise<Manifest> {
  const manifest = await readManifest(store, key);
  if (manifest.head.of !== of)
    throw new Unusable(`snapshot ${key} is of another Cellar (${manifest.head.of}, this one is ${of})`);
  return manifest;
}

/** Whether the app could not be read, so that its files are those of an earlier snapshot. */
function hasFailed({ head }: Manifest, { id, failed }: Part): boolean {
  return failed === true || head.failures.some(({ app }) => app === id);
}

function partOf({ parts }: Manifest, app: string): Part | undefined {
  return parts.find(({ kind, id }) => kind === 'app' && id === app);
}
