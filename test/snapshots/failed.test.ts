// Snapshots that fail: they leave nothing on the disk that would keep it full.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isOnDiskOf } from '../../runtime/disk/disk.ts';
import { packName } from '../../runtime/snapshots/store/packs.ts';
import { startSnapshots } from '../support/snapshots/host.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';
/** Larger than a pack of 16 MiB, so that the shop's data is written before the snapshot fails. */
const LARGE = 17 * 2 ** 20;
const LEFT = packName('0'.repeat(64));

test('a failed snapshot leaves no packs, and no copies of databases', async (t) => {
  const { root, paths, store, snapshots, addApp, restored } = startSnapshots(t);
  addApp('bbbbbbbbbbbbbbbb', 'blog', 1_000);
  await snapshots.take('a test');
  const before = await store.list(packName(''));
  const shop = addApp(SHOP, 'shop', LARGE);
  const database = join(paths.control, 'damaged.sqlite');
  mkdirSync(paths.control, { recursive: true });
  writeFileSync(database, 'SQLite format 3\0 and no more'.padEnd(8_192));
  await assert.rejects(snapshots.take('a test'), /not a database|malformed/);
  assert.deepEqual(await store.list(packName('')), before);
  assert.deepEqual(readdirSync(join(root, 'snapshots', 'unfinished')), []);
  assert.equal(existsSync(paths.snapshotting), false);
  rmSync(database);
  assert.ok((await restored((await snapshots.take('a test')).head.id, SHOP)).equals(shop));
});

test('files that a killed snapshot left are removed before the next one writes', async (t) => {
  const { store, addApp, snapshots, reopen } = startSnapshots(t);
  addApp(SHOP, 'shop', 1_000);
  await snapshots.take('a test');
  for (const name of [LEFT, 'unfinished/mark']) await store.write(name, Buffer.from('left'));
  const full = reopen({ floorMb: 2 ** 40 });
  await assert.rejects(
    full.take('a test'),
    /the disk of \/.*\/snapshots has \d+ MiB free\. A write needs 1, and \d+ must stay free \(RUNNER_DISK_FLOOR_MB\)/,
  );
  assert.ok(!(await store.list(packName(''))).some(({ name }) => name === LEFT));
  assert.equal((await full.list()).length, 1);
});

test('on a full disk the snapshots beyond the limits are removed first, but not the newest', async (t) => {
  const { store, addApp, snapshots, restored, reopen } = startSnapshots(t);
  addApp(SHOP, 'shop', LARGE);
  await snapshots.take('a test');
  const shop = addApp(SHOP, 'shop', 2_000);
  const { head } = await snapshots.take('a test');
  const packs = async () => (await store.list(packName(''))).length;
  const before = await packs();
  const full = reopen({ floorMb: 2 ** 40, keep: { count: 1, hourly: 3, days: 0, youngMs: 0 } });
  await assert.rejects(full.take('a test'), /MiB free\. A write needs 1, and \d+ must stay free/);
  assert.deepEqual(
    (await full.list()).map(({ id }) => id),
    [head.id],
  );
  assert.ok((await packs()) < before);
  assert.ok((await restored(head.id, SHOP)).equals(shop));
});

test('a directory is on the disk of the nearest directory above it that exists', (t) => {
  const { root, paths } = startSnapshots(t);
  assert.equal(isOnDiskOf(join(root, 'missing', 'snapshots'), paths.root), true);
  assert.equal(isOnDiskOf('/proc/missing', paths.root), false);
});
