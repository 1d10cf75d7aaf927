// An app moves between the machine and the bucket, and its data gets the owner that its process runs as.
// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startS3 } from '../support/bucket/s3.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { MOVING_APP, movingData } from '../support/e2e/moving-app.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

test('an app moves there and back, with every kind of data', async () => {
  await using store = await startS3();
  const settings = { ...bucketSettings(store.place('of/cellar/')), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using cellar = await new Cellar(settings).start();
  const rpc = rpcOf(cellar);
  await cellar.deploy('shop', 'hello', MOVING_APP);
  const read = async () => {
    const { status, text } = await cellar.get('shop');
    assert.equal(status, 200, text);
    return JSON.parse(text) as ReturnType<typeof movingData> & { jobs: string[] };
  };
  const requireData = async (...ns: number[]) => {
    const { jobs: _, ...data } = await read();
    assert.deepEqual(data, movingData(...ns));
  };
  const post = async (path: string) => {
    const { status, text } = await cellar.get('shop', path, { method: 'POST' });
    assert.equal(status, 200, text);
  };
  const move = async (to: string) => {
    const moved = await rpc('apps.move', { id: 'shop', to });
    assert.equal(moved.moved, true, JSON.stringify(moved));
  };
  const status = async () => JSON.parse((await cellar.get('shop', '/status')).text);
  await post('/?n=1');
  await eventually(async () => (await read()).jobs.length === 1, 'the message arrives');
  await post('/?n=2&later');
  await move('bucket');
  await requireData(1, 2);
  await eventually(async () => (await read()).jobs.length === 2, 'the waiting message arrives');
  assert.equal((await status()).status, 'waiting');
  await post('/?n=3&later');
  await move('local');
  await requireData(1, 2, 3);
  await eventually(async () => (await read()).jobs.length === 3, 'the waiting message arrives');
  await post('/go');
  await eventually(async () => (await status()).status === 'complete', 'the instance goes on');
  assert.equal((await status()).output, 17);
  await post('/?n=4');
  await move('bucket');
  await requireData(1, 2, 3, 4);
});
