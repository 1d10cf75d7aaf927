// Apps move between the machine and the bucket.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { startS3 } from '../support/bucket/s3.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { killDuringMoves } from '../support/e2e/killed-moves.ts';
import { MOVING_APP, movingData, OBJECTS_APP } from '../support/e2e/moving-app.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';
import { eventually } from '../support/processes.ts';

/** Shared by tests that begin with an app of their own. */
let store: Awaited<ReturnType<typeof startS3>>;
let cellar: Cellar;
let rpc: ReturnType<typeof rpcOf>;
before(async () => {
  store = await startS3();
  cellar = await new Cellar(bucketSettings(store.place('of/cellar/'))).start();
  rpc = rpcOf(cellar);
});
after(async () => {
  await cellar?.[Symbol.asyncDispose]();
  await store?.[Symbol.asyncDispose]();
});

test('an app moves into the bucket with all its data, its code and its previews', async () => {
  await using store = await startS3();
  const settings = { ...bucketSettings(store.place('of/cellar/')), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using cellar = await new Cellar(settings).start();
  const rpc = rpcOf(cellar);
  const id = await cellar.deploy('shop', 'hello', STORAGE_APP);
  await storeData(cellar, 'shop', 1);
  await storeData(cellar, 'shop', 2);
  const plan = await rpc('apps.move', { id: 'shop', to: 'bucket', dry_run: true });
  const { bytes, ...counts } = plan;
  assert.deepEqual(counts, {
    ...{ from: 'local', to: 'bucket', previews: 0, moved: false },
    ...{ databases: 1, namespaces: 1, objects: 1, r2_objects: 2 },
  });
  assert.ok(bytes > 1_200_000, `${bytes} bytes`);
  assert.equal((await cellar.app(id)).storage, 'local');
  const moved = await rpc('apps.move', { id: 'shop', to: 'bucket' });
  assert.equal(moved.moved, true, JSON.stringify(moved));
  assert.equal((await cellar.app(id)).storage, 'bucket');
  assert.deepEqual(await readData(cellar, 'shop'), expectedData(1, 2));
  await storeData(cellar, 'shop', 3);
  await cellar.deployAgain('shop', 'hello', { ...STORAGE_APP, 'version.txt': 'two' });
  // The machine is lost.
  await cellar.stop('SIGKILL');
  await using next = await new Cellar(settings).start();
  assert.deepEqual(await readData(next, 'shop'), expectedData(1, 2, 3));
  const cloned = await next.git(next.directory, 'clone', next.remote('shop'), 'clone');
  assert.equal(cloned.code, 0, cloned.stderr);
  await eventually(async () => (await next.app(id)).status === 'running', 'it runs');
});

test('R2 objects move there and back as they are; a damaged one, or a killed host, changes nothing', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place('of/cellar/'))).start();
  const rpc = rpcOf(cellar);
  const id = await cellar.deploy('shop', 'hello', OBJECTS_APP);
  assert.equal((await cellar.get('shop', '/', { method: 'POST' })).text, 'stored');
  const read = async () => {
    const { status, text } = await cellar.get('shop');
    assert.equal(status, 200, text);
    return JSON.parse(text) as { key: string; size: number; isUnchanged: boolean }[];
  };
  const stored = await read();
  assert.deepEqual(
    stored.map(({ key, size, isUnchanged }) => [key, size, isUnchanged]),
    [
      ['empty', 0, true],
      ['folder/ü large', 12 * 2 ** 20, true],
      ['one', 1, true],
      ['summed', 300_000, true],
    ],
  );
  assert.equal((await rpc('apps.move', { id, to: 'bucket' })).moved, true);
  assert.deepEqual(await read(), stored);
  const inBucket = [...store.objects].filter(([name]) => name.includes('/r2/') && name.includes('/blobs/'));
  const [name, whole] = inBucket.find(([, { body }]) => body.length === 300_000)!;
  store.objects.set(name, { ...whole, body: Buffer.from(whole.body).fill('t', 0, 1) });
  const refused = await rpc('apps.move', { id, to: 'local' });
  assert.equal(refused.code, 'move_failed', JSON.stringify(refused));
  assert.match(refused.detail, /the R2 object summed: its bytes have another sha256/);
  assert.equal((await cellar.app(id)).storage, 'bucket');
  store.objects.set(name, whole);
  store.faults = { hangs: ({ key }) => key === name };
  const killed = rpc('apps.move', { id, to: 'local' }).catch(() => null);
  const blobs = join(layout(cellar.data).moving(id), 'buckets/blobs');
  await eventually(() => existsSync(blobs) && readdirSync(blobs).length > 3, 'objects are copied', 30_000);
  await cellar.stop('SIGKILL');
  await killed;
  store.faults = {};
  await cellar.start();
  assert.equal(existsSync(blobs), false);
  assert.deepEqual(await read(), stored);
  assert.equal((await rpcOf(cellar)('apps.move', { id, to: 'local' })).moved, true);
  // The bucket is not needed any more.
  for (const name of [...store.objects.keys()].filter((name) => name.includes(`/apps/${id}/`)))
    store.objects.delete(name);
  assert.deepEqual(await read(), stored);
  await cellar.get('shop', '/', { method: 'DELETE' });
  assert.equal((await read()).length, 3);
});

test('previews move with their app', async () => {
  const id = await cellar.deploy('parent', 'hello', MOVING_APP);
  await rpc('previews.set', { id, branches: true, storage: 'empty' });
  const work = join(cellar.directory, 'work');
  assert.equal((await cellar.git(cellar.directory, 'clone', cellar.remote('parent'), work)).code, 0);
  const pushed = await cellar.git(work, 'push', cellar.remote('parent'), 'HEAD:refs/heads/side');
  assert.equal(pushed.code, 0, pushed.stderr);
  const post = async (slug: string, n: number) => {
    const { status, text } = await cellar.get(slug, `/?n=${n}`, { method: 'POST' });
    assert.equal(status, 200, text);
  };
  const requireData = async (slug: string, ...ns: number[]) => {
    const { jobs: _, ...data } = JSON.parse((await cellar.get(slug)).text);
    assert.deepEqual(data, movingData(...ns));
  };
  await post('parent', 1);
  await post('side--parent', 2);
  for (const to of ['bucket', 'local']) {
    const moved = await rpc('apps.move', { id, to });
    assert.equal(moved.previews, 1, JSON.stringify(moved));
    await requireData('parent', 1);
    await requireData('side--parent', 2);
  }
  await rpc('apps.move', { id, to: 'bucket' });
  await cellar.stop('SIGKILL');
  await cellar.start();
  await requireData('side--parent', 2);
});

test('of two moves the second waits, and does nothing when the app is there', async () => {
  const id = await cellar.deploy('files', 'hello', STORAGE_APP);
  await storeData(cellar, 'files', 1);
  const both = [rpc('apps.move', { id, to: 'bucket' }), rpc('apps.move', { id, to: 'bucket' })];
  const moves = (await Promise.all(both)).map(({ moved }) => moved).sort();
  assert.deepEqual(moves, [false, true], 'the second waits for the first, and does nothing');
  assert.deepEqual(await readData(cellar, 'files'), expectedData(1));
  const again = await rpc('apps.move', { id, to: 'bucket' });
  assert.equal(again.moved, false);
});

test('a move ends when the host stops or the app is deleted', async () => {
  const id = await cellar.deploy('ended', 'hello', MOVING_APP);
  assert.equal((await cellar.get('ended', '/?n=1', { method: 'POST' })).status, 200);
  const { restoring } = layout(cellar.data);
  const begin = async () => {
    const moving: Promise<{ moved?: boolean }> = rpc('apps.move', { id, to: 'bucket' }).catch(() => ({
      moved: false,
    }));
    const copies = () => readdirSync(restoring).some((name) => name.startsWith(`${id}-move-`));
    await eventually(async () => existsSync(restoring) && copies(), 'the app is copied');
    return { moving };
  };
  const stopped = await begin();
  await cellar.stop();
  assert.notEqual((await stopped.moving).moved, true);
  await cellar.start();
  assert.equal((await cellar.app(id)).storage, 'local');
  const { jobs: _, ...data } = JSON.parse((await cellar.get('ended')).text);
  assert.deepEqual(data, movingData(1));
  const deleted = await begin();
  await rpc('apps.delete', { id });
  assert.notEqual((await deleted.moving).moved, true);
});

test('a host that is killed while an app moves loses nothing, and the move can be repeated', async () => {
  // More rounds: `npm run chaos -- 20 --moves`.
  await killDuringMoves(2);
});
