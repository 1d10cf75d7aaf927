// Apps move between the machine and the bucket.
// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/e2e/processes.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { startS3 } from '../support/e2e/s3.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';

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
