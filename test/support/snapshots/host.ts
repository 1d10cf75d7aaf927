// A host's data directory with apps that store files, and its snapshots, without the rest of a host.
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { claim, layout } from '../../../runtime/disk/data-directory.ts';
import { Snapshots, type SnapshotsOptions } from '../../../runtime/snapshots/snapshots.ts';
import { openStore, type StorePlace } from '../../../runtime/snapshots/store/place.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { temporaryDirectory } from '../temporary.ts';

/** Starts snapshots of a new data directory. They are stored in `given.place`; default: a temporary directory. */
export function startSnapshots(t: TestContext, given: Partial<SnapshotsOptions> = {}) {
  const root = temporaryDirectory(t);
  const paths = layout(join(root, 'data'));
  t.after(claim(paths));
  const store = openHostStore(paths.database);
  const place: StorePlace = given.place ?? { directory: join(root, 'snapshots') };
  const opened: Snapshots[] = [];
  /** Opens the snapshots anew, as a host does at its start. */
  const reopen = (changes: Partial<SnapshotsOptions> = {}): Snapshots => {
    const snapshots = new Snapshots({
      ...{
        store,
        paths,
        place,
        everyMs: null,
        hourly: null,
        verifyMs: null,
        hasUsers: false,
        bucket: null,
        hosts: null,
      },
      floorMb: 1,
      keep: { count: 10, hourly: 3, days: 0, youngMs: 0 },
      holdBuckets: async () => {},
      onDamaged: () => {},
      onTaken: () => {},
      ...given,
      ...changes,
    });
    opened.push(snapshots);
    return snapshots;
  };
  const snapshots = reopen();
  t.after(async () => {
    for (const each of opened) await each.stop();
    store.close();
  });
  /** Adds an app with a file of `bytes` random bytes and an old modification time. @returns the content */
  const addApp = (id: string, slug: string, bytes: number): Buffer => {
    const wanted = { id, slug, generation: 1, desired_state: 'running', asleep: false };
    store.apps.want({ ...wanted, hostnames: [], env: {} } as unknown as WantedApp);
    const path = fileOf(paths.root, id);
    mkdirSync(dirname(path), { recursive: true });
    const content = randomBytes(bytes);
    writeFileSync(path, content);
    utimesSync(path, 1, 1);
    return content;
  };
  /** Extracts an app from a snapshot and returns the content of its file. */
  const restored = async (snapshot: string, app: string, of = snapshots): Promise<Buffer> => {
    const into = join(root, `restored-${randomBytes(4).toString('hex')}`);
    await of.extract({ snapshot: { key: snapshot }, app, only: null, into: { directory: into, floorMb: 0 } });
    return readFileSync(join(into, 'data', 'kept', 'file'));
  };
  return { root, paths, hostStore: store, store: openStore(place), snapshots, reopen, addApp, restored };
}

/** Returns the path of the file that `addApp` writes. */
export function fileOf(root: string, id: string): string {
  return join(root, 'data', id, 'kept', 'file');
}
