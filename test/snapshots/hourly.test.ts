// Hourly snapshots, between the ordinary ones.
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HOURLY } from '../../runtime/snapshots/take/retention.ts';
import { eventually } from '../support/e2e/processes.ts';
import { fileOf, startSnapshots } from '../support/snapshots/host.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';
const EVERY_MS = 3_600_000;

test('an hour writes only what has changed in it, and an app returns to any of these hours', async (t) => {
  const { root, paths, snapshots, addApp } = startSnapshots(t);
  const contents = [addApp(SHOP, 'shop', 20 * 2 ** 20)];
  const heads = [(await snapshots.take('schedule')).head];
  for (const hour of [1, 2]) {
    const file = openSync(fileOf(paths.root, SHOP), 'r+');
    // One page of a database.
    writeSync(file, Buffer.alloc(4_096, hour), 0, 4_096, hour * 2 ** 20);
    closeSync(file);
    contents.push(readFileSync(fileOf(paths.root, SHOP)));
    heads.push((await snapshots.take(HOURLY)).head);
  }
  for (const [hour, head] of heads.entries()) {
    if (hour > 0) assert.ok(head.written < 200_000, `${head.written} bytes were written`);
    const into = join(root, `at-${hour}`);
    const between = new Date(Date.parse(head.created_at) + 1).toISOString();
    const restored = await snapshots.extract({ snapshot: { at: between }, app: SHOP, only: null, into });
    assert.equal(restored.head.id, head.id);
    assert.ok(readFileSync(join(into, 'data/kept/file')).equals(contents[hour]!), `hour ${hour}`);
  }
  const early = { at: new Date(Date.parse(heads[0]!.created_at) - 1).toISOString() };
  await assert.rejects(
    snapshots.extract({ snapshot: early, app: SHOP, only: null, into: join(root, 'early') }),
    /no snapshot from before .* has app a{16}; `cellar snapshots` lists them all/,
  );
});

test('hourly snapshots come between the ordinary ones, and so many are kept', async (t) => {
  const { snapshots, reopen, addApp } = startSnapshots(t);
  addApp(SHOP, 'shop', 1_000);
  await snapshots.take('schedule');
  const next = reopen({ everyMs: EVERY_MS, hourly: { everyMs: 50, hasRoom: () => true } });
  await next.start();
  const first = () => next.list().then((heads) => heads.filter(({ why }) => why === HOURLY).at(-1)?.id);
  await eventually(async () => (await first()) !== undefined, 'an hourly one is taken');
  const oldest = await first();
  await eventually(async () => (await first()) !== oldest, 'the oldest is removed');
  await next.stop();
  const whys = (await next.list()).map(({ why }) => why);
  assert.deepEqual(whys, [HOURLY, HOURLY, HOURLY, 'schedule']);

  // The next start, long after, takes an ordinary one.
  const later = reopen({ everyMs: 1_000, hourly: { everyMs: 500, hasRoom: () => true } });
  await later.start();
  const ordinary = async () => (await later.list()).filter(({ why }) => why === 'schedule').length;
  await eventually(async () => (await ordinary()) >= 2, 'an ordinary one is taken');
  await later.stop();
});

test('without disk space no hourly snapshot is taken', async (t) => {
  const { snapshots, reopen, addApp } = startSnapshots(t);
  addApp(SHOP, 'shop', 1_000);
  await snapshots.take('schedule');
  let asked = 0;
  const hasRoom = () => ++asked < 0;
  const next = reopen({ everyMs: EVERY_MS, hourly: { everyMs: 20, hasRoom } });
  await next.start();
  await eventually(() => asked >= 3, 'it asks again and again');
  await next.stop();
  assert.equal((await next.list()).length, 1);
});
