// Undeleting an app through a real host, on its disk and in a bucket.
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { startS3 } from '../support/bucket/s3.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';

const PREFIX = 'of/cellar/';

for (const storage of ['local', 'bucket']) {
  test(`an undeleted app has its data, code, secrets and deploys again: ${storage}`, async () => {
    await using store = await startS3();
    await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
    const id = await deployed(cellar, storage);
    assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
    assert.equal((await cellar.get('gone')).status, 404);
    const undeleted = await cellar.call('POST', '/v1/deleted-apps/gone/undelete', {});
    assert.deepEqual([undeleted.status, undeleted.body.id], [200, id], JSON.stringify(undeleted.body));
    await assertWhole(cellar, id);
    // The undeleted app survives a restart, and can be deleted again.
    await cellar.stop('SIGKILL');
    await cellar.start();
    await assertWhole(cellar, id);
    assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
    assert.equal(
      (await cellar.call('POST', `/v1/deleted-apps/${id}/undelete`, { slug: 'again' })).status,
      200,
    );
    assert.deepEqual(await readData(cellar, 'again'), expectedData(1));
  });
}

test('a deleted app of the bucket can be undeleted by the next machine', async () => {
  await using store = await startS3();
  const settings = bucketSettings(store.place(PREFIX));
  await using lost = await new Cellar(settings).start();
  const id = await deployed(lost, 'bucket');
  assert.equal((await lost.call('DELETE', `/v1/apps/${id}`)).status, 204);
  await lost.stop('SIGKILL');
  await using next = await new Cellar({ ...settings, RUNNER_TOKEN: lost.token }).start();
  const undeleted = await next.call('POST', `/v1/deleted-apps/${id}/undelete`, {});
  assert.equal(undeleted.status, 200, JSON.stringify(undeleted.body));
  await assertWhole(next, id);
});

test('an app whose trash was emptied stays deleted', async () => {
  await using cellar = await new Cellar().start();
  const id = await deployed(cellar, 'local');
  await cellar.call('DELETE', `/v1/apps/${id}`);
  const trash = join(cellar.data, 'trash');
  for (const name of readdirSync(trash)) rmSync(join(trash, name), { recursive: true });
  const refused = await cellar.call('POST', `/v1/deleted-apps/${id}/undelete`, {});
  assert.deepEqual([refused.status, refused.body.code], [404, 'app_not_found'], JSON.stringify(refused.body));
  assert.match(refused.body.detail, /no longer in the trash/);
  assert.equal((await cellar.get('gone')).status, 404);
  await cellar.create('gone');
});

/** Returns the id of an app with data, a secret and a deploy. */
async function deployed(cellar: Cellar, storage: string): Promise<string> {
  const { body } = await cellar.call('POST', '/v1/apps', { slug: 'gone', storage });
  await cellar.deployAgain('gone', 'hello', STORAGE_APP);
  await storeData(cellar, 'gone', 1);
  assert.equal((await secrets(cellar, body.id, 'secrets.set', { name: 'KEY', value: 'v' })).status, 200);
  return body.id;
}

async function assertWhole(cellar: Cellar, id: string): Promise<void> {
  assert.deepEqual(await readData(cellar, 'gone'), expectedData(1));
  const { body } = await secrets(cellar, id, 'secrets.list', {});
  assert.deepEqual(
    body.result.items.map(({ name }: { name: string }) => name),
    ['KEY'],
  );
  const { body: deploys } = await cellar.call('GET', `/v1/apps/${id}/deploys`);
  assert.equal(deploys.items[0].status, 'live');
  const { body: tree } = await cellar.call('GET', `/v1/apps/${id}/tree`);
  assert.ok(JSON.stringify(tree).includes('wrangler'), JSON.stringify(tree));
}

function secrets(cellar: Cellar, id: string, method: string, params: object) {
  return cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params: { id, ...params } });
}
