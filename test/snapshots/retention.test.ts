// Which snapshots are kept.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DirectoryStore } from '../../runtime/snapshots/directory-store.ts';
import { idAt, listSnapshots, writeManifest } from '../../runtime/snapshots/manifest.ts';
import { FOR_CLASSES, removeOld } from '../../runtime/snapshots/retention.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('snapshots that deploys asked for push out none of the others', async (t) => {
  const store = new DirectoryStore(temporaryDirectory(t));
  const now = Date.now();
  const write = async (minute: number, why: string) => {
    const created = new Date(now + minute * 60_000);
    const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why };
    await writeManifest(store, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
    return about.id;
  };
  const ids: string[] = [];
  for (const minute of [0, 1, 2]) ids.push(await write(minute, 'schedule'));
  for (const minute of [3, 4, 5, 6]) ids.push(await write(minute, `${FOR_CLASSES} of many`));
  const keep = { count: 2, days: 0, youngMs: 0 };
  await removeOld(store, keep, { sweep: false, warn: assert.fail });
  assert.deepEqual(await listSnapshots(store), [ids[1], ids[2], ids[5], ids[6]]);
});
