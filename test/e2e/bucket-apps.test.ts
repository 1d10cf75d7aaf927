// Apps that keep their data in the bucket, through a real host and its proxy.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { createInBucket, PREFIX } from '../support/e2e/bucket-apps.ts';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpc, snapshot } from '../support/e2e/snapshots.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';
import { cells, eventually } from '../support/processes.ts';

const COUNTER = {
  'wrangler.toml': COUNTER_CONFIG,
  'index.js': `${COUNTER_CLASS}export default {
  async fetch(_, env) { return new Response(String(await env.COUNTER.getByName('one').add())); }
};`,
};

/** Runs `npm run restore`, while this process serves the store. @throws {Error} when it fails, or leaves an app out */
async function restored(
  key: string,
  { data }: Cellar,
  settings: Record<string, string>,
  ...more: string[]
): Promise<void> {
  const env = { PATH: process.env.PATH ?? '', RUNNER_DATA_DIR: data, ...COMPILE_CACHE_ENV, ...settings };
  await promisify(execFile)(process.execPath, ['scripts/restore.ts', key, ...more], { env, timeout: 60_000 });
}

const folderOf = (store: MemoryStore, id: string) =>
  [...store.objects.keys()].filter((name) => name.startsWith(`${PREFIX}apps/${id}/`));

test('a snapshot of an app in the bucket has every write, and a restore brings them back', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await createInBucket(cellar, 'back');
  await cellar.deployAgain('back', 'hello', STORAGE_APP);
  await storeData(cellar, 'back', 1);
  const { key } = await snapshot(cellar);
  await storeData(cellar, 'back', 2);
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  const dry = await rpc(cellar, 'admin.restore', { snapshot: key, app: id, dry_run: true });
  for (const kind of ['database', 'namespace', 'class', 'buckets']) {
    const found = (dry.changes as unknown as { kind: string; lost_bytes: number }[]).find(
      (one) => one.kind === kind,
    );
    assert.ok(found !== undefined && found.lost_bytes > 0, `${kind} in ${JSON.stringify(dry)}`);
  }
  const whole = await rpc(cellar, 'admin.restore', { snapshot: key, app: id });
  assert.deepEqual(await readData(cellar, 'back'), expectedData(1));
  await storeData(cellar, 'back', 3);
  await rpc(cellar, 'admin.restore', { snapshot: whole.before!, app: id, database: 'notes' });
  const { notes, count } = (await readData(cellar, 'back')) as { notes: string[]; count: number };
  assert.deepEqual([notes, count], [['note 1', 'note 2'], 2]);
});

test('a deploy with vector indexes is refused in the bucket, by the name of the binding', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  await createInBucket(cellar, 'finder');
  const { stderr } = await cellar.push(await cellar.checkout('vectors'), 'finder');
  assert.match(
    stderr,
    /vectorize: VECTORS: an app that keeps its data in the bucket cannot have vector indexes/,
  );
});

test('after a machine is lost, another one has every write since the last snapshot, from the bucket', async () => {
  await using store = await new MemoryStore().start();
  const settings = bucketSettings(store.place(PREFIX));
  await using lost = await new Cellar(settings).start();
  const id = await createInBucket(lost, 'survivor');
  await lost.deployAgain('survivor', 'hello', COUNTER);
  assert.equal((await lost.get('survivor')).text, '1');
  const { key } = await snapshot(lost);
  assert.equal((await lost.get('survivor')).text, '2');
  await lost.stop('SIGKILL');
  await using next = new Cellar(settings);
  await restored(key, next, settings);
  await next.start();
  assert.equal((await next.get('survivor')).text, '3');
  await next.stop();

  // An app whose data is complete in the bucket can be left out of the restore.
  await using whole = new Cellar(settings);
  await restored(key, whole, settings, '--without', 'survivor');
  await whole.start();
  assert.equal((await whole.get('survivor')).text, '4');
  await whole.stop();

  // Without its record the app has data, but no release that could read it. It must not be shown as empty.
  store.objects.delete(`${PREFIX}records/${id}.json`);
  await using partial = new Cellar(settings);
  await assert.rejects(restored(key, partial, settings, '--without', 'survivor'), { code: 3 });
  await partial.start();
  const { body } = await partial.call('GET', `/v1/apps/${id}/storage/do/Counter`);
  assert.match(body.detail, /data in the bucket, and no live release that could read it; deploy one/);
  await partial.stop();

  // When the bucket is lost, a restore puts the snapshot's own copy into a new bucket.
  await using empty = await new MemoryStore().start();
  for (const [name, object] of store.objects)
    if (name.startsWith(`${PREFIX}snapshots/`)) empty.objects.set(name, object);
  const elsewhere = bucketSettings(empty.place(PREFIX));
  await using third = new Cellar(elsewhere);
  // After a restore that fails halfway, the next one must not take the data for complete.
  const packs = [...empty.objects].filter(([name]) => name.includes('/snapshots/packs/'));
  for (const [name] of packs) empty.objects.delete(name);
  await assert.rejects(restored(key, third, elsewhere));
  for (const [name, pack] of packs) empty.objects.set(name, pack);
  await restored(key, third, elsewhere);
  await third.start();
  assert.equal((await third.get('survivor')).text, '2');
  assert.equal((await third.app(id)).status, 'running');
});

test('objects of a deleted class are removed from the bucket, and a deleted app has no process', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await createInBucket(cellar, 'counter');
  await cellar.deployAgain('counter', 'hello', COUNTER);
  assert.equal((await cellar.get('counter')).text, '1');
  const objects = () => folderOf(store, id).filter((name) => name.includes('/v1/do/'));
  assert.ok(objects().length > 0);
  await cellar.deployAgain('counter', 'hello', {
    'wrangler.toml': `name = "counter"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\n
[[migrations]]\ntag = "v1"\nnew_sqlite_classes = ["Counter"]\n[[migrations]]\ntag = "v2"\ndeleted_classes = ["Counter"]\n`,
    'index.js': 'export default { fetch: () => new Response("none") };',
  });
  await eventually(() => objects().length === 0, 'its objects are removed');
  const { status } = await cellar.call('DELETE', `/v1/apps/${id}`);
  assert.equal(status, 204);
  assert.deepEqual(cells(id), []);
  const other = await cellar.call('POST', '/v1/apps', { slug: 'elsewhere', storage: 'here' });
  assert.deepEqual([other.status, other.body.errors?.[0].path], [400, 'storage']);
});

test('during an outage of the bucket its apps answer 503, local ones serve, and both serve afterwards', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await createInBucket(cellar, 'away');
  for (const slug of ['away', 'local']) {
    if (slug === 'local') await cellar.create(slug);
    await cellar.deployAgain(slug, 'hello', COUNTER);
    assert.equal((await cellar.get(slug)).text, '1');
  }
  const [before] = cells(id);
  store.cut();
  const ready = async () => (await (await fetch(`${cellar.api}/ready`)).json()) as { warnings?: string[] };
  await eventually(async () => (await ready()).warnings?.includes('bucket') === true, 'it warns');
  await eventually(() => cells(id)[0]?.pid !== before!.pid, 'the engine has ended the process');
  assert.equal((await cellar.get('local')).text, '2');
  const refused = await cellar.get('away');
  assert.equal(refused.status, 503, refused.text);
  assert.match(refused.text, /bucket/);
  store.faults = {};
  await eventually(async () => (await cellar.get('away')).text === '2', 'it serves again');
  await eventually(async () => (await ready()).warnings === undefined, 'it warns no longer');

  // A start without the bucket: nothing may be read or written before the bucket has passed its checks.
  await cellar.stop();
  store.cut();
  const starting = cellar.start();
  await eventually(async () => (await cellar.get('local').catch(() => null))?.text === '3', 'it serves');
  const unchecked = await cellar.get('away');
  assert.deepEqual([unchecked.status, /bucket/.test(unchecked.text)], [503, true], unchecked.text);
  store.faults = {};
  await eventually(async () => (await cellar.get('away')).text === '3', 'it serves after the checks');
  await starting;
});
