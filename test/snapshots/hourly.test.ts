// Hourly snapshots, between the ordinary ones.
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { idAt, type Part, readManifest, writeManifest } from '../../runtime/snapshots/store/manifest.ts';
import { HOURLY } from '../../runtime/snapshots/take/retention.ts';
import { eventually } from '../support/processes.ts';
import { fileOf, startSnapshots } from '../support/snapshots/host.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';
const EVERY_MS = 3_600_000;

const intoDirectory = (directory: string) => ({ directory, floorMb: 0 });

test('an hour writes only what has changed in it, and an app returns to any of these hours', async (t) => {
  const { root, paths, snapshots, addApp } = startSnapshots(t);
  const contents = [addApp(SHOP, 'shop', 20 * 2 ** 20)];
  const heads = [(await snapshots.take('schedule')).head];
  for (const hour of [1, 2]) {
    const file = openSync(fileOf(paths.root, SHOP), 'r+');
    // Changes one page, as a write to a database does.
    writeSync(file, Buffer.alloc(4_096, hour), 0, 4_096, hour * 2 ** 20);
    closeSync(file);
    contents.push(readFileSync(fileOf(paths.root, SHOP)));
    heads.push((await snapshots.take(HOURLY)).head);
  }
  for (const [hour, head] of heads.entries()) {
    if (hour > 0) assert.ok(head.written < 200_000, `${head.written} bytes were written`);
    const into = join(root, `at-${hour}`);
    const restored = await snapshots.extract({
      snapshot: { at: head.read_at },
      app: SHOP,
      only: null,
      into: intoDirectory(into),
    });
    assert.equal(restored.head.id, head.id);
    assert.ok(readFileSync(join(into, 'data/kept/file')).equals(contents[hour]!), `hour ${hour}`);
  }
  const early = { at: new Date(Date.parse(heads[0]!.created_at) - 1).toISOString() };
  await assert.rejects(
    snapshots.extract({ snapshot: early, app: SHOP, only: null, into: intoDirectory(join(root, 'early')) }),
    /no snapshot from before .* has app a{16}; `cellar snapshots` lists them all/,
  );
});

test('a time means a snapshot that had read the app by then', async (t) => {
  const { root, store, hostStore, snapshots, addApp } = startSnapshots(t);
  addApp(SHOP, 'shop', 1_000);
  const { checksum: _, ...head } = (await snapshots.take(HOURLY)).head;
  const { parts } = await readManifest(store, head.id);
  const write = async (second: number, readAfter: number, about: Partial<typeof head>) => {
    const created = Date.parse(head.created_at) + second * 1_000;
    const read_at = new Date(created + readAfter * 1_000).toISOString();
    const [id, created_at] = [idAt(new Date(created)), new Date(created).toISOString()];
    await writeManifest(store, { ...head, ...about, id, created_at, read_at }, parts);
    return { id, read_at };
  };
  const slow = await write(10, 100, {});
  const failed = await write(20, 1, { failures: [{ app: SHOP, slug: 'shop', error: 'a test' }] });
  assert.equal(head.of, hostStore.snapshots.cellar());
  for (const [at, id] of [
    [failed.read_at, head.id],
    [slow.read_at, slow.id],
  ] as const) {
    const wanted = { snapshot: { at }, app: SHOP, only: null, into: intoDirectory(join(root, id)) };
    assert.equal((await snapshots.extract(wanted)).head.id, id);
  }
});

test('an app that could never be read is not restored as empty', async (t) => {
  const { root, store, snapshots, addApp } = startSnapshots(t);
  addApp(SHOP, 'shop', 1_000);
  const { checksum: _, ...head } = (await snapshots.take('a test')).head;
  const id = idAt(new Date(Date.parse(head.created_at) + 1_000));
  const parts: Part[] = [{ kind: 'app', id: SHOP, slug: 'shop', files: [] }];
  const failures = [{ app: SHOP, slug: 'shop', error: 'a test' }];
  await writeManifest(store, { ...head, id, failures }, parts);
  const wanted = { snapshot: { key: id }, app: SHOP, only: null, into: intoDirectory(join(root, 'into')) };
  await assert.rejects(snapshots.extract(wanted), /has no app a{16}$/);
});

test('of many apps that cannot be read, none is restored as empty, or with the files of an earlier time', async (t) => {
  const { root, paths, snapshots, addApp } = startSnapshots(t);
  // The head of a snapshot names at most this many failed apps.
  const named = Array.from({ length: 50 }, (_, n) => `a${n}`);
  // A large file that consists only of holes cannot be read.
  const makeUnreadable = (app: string) => truncateSync(fileOf(paths.root, app), 2 ** 31);
  const take = async () => {
    const { head, unread } = await snapshots.take('a test');
    return { head, unnamed: unread.filter((app) => !head.failures.some((failure) => failure.app === app)) };
  };
  for (const app of [...named, SHOP]) addApp(app, app, 10);
  const first = await take();
  for (const app of [...named, SHOP]) makeUnreadable(app);
  const second = await take();
  assert.deepEqual(second.unnamed, [SHOP]);
  const wanted = {
    snapshot: { at: second.head.read_at },
    app: SHOP,
    only: null,
    into: intoDirectory(join(root, 'into')),
  };
  assert.equal((await snapshots.extract(wanted)).head.id, first.head.id);
  const added = 'bbbbbbbbbbbbbbbb';
  addApp(added, 'added', 10);
  makeUnreadable(added);
  const third = await take();
  assert.deepEqual(third.unnamed, [SHOP, added]);
  const never = {
    snapshot: { key: third.head.id },
    app: added,
    only: null,
    into: intoDirectory(join(root, 'never')),
  };
  await assert.rejects(snapshots.extract(never), /has no app b{16}$/);
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

  // A much later start takes an ordinary snapshot.
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
