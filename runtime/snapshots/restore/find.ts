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

/** A snapshot by its key, or the last one with the app that was taken until a time. ISO 8601. */
export type Which = { key: string } | { at: string };

/** Most snapshots that are read to find one with the app: those of other hosts lack it. */
const MOST_READ = 50;

/**
 * @param of the id of this Cellar
 * @throws {NotThere} when no snapshot has the app; {Unusable} when the snapshot is damaged, or of another Cellar
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
    if (part === undefined) throw new NotThere(`snapshot ${which.key} has no app ${app}`);
    return { head: manifest.head, part };
  }
  const ids = (await listSnapshots(store)).filter((id) => timeOf(id) <= Date.parse(which.at)).reverse();
  for (const id of ids.slice(0, MOST_READ)) {
    const manifest = await readOwn(store, of, id);
    const part = partOf(manifest, app);
    if (part !== undefined) return { head: manifest.head, part };
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

function partOf({ parts }: Manifest, app: string): Part | undefined {
  return parts.find(({ kind, id }) => kind === 'app' && id === app);
}
