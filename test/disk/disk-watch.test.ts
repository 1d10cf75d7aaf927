// The free disk space monitor, on a small file system of its own.
// Runs as root too.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { DiskReserve } from '../../runtime/disk/disk-reserve.ts';
import { DiskWatch } from '../../runtime/disk/disk-watch.ts';
import { eventually } from '../support/processes.ts';
import { SmallDisk } from '../support/small-disk.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('the disk reserve is kept until a process that fills the disk can have been stopped, and is then released', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'disk-watch-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const data = join(directory, 'data');
  using disk = SmallDisk.mount(data, 100);
  if (disk === null) return t.skip(SmallDisk.why);
  const diskReserve = join(data, 'ballast');
  await new DiskReserve(diskReserve, 5).take();
  const watch = new DiskWatch({ directory: data, diskReserve, floorMb: 20 });
  t.after(() => watch.stop());
  const looks = { calm: 0, full: 0 };
  const { promise: seenFull, resolve } = Promise.withResolvers<boolean>();
  watch.start({
    makeRoom: async () => {},
    onLook: () => {
      looks[watch.freeMb < 5 ? 'full' : 'calm']++;
      if (looks.full === 1) resolve(existsSync(diskReserve));
    },
  });
  await eventually(() => looks.calm > 0, 'there is room at first');
  // The next check comes after 2 s, when the disk is already full.
  disk.fill();
  assert.ok(await seenFull, 'the first look that finds the disk full leaves the reserve');
  await eventually(() => !existsSync(diskReserve), 'the reserve is given up');
  assert.ok(looks.full > 4, `it was looked ${looks.full} times before that`);
  assert.ok(disk.freeMb >= 5);
});

test('a disk that runs out of inodes is short of space', (t) => {
  const data = join(temporaryDirectory(t), 'data');
  using disk = SmallDisk.mount(data, 100, 'tmpfs', 3_000);
  if (disk === null) return t.skip(SmallDisk.why);
  const watch = () => new DiskWatch({ directory: data, diskReserve: join(data, 'ballast'), floorMb: 20 });
  assert.equal(watch().short, false);
  for (let n = 0; n < 2_000; n++) writeFileSync(join(data, `${n}`), '');
  assert.equal(watch().short, true);
  assert.ok(disk.freeMb > 90);
});

test('a long wait for disk space leaks no listener, and ends when it is aborted', async (t) => {
  const directory = temporaryDirectory(t);
  const watch = new DiskWatch({ directory, diskReserve: join(directory, 'ballast'), floorMb: 1 });
  t.after(() => watch.stop());
  let looks = 0;
  watch.start({ makeRoom: async () => {}, onLook: () => looks++ });
  const giving = new AbortController();
  const waiting = watch.room(Number.POSITIVE_INFINITY, giving.signal);
  await eventually(() => looks > 1, 'the disk is looked at twice');
  assert.equal(getEventListeners(giving.signal, 'abort').length, 1);
  giving.abort();
  await waiting;
  assert.equal(getEventListeners(giving.signal, 'abort').length, 0);
  await watch.room(0, new AbortController().signal);
});

test('a clean-up that fails is not tried again at each look', async (t) => {
  const directory = temporaryDirectory(t);
  const watch = new DiskWatch({ directory, diskReserve: join(directory, 'ballast'), floorMb: 2 ** 40 });
  t.after(() => watch.stop());
  const counts = { looks: 0, tries: 0 };
  watch.start({
    makeRoom: async () => {
      counts.tries++;
      throw new Error('it does not work');
    },
    onLook: () => counts.looks++,
  });
  await eventually(() => counts.looks > 4, 'the disk is looked at some times');
  assert.equal(counts.tries, 1);
});
