// An app's storage moves only after all data is copied and the move is stored, and only once.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { Apps } from '../../runtime/apps/apps.ts';
import { OutwardServices } from '../../runtime/apps/outward-services.ts';
import { Secrets } from '../../runtime/apps/secrets.ts';
import { Bucket } from '../../runtime/bucket/bucket.ts';
import type { Call } from '../../runtime/control/host-call.ts';
import { bucketRoutes } from '../../runtime/control/routes/storage/bucket-routes.ts';
import { keptSecret, layout } from '../../runtime/disk/data-directory.ts';
import { MemoryGauge } from '../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../runtime/fleets/admission/slots.ts';
import { WakeFigures } from '../../runtime/fleets/admission/wake-figures.ts';
import { lineSink } from '../../runtime/fleets/process/cell-output.ts';
import { Moves } from '../../runtime/move/moves.ts';
import { replaceStorage } from '../../runtime/snapshots/restore/replace.ts';
import type { Snapshots } from '../../runtime/snapshots/snapshots.ts';
import { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { workerd } from '../support/fleets/release.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = 'a'.repeat(16);
const PREVIEW = 'b'.repeat(16);
/** The space that moves must leave free, in MB: more than any disk has. */
const FLOOR_MB = 2 ** 40;
const NEVER = '9999-01-01T00:00:00.000Z';
const WANTED: WantedApp = {
  id: APP,
  slug: 'one',
  generation: 1,
  desired_state: 'running',
  hostnames: [],
  limits: { clientRpm: null, appRpm: null },
  env: {},
};

const previewRow = () => ({
  ...{ id: PREVIEW, parentId: APP, name: 'side', source: 'refs/heads/side', versionId: null },
  ...{ createdAt: Date.now(), expiresAt: Date.now() + 60_000 },
});

/** Opens the apps of a new data directory, and adds one app. */
async function open(t: TestContext, memory: MemoryStore) {
  const paths = layout(temporaryDirectory(t));
  const store = openHostStore(paths.database);
  const users = () => ({ build: null, cell: null });
  const bucket = new Bucket({
    ...{ place: memory.place('of/cellar/'), clusterKey: 'c'.repeat(64), claim: async () => {} },
    ...{ user: () => null, paths, records: store.records, removals: store.folderRemovals },
    floorMb: 0,
  });
  const buckets = new Buckets({ paths, users, service: { maxMb: 0, floorMb: 0 } });
  const apps = new Apps({
    ...{ bucket, store, paths, workerd, users, baseDomain: 'localhost', idleMs: 0, egress: [] },
    ...{ memoryMb: 512, cacheMb: 0, slots: new Slots(4, 10_000), memory: new MemoryGauge(0, 512) },
    secrets: new Secrets(store, keptSecret(paths.secretsKey)),
    buckets,
    services: () => ({ hasOutbound: false, socket: '/dev/null/none', open: async () => {} }),
    outward: new OutwardServices({ paths, users, ai: null, mail: null }),
    wakes: new WakeFigures(),
    ...{ uiUrl: () => null, output: () => lineSink(() => {}), say: () => {} },
    ...{
      onUsage: () => {},
      onNamed: () => {},
      onDeleted: () => {},
      onRestored: () => {},
      onFailure: () => {},
      onFacts: () => {},
    },
  });
  const moves = new Moves({
    ...{ store, paths, apps, users, buckets, bucket, workerd, memoryMb: 512, floorMb: FLOOR_MB },
    ...{ place: memory.place('of/cellar/'), snapshots: {} as Snapshots },
  });
  t.after(async () => {
    await apps.close();
    await buckets.close();
    await bucket.close();
    store.close();
  });
  await apps.apply(WANTED);
  /** Restores a snapshot of an app whose data was in the bucket. `onTaken`: called before the data is replaced. */
  const restore = (app: string, onTaken = async () => {}) => {
    const snapshots = {
      extract: async ({ into: { directory } }: { into: { directory: string } }) => {
        mkdirSync(`${directory}/importing`, { recursive: true });
        writeFileSync(`${directory}/importing/old`, 'old');
        return { head: { id: 'then' } };
      },
      take: async () => {
        await onTaken();
        return { head: { id: 'before' }, unread: [] };
      },
    } as unknown as Snapshots;
    const disk = { floorMb: 0 };
    const options = { apps, snapshots, paths, disk, users, buckets, storageNames: () => ({}) };
    return replaceStorage(options, { snapshot: { key: 'then' }, app, database: null });
  };
  return {
    apps,
    moves,
    restore,
    store,
    paths,
    place: () => [apps.get(APP)?.wanted.storage ?? 'local', store.apps.place(APP)],
  };
}

test('a second move to the same place does nothing', async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps, store, place } = await open(t, memory);
  const done: string[] = [];
  const move = (name: string) =>
    apps.placeMoves.move(
      APP,
      'bucket',
      async () => void done.push(`${name} copies`),
      async () => void done.push(`${name} begins`),
    );
  const [first, second] = await Promise.allSettled([move('first'), move('second')]);
  assert.equal(first.status === 'fulfilled' && first.value, true);
  assert.match(second.status === 'rejected' ? second.reason.message : '', /being moved/);
  assert.equal(await move('third'), false);
  assert.deepEqual(done, ['first copies', 'first begins']);
  assert.deepEqual(place(), ['bucket', 'bucket']);
  assert.deepEqual(store.folderRemovals.due(NEVER), []);
});

test('an app with vectors cannot move into the bucket', async (t) => {
  await using memory = await new MemoryStore().start();
  const { moves, store, paths } = await open(t, memory);
  store.apps.setStorageNames(APP, { vectorIndexes: { pages: 'stored' } });
  mkdirSync(paths.vectors(APP), { recursive: true });
  await assert.rejects(moves.plan(APP, 'bucket'), (error: { code: string; message: string }) => {
    assert.equal(error.code, 'app_immovable');
    assert.match(error.message, /it has vector indexes, which the bucket cannot keep: pages$/);
    return true;
  });
});

test('a move that cannot be stored changes nothing', async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps, store, paths, place } = await open(t, memory);
  const synced = t.mock.method(store, 'synced', () => Promise.reject(new Error('the disk is broken')));
  const copy = async () => void mkdirSync(`${paths.moving(APP)}/bucket`, { recursive: true });
  const begin = t.mock.fn(async () => {});
  await assert.rejects(apps.placeMoves.move(APP, 'bucket', copy, begin), /the disk is broken/);
  synced.mock.restore();
  assert.deepEqual(place(), ['local', 'local']);
  assert.equal(apps.clusterOf(APP), null);
  assert.equal(existsSync(paths.moving(APP)), false);
  assert.equal(begin.mock.callCount(), 0);
  assert.deepEqual(store.folderRemovals.due(NEVER), [APP], 'what is in the bucket is removed later');
});

test('a preview that is gone does not stop a move', async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps, store, place } = await open(t, memory);
  apps.addPreview(previewRow());
  let deleted: Promise<void> | null = null;
  const isMoved = await apps.placeMoves.move(
    APP,
    'bucket',
    async ({ id }, _, signal) => {
      if (id !== PREVIEW) return;
      deleted = apps.deletions.delete(PREVIEW, 1);
      signal.throwIfAborted();
    },
    async () => {},
  );
  await deleted;
  assert.equal(isMoved, true);
  assert.deepEqual(place(), ['bucket', 'bucket']);
  assert.equal(store.apps.place(PREVIEW), null);
});

test('taking the data into use is repeated, and the deletion of the app ends the copy', {
  timeout: 60_000,
}, async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps, place } = await open(t, memory);
  let attempts = 0;
  await apps.placeMoves.move(
    APP,
    'bucket',
    async () => {},
    async () => {
      if (++attempts === 1) throw new Error('the disk is busy');
    },
  );
  assert.equal(attempts, 2);
  assert.deepEqual(place(), ['bucket', 'bucket']);
  let deleted: Promise<void> | null = null;
  const moving = apps.placeMoves.move(
    APP,
    'local',
    async (_, __, signal) => {
      deleted = apps.deletions.delete(APP, 2);
      signal.throwIfAborted();
    },
    async () => {},
  );
  await assert.rejects(moving, /the app was deleted/);
  await deleted;
  assert.deepEqual(apps.get(APP), undefined);
});

test('objects in R2 are not changed over the API while an app moves, nor those of its previews', {
  timeout: 60_000,
}, async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps } = await open(t, memory);
  const routes = bucketRoutes({ apps } as Parameters<typeof bucketRoutes>[0]);
  const change = (id: string) =>
    routes['DELETE /apps/:id/r2/object']({ words: [id], query: new URLSearchParams() } as unknown as Call);
  apps.addPreview(previewRow());
  let isCopied = false;
  const copy = async ({ id }: { id: string }) => {
    await assert.rejects(async () => change(id), { status: 503, code: 'host_unavailable' });
    isCopied = id === PREVIEW;
  };
  await apps.placeMoves.move(APP, 'bucket', copy, async () => {});
  assert.ok(isCopied);
});

test('an app is not restored while it moves, nor from where its data was before', {
  timeout: 60_000,
}, async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps, paths, restore } = await open(t, memory);
  const moveTo = (to: 'bucket' | 'local', copy = async () => {}) =>
    apps.placeMoves.move(APP, to, copy, async () => {});
  await moveTo('bucket');
  await restore(APP);
  assert.ok([...memory.objects.keys()].some((name) => name.endsWith(`${APP}/data/old`)));
  apps.addPreview(previewRow());
  const copied = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const moving = moveTo('local', () => {
    begun.resolve();
    return copied.promise;
  });
  await begun.promise;
  for (const id of [APP, PREVIEW]) await assert.rejects(restore(id), { status: 409, message: /being moved/ });
  const late = restore(APP, async () => {
    copied.resolve();
    await moving;
    mkdirSync(paths.data(APP), { recursive: true });
    writeFileSync(`${paths.data(APP)}/written`, 'new');
  });
  await assert.rejects(late, /was in the bucket, and it is on this machine today/);
  assert.ok(existsSync(`${paths.data(APP)}/written`));
});

test('a move to a disk without enough space is refused, and says how much is missing', {
  timeout: 60_000,
}, async (t) => {
  await using memory = await new MemoryStore().start();
  const { apps, moves, place } = await open(t, memory);
  await apps.placeMoves.move(
    APP,
    'bucket',
    async () => {},
    async () => {},
  );
  const kept = { body: Buffer.alloc(3 * 2 ** 20), etag: '"x"', at: new Date().toISOString() };
  memory.objects.set(`of/cellar/apps/${APP}/r2/main/blobs/b`, kept);
  memory.objects.set(`of/cellar/apps/${APP}/data/v1/x`, kept);
  await assert.rejects(moves.move(APP, 'local'), {
    ...{ status: 507, code: 'insufficient_storage' },
    message: 'a move of the app needs 12 MiB of free disk space, and 12 MiB of that are missing',
  });
  assert.deepEqual(place(), ['bucket', 'bucket']);
});
