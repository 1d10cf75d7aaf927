// Files that are restored from the bucket belong to the user that the app's process runs as.
// Runs as root too.
import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { startS3 } from '../support/bucket/s3.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { createInBucket, deploys, log, loseCode, names, PREFIX, page } from '../support/e2e/bucket-apps.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpc } from '../support/e2e/snapshots.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';
import { eventually } from '../support/processes.ts';

test('an app in the bucket keeps its data when the host is killed and the disk is lost', async () => {
  await using store = await startS3();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await createInBucket(cellar, 'kept');
  await cellar.deployAgain('kept', 'hello', STORAGE_APP);
  for (const n of [1, 2]) await storeData(cellar, 'kept', n);
  await cellar.stop('SIGKILL');
  rmSync(join(cellar.data, 'data', id), { recursive: true });
  await cellar.start();
  assert.deepEqual(await readData(cellar, 'kept'), expectedData(1, 2));

  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  rmSync(join(cellar.data, 'data', id), { recursive: true });
  const get = async (path: string) => (await cellar.call('GET', `/v1/apps/${id}/storage${path}`)).body;
  const { databases, namespaces, classes } = await get('');
  assert.ok(
    databases[0].bytes > 0 && namespaces[0].bytes > 600_000,
    JSON.stringify({ databases, namespaces }),
  );
  assert.deepEqual([namespaces[0].keys, classes[0].objects], [4, 1]);
  assert.deepEqual((await get('/d1/notes?sql=SELECT+count(*)+FROM+notes')).rows, [[2]]);
  const value = await rpc(cellar, 'storage.kv.get', { id, namespace_id: 'words', key: 'large-2' });
  assert.equal(value.value_base64?.length, 400_000, JSON.stringify(value).slice(0, 200));
  assert.equal((await get('/do/Counter?name=one&sql=SELECT+count(*)+FROM+counts')).rows[0][0], 2);
  assert.equal((await cellar.app(id)).status, 'sleeping');
  const counted = async () => (await cellar.call('GET', '/v1/admin/stats')).body.host.bucket.apps[0];
  await eventually(async () => (await counted())?.slug === 'kept', 'its requests are counted');
  const { writes, reads } = await counted();
  assert.ok(writes > 5 && reads > 5, `${writes} writes, ${reads} reads`);
});

test('code comes back from the bucket when the disk is lost, and a rollback works', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await createInBucket(cellar, 'shop');
  await cellar.deployAgain('shop', 'hello', page('one'));
  await cellar.deployAgain('shop', 'hello', page('two'));
  const tip = await log(cellar, 'shop');
  const [newest, first] = await deploys(cellar, id);
  assert.deepEqual(
    names(store, id, 'releases').sort(),
    [newest!.id, first!.id].map((each) => `${each}.tar.gz`).sort(),
  );
  await cellar.stop('SIGKILL');
  loseCode(cellar, 'repos', 'releases');
  await cellar.start();
  assert.equal((await cellar.get('shop')).text, 'two');
  assert.equal(await log(cellar, 'shop'), tip);
  assert.ok(!existsSync(join(cellar.data, 'releases', id, first!.id)), 'only what is used comes back');
  const back = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: first!.id });
  assert.equal(back.status, 202, JSON.stringify(back.body));
  await eventually(async () => (await cellar.get('shop')).text === 'one', 'the earlier release serves');
  const [rollback] = await deploys(cellar, id);
  await eventually(
    () => names(store, id, 'releases').includes(`${rollback!.id}.tar.gz`),
    'the release of the rollback is stored',
  );

  // A commit over the API, and its deploy.
  const committed = await rpc(cellar, 'source.commit', {
    id,
    message: 'over the API',
    author_email: 'ada@example.com',
    files: [{ path: 'index.js', content: page('three')['index.js'] }],
  } as never);
  assert.ok((committed as { sha?: string }).sha, JSON.stringify(committed));
  await eventually(async () => (await cellar.get('shop')).text === 'three', 'the commit serves');
  await cellar.stop();
  loseCode(cellar, 'repos', 'releases');
  await cellar.start();
  assert.equal(await log(cellar, 'shop'), (committed as { sha: string }).sha);
  assert.equal((await cellar.get('shop')).text, 'three');
});
