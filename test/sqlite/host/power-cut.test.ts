// The host's database after a power cut.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { SmallDisk } from '../../support/small-disk.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = 'a'.repeat(16);
/** Makes an app's wanted state. Its text is long enough for occasional checkpoints. */
const wanted = (generation: number) =>
  ({ id: APP, slug: 'shop', generation, text: String(generation % 10).repeat(2 ** 20) }) as never;

test('synced commits survive a power cut, and unsynced ones leave the database usable', async (t) => {
  const root = temporaryDirectory(t);
  using disk = SmallDisk.mount(join(root, 'disk'), 96, 'ext4');
  if (disk === null) return t.skip(SmallDisk.why);
  const store = openHostStore(join(disk.path, 'host.sqlite'));
  /** Returns the app's generation after a power cut at this moment; null when the database is not made yet. */
  const left = (name: string): number | null => {
    using cut = disk.afterPowerCut(join(root, name));
    const path = join(cut.path, 'host.sqlite');
    const checked = new Database(path);
    const { user_version: isMade } = checked.prepare('PRAGMA user_version').get() as { user_version: number };
    assert.equal(checked.pragma('integrity_check', { simple: true }), 'ok');
    checked.close();
    if (isMade === 0) return null;
    const after = openHostStore(path);
    const generation = after.apps.generation(APP);
    after.close();
    return generation;
  };
  let unsynced = 0;
  for (let generation = 1; generation <= 36; generation++) {
    store.apps.want(wanted(generation));
    if (generation % 6 === 0) {
      const there = left(`before-${generation}`);
      assert.ok(there === null || there >= generation - 1, `${there} of ${generation}`);
      if (there !== generation) unsynced++;
    }
    await store.synced();
    if (generation % 6 === 0) assert.equal(left(`after-${generation}`), generation);
  }
  assert.ok(unsynced > 0, 'the cut takes what was not synced');
  store.close();
});
