// The limit of an app's storage on the disk, with real directories and processes that exist only by pid.
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Disk, type LimitedApp, StorageLimits } from '../../runtime/apps/storage-limits.ts';
import type { HeldRow } from '../../sqlite/host/held.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const MB = Buffer.alloc(2 ** 20, 'x');

/** Makes one app with a directory. `keep(n)` stores n MiB in it, and adds them to the kernel's count of written bytes. */
function world(t: TestContext, maxMb: number, disk: Partial<Disk> = {}, held: [string, HeldRow][] = []) {
  const data = join(temporaryDirectory(t), 'data');
  mkdirSync(data);
  const rows = new Map<string, HeldRow>(held);
  const told: string[] = [];
  const app: LimitedApp = {
    ...{
      id: 'app',
      slug: 'app',
      directories: [data],
      countedWith: [],
      pid: 1,
      writtenBytes: 0,
      isHeld: false,
    },
    hold: async (why) => {
      told.push(why);
      Object.assign(app, { isHeld: true, pid: null, writtenBytes: 0 });
    },
    letGo: async () => {
      told.push('go');
      app.isHeld = false;
    },
  };
  const others: LimitedApp[] = [];
  const room: Disk = { short: false, keen: true, freeMb: 1_000, floorMb: 64, ...disk };
  const limits = new StorageLimits({
    held: { all: () => rows, set: (id, row) => rows.set(id, row), delete: (id) => void rows.delete(id) },
    maxMb,
    disk: room,
    apps: () => [{ ...app }, ...others],
  });
  t.after(() => limits.stop());
  const keep = (megabytes: number) => {
    // The rename is atomic: a check under way sees all of it, or nothing.
    const whole = `${data}.whole`;
    for (let n = 0; n < megabytes; n++) writeFileSync(whole, MB, { flag: 'a' });
    renameSync(whole, join(data, 'file'));
    app.writtenBytes += megabytes * MB.length;
  };
  const start = () => Object.assign(app, { isHeld: false, pid: 2, writtenBytes: 0 });
  const until = (condition: () => boolean, what: string) =>
    eventually(() => {
      limits.look();
      return condition();
    }, what);
  return { app, others, told, rows, room, limits, keep, start, until };
}

test('an app over its limit is stopped with one chance to tidy up, then without, and released when it keeps less', async (t) => {
  const { app, told, rows, keep, start, until } = world(t, 20);
  keep(10);
  await until(() => rows.size === 0 && told.length === 0, 'nothing is said of 10 MiB');
  keep(22);
  await until(() => app.isHeld, 'it is stopped');
  assert.match(
    told[0]!,
    /takes 2[23] MiB on the disk, more than the 20 MiB .* takes at most 19 MiB\. .* may then grow by 2 MiB$/,
  );
  assert.equal(rows.get('app')?.cause, 'limit');
  start();
  keep(23);
  await until(() => rows.size === 0, 'its start is seen');
  assert.ok(!app.isHeld, 'it may grow a little');
  keep(30);
  await until(() => app.isHeld, 'it is stopped again');
  assert.match(told[1]!, /or the operator raises the limit$/);
  keep(5);
  await until(() => !app.isHeld, 'it is let go');
  assert.equal(told.at(-1), 'go');
  assert.equal(rows.size, 0);
});

test('an app that was stopped before the host’s start may tidy up too when it is started', async (t) => {
  const { app, told, keep, until } = world(t, 20, {}, [['app', { cause: 'limit', why: 'it kept too much' }]]);
  keep(22);
  let looks = 0;
  await until(() => ++looks > 20, 'it is looked at');
  assert.ok(!app.isHeld, 'it may grow a little');
  keep(30);
  await until(() => app.isHeld, 'it is stopped again');
  assert.match(told[0]!, /or the operator raises the limit$/);
});

test('a preview is stopped when it and its app keep too much, and the app goes on', async (t) => {
  const { app, others, told, keep, until } = world(t, 20);
  const data = join(temporaryDirectory(t), 'parent');
  mkdirSync(data);
  for (let n = 0; n < 15; n++) writeFileSync(join(data, 'file'), MB, { flag: 'a' });
  const hold = async () => assert.fail('the app is stopped');
  others.push({ ...app, id: 'parent', slug: 'parent', directories: [data], hold });
  app.countedWith = ['parent'];
  keep(2);
  let looks = 0;
  await until(() => ++looks > 20, 'it is looked at');
  assert.ok(!app.isHeld);
  keep(10);
  await until(() => app.isHeld, 'it is stopped');
  assert.match(told[0]!, /this preview, its app and other previews takes 2[56] MiB/);
});

test('without a limit no app is stopped while the disk has space', async (t) => {
  const { app, limits, keep, until } = world(t, 0);
  let looks = 0;
  keep(30);
  await until(() => ++looks > 20, 'it is looked at');
  await limits.stop();
  assert.ok(!app.isHeld);
});

test('on a nearly full disk the growing app is stopped, another is not, and both may continue when there is space', async (t) => {
  const { app, told, room, keep, until, limits } = world(t, 0);
  keep(3);
  limits.look();
  Object.assign(room, { short: true, freeMb: 20 });
  keep(30);
  await until(() => app.isHeld, 'it is stopped');
  assert.match(told[0]!, /almost full \(20 MiB free.*this one wrote the most/);
  await until(() => app.isHeld, 'it stays so while room is short');
  Object.assign(room, { short: false, freeMb: 200 });
  await until(() => !app.isHeld, 'it is let go');

  const quiet = world(t, 0, { short: true, freeMb: 20 });
  quiet.keep(2);
  let looks = 0;
  await quiet.until(() => ++looks > 20, 'it is looked at');
  assert.ok(!quiet.app.isHeld);
});

test('data in the bucket is counted while its process writes, and costs no request otherwise', async (t) => {
  const { app, told, limits, until } = world(t, 10);
  let [bytes, counted] = [0, 0];
  Object.assign(app, {
    pid: null,
    bytesInBucket: async () => {
      counted++;
      return bytes;
    },
  });
  for (let look = 0; look < 5; look++) limits.look();
  assert.deepEqual([counted, limits.sizeOf('app')], [0, null], 'it sleeps');
  app.pid = 1;
  await until(() => limits.sizeOf('app') !== null, 'it is measured once it runs');
  for (let look = 0; look < 5; look++) limits.look();
  assert.equal(counted, 1, 'it has written nothing since');
  bytes = 20 * 2 ** 20;
  app.writtenBytes = bytes;
  await until(() => app.isHeld, 'it is over its limit');
  assert.match(told[0]!, /its data takes 2[01] MiB/);
});
