// Snapshots of a host whose clock was ahead and then set back.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { claim, layout } from '../../runtime/disk/data-directory.ts';
import { Snapshots } from '../../runtime/snapshots/snapshots.ts';
import { idAt, listSnapshots, writeManifest } from '../../runtime/snapshots/store/manifest.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const YEAR_MS = 365 * 24 * 3_600_000;

test('after a snapshot dated a year ahead the next one comes in time, and is the newest', async (t) => {
  const root = temporaryDirectory(t);
  const paths = layout(join(root, 'data'));
  t.after(claim(paths));
  const store = openHostStore(paths.database);
  const place = join(root, 'snapshots');
  const snapshots = new Snapshots({
    ...{
      store,
      paths,
      place: { directory: place },
      everyMs: 100,
      hourly: null,
      verifyMs: null,
      bucket: null,
      hosts: null,
    },
    keep: { count: 1, hourly: 0, days: 0, youngMs: 0 },
    floorMb: 1,
    hasUsers: false,
    holdBuckets: async () => {},
    onDamaged: () => {},
    onTaken: () => {},
  });
  t.after(async () => {
    await snapshots.stop();
    store.close();
  });
  const ahead = new Date(Date.now() + YEAR_MS);
  const about = { id: idAt(ahead), of: store.snapshots.cellar(), created_at: ahead.toISOString(), why: '' };
  const there = openStore({ directory: place });
  await writeManifest(there, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
  await snapshots.start();
  assert.equal(snapshots.state.last_at, about.created_at);
  await eventually(() => snapshots.state.last_at !== about.created_at, 'the next one is taken');
  assert.ok(Date.parse(snapshots.state.last_at!) <= Date.now());
  await snapshots.stop();
  const [kept, ...others] = await listSnapshots(there);
  assert.ok(kept! > about.id && others.length === 0, `${kept}, ${others}`);
});
