// The releases of an app in the bucket.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { closeTransfers } from '../../../runtime/bucket/code/code-folder.ts';
import { MissingObject } from '../../../runtime/bucket/store.ts';
import { freeMegabytes } from '../../../runtime/disk/disk.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { openReleases } from '../../support/bucket/releases.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

after(closeTransfers);

const FOLDER = 'of/cellar/apps/app1/releases/';
const MB = 2 ** 20;

const stored = (store: MemoryStore) =>
  [...store.objects.keys()]
    .filter((name) => name.startsWith(FOLDER))
    .map((name) => name.slice(FOLDER.length));

test('a release comes back whole, once for all who ask for it', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, directory } = openReleases(t, store);
  place('d1');
  await open().store('d1');
  assert.deepEqual(stored(store), ['d1.tar.gz']);
  await rm(directory('d1'), { recursive: true });
  const releases = open();
  await Promise.all([releases.load('d1'), releases.load('d1')]);
  assert.equal(store.asked.filter(({ method }) => method === 'GET').length, 1);
  assert.equal(readFileSync(join(directory('d1'), 'assets/deep/-a name with ü'), 'utf8'), 'an asset');
  assert.equal(readFileSync(join(directory('d1'), 'linked'), 'utf8'), 'd1');
  assert.equal(statSync(join(directory('d1'), 'release.json')).mode & 0o777, 0o640);
});

test('a release that nobody has is missing, and half a one is never placed', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, directory } = openReleases(t, store);
  await assert.rejects(open().load('none'), MissingObject);
  place('d1');
  await open().store('d1');
  await rm(directory('d1'), { recursive: true });
  const archive = store.objects.get(`${FOLDER}d1.tar.gz`)!;
  store.objects.set(`${FOLDER}d1.tar.gz`, { ...archive, body: archive.body.subarray(0, 60) });
  const releases = open();
  await assert.rejects(releases.load('d1'), /tar/);
  assert.ok(!existsSync(directory('d1')));
  store.objects.set(`${FOLDER}d1.tar.gz`, archive);
  await releases.load('d1');
  assert.ok(existsSync(directory('d1')));
});

test('a release with a link, a pipe, or rights of root is refused by name', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, directory } = openReleases(t, store);
  const [d1, assets] = [directory('d1'), join(directory('d1'), 'assets')];
  const hostile: [string, () => void][] = [
    ['release.json', () => symlinkSync('/etc/hostname', join(d1, 'release.json'))],
    ['assets/up', () => symlinkSync('../../../..', join(assets, 'up'))],
    ['assets/pipe', () => execFileSync('mkfifo', [join(assets, 'pipe')])],
    ['pipe', () => execFileSync('mkfifo', [join(d1, 'pipe')])],
    [
      'assets/root',
      () => {
        writeFileSync(join(assets, 'root'), '#!/bin/sh');
        chmodSync(join(assets, 'root'), 0o4755);
      },
    ],
  ];
  for (const [path, make] of hostile) {
    place('d1');
    if (path === 'release.json') await rm(join(d1, path));
    make();
    await open().store('d1');
    await rm(d1, { recursive: true });
    await assert.rejects(
      open().load('d1'),
      new RegExp(`something other than plain files and folders: "${path}". Deploy the app again$`),
    );
    assert.ok(!existsSync(d1));
    assert.ok(!existsSync(`${d1}.new`));
  }
});

test('a release that unpacks to more than the disk has room for is refused, and so is a larger archive', async (t) => {
  await using store = await new MemoryStore().start();
  const first = openReleases(t, store);
  first.place('d1');
  const bomb = openSync(join(first.directory('d1'), 'assets', 'zeros'), 'w');
  ftruncateSync(bomb, 200 * MB);
  closeSync(bomb);
  await first.open().store('d1');
  const archive = store.objects.get(`${FOLDER}d1.tar.gz`)!;
  assert.ok(archive.body.length < MB);
  /**
   * Loads the release where it may take 20 MB of the disk. Tries again when other programs have taken that space first.
   * @returns the message of the refusal
   */
  const refusal = async (): Promise<string> => {
    for (;;) {
      const floorMb = freeMegabytes(temporaryDirectory(t)) - 20;
      const { open, directory } = openReleases(t, store, { floorMb });
      const [{ reason }] = (await Promise.allSettled([open().load('d1')])) as [PromiseRejectedResult];
      assert.ok(!existsSync(directory('d1')));
      if (!/the disk of this machine has no space for code/.test(reason.message)) return reason.message;
    }
  };
  assert.match(await refusal(), /the release has more than the \d+ MB that the disk has room for$/);
  store.objects.set(`${FOLDER}d1.tar.gz`, { ...archive, body: Buffer.alloc(60 * MB) });
  assert.match(await refusal(), /it answered more than \d+ bytes/);
});

test('a release of before is stored when it is used, and others are removed', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place } = openReleases(t, store);
  const releases = open();
  for (const id of ['d1', 'd2', 'd3']) place(id);
  await releases.store('d1');
  await releases.store('d2');
  await releases.load('d3');
  await eventually(() => stored(store).length === 3, 'it is stored');
  await releases.keepOnly(new Set(['d2', 'd3']), Date.now());
  assert.deepEqual(stored(store).sort(), ['d2.tar.gz', 'd3.tar.gz']);
  const before = Date.now() - 1;
  place('d4');
  await releases.store('d4');
  await releases.keepOnly(new Set(['d3']), before - 60_000);
  assert.equal(stored(store).length, 3, 'those of later may be of the next home');
  await releases.keepOnly(new Set(['d3']), Date.now());
  assert.deepEqual(stored(store), ['d3.tar.gz']);
});

test('transfers of one account that hang do not keep others waiting', async (t) => {
  await using store = await new MemoryStore().start();
  const others = openReleases(t, store, { appId: 'app2', owner: 'grace' });
  const { open, place } = openReleases(t, store);
  others.place('d1');
  const slow = Array.from({ length: 8 }, (_, n) => `${n}-slow`);
  for (const id of slow) place(id);
  const releases = open();
  store.faults = { hangsAfter: '-slow.tar.gz' };
  const leaving = new AbortController();
  const storing = slow.map((id) => releases.store(id, leaving.signal).catch(() => {}));
  await eventually(() => store.hanging === 4, 'the account has all its places');
  await others.open().store('d1');
  assert.equal(store.hanging, 4);
  leaving.abort();
  await Promise.all(storing);
});

test('a transfer does not wait for a bucket that is away', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, away } = openReleases(t, store);
  place('d1');
  store.faults = { hangsAfter: '.tar.gz' };
  const storing = open().store('d1');
  storing.catch(() => {});
  await eventually(() => store.hanging === 1, 'it is on its way');
  away.abort(new Error('it does not answer'));
  await assert.rejects(storing, /the bucket did not take the release: it does not answer/);
});

test('a release on its way does not bring back the folder of a deleted app', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, directory, state } = openReleases(t, store);
  place('d1');
  await open().store('d1');
  await rm(dirname(directory('d1')), { recursive: true });
  store.faults = { delayMs: 200 };
  const loading = open().load('d1');
  loading.catch(() => {});
  await eventually(() => store.asked.some(({ method }) => method === 'GET'), 'it is on its way');
  state.isDeleted = true;
  await assert.rejects(loading, /the app was deleted/);
  assert.ok(!existsSync(dirname(directory('d1'))));
});

test('a release that this machine cannot pack is not blamed on the bucket', async (t) => {
  await using store = await new MemoryStore().start();
  const { open } = openReleases(t, store);
  await assert.rejects(
    open().store('none'),
    /^Error: the release could not be packed on this machine: .*tar/s,
  );
});

test('a bucket that refuses a release is named, and a deleted app gets none', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, state } = openReleases(t, store);
  place('d1');
  store.refuses = () => true;
  await assert.rejects(open().store('d1'), /the bucket did not take the release: .*403: AccessDenied/);
  store.refuses = () => false;
  state.isDeleted = true;
  await open().store('d1');
  assert.deepEqual(stored(store), []);
});
