// A machine is lost, and an empty one continues with the same settings.
// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { startS3 } from '../support/bucket/s3.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';
import { Visitor, welcomeOf } from '../support/e2e/visitor.ts';
import { cells, eventually } from '../support/processes.ts';

const PREFIX = 'of/cellar/';

const ADA = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };

/** Its first request sets an alarm. */
const ALARM_APP = {
  'wrangler.toml': COUNTER_CONFIG,
  'index.js': `import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async set() { await this.ctx.storage.setAlarm(Date.now() + 2_000); }
  async alarm() { this.ctx.storage.kv.put('n', this.count() + 1); }
  count() { return this.ctx.storage.kv.get('n') ?? 0; }
}
export default {
  async fetch(request, { COUNTER }) {
    const counter = COUNTER.getByName('one');
    if (request.url.endsWith('/alarms')) return new Response(String(await counter.count()));
    await counter.set();
    return new Response('set');
  },
};`,
};

test('an empty machine with the same settings has every app in the bucket, and all that was acknowledged', async () => {
  await using store = await startS3();
  const settings = { ...bucketSettings(store.place(PREFIX)), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using lost = await new Cellar(settings).start();
  const rpc = rpcOf(lost);
  const { id } = await rpc('apps.create', { slug: 'shop', storage: 'bucket' });
  await rpc('env.set', { id, name: 'A', value: '1' });
  await lost.deployAgain('shop', 'hello', STORAGE_APP);
  await storeData(lost, 'shop', 1);
  await lost.deployAgain('shop', 'hello', { ...STORAGE_APP, 'version.txt': 'two' });
  assert.equal((await rpc('secrets.set', { id, name: 'KEPT', value: 'this' })).code, undefined);
  const visitor = new Visitor(lost);
  const welcomed = await visitor.ask('POST', '/welcome', { token: await welcomeOf(lost), ...ADA });
  assert.equal(welcomed.status, 200, welcomed.text);
  await lost.deploy('here', 'hello');
  await storeData(lost, 'shop', 2);
  const { items: deploys } = await rpc('deploys.list', { id });
  assert.equal(deploys.length, 2);
  await lost.stop('SIGKILL');

  await using next = await new Cellar(settings).start();
  assert.equal(next.key, lost.key, 'the first account has the same key');
  assert.deepEqual(await readData(next, 'shop'), expectedData(1, 2));
  const continued = rpcOf(next);
  assert.deepEqual((await continued('deploys.list', { id })).items, deploys);
  assert.deepEqual((await continued('env.list', { id })).items.map(nameOf), ['A']);
  assert.deepEqual((await continued('secrets.list', { id })).items.map(nameOf), ['KEPT']);
  assert.equal(await new Visitor(next).signIn(ADA.email, ADA.password), 200);
  const cloned = await next.git(next.directory, 'clone', next.remote('shop'), 'clone');
  assert.equal(cloned.code, 0, cloned.stderr);
  const back = await continued('deploys.rollback', { id, deploy_id: deploys[1].id });
  assert.equal(back.code, undefined, back.detail);
  const isLive = async () => (await continued('deploys.get', { id, deploy_id: back.id })).status === 'live';
  await eventually(isLive, 'the rollback is live');
  assert.deepEqual(await readData(next, 'shop'), expectedData(1, 2));
  await assert.rejects(lost.start(), /another machine continued this Cellar/);
  // Its data and code were only on the lost machine.
  const here = (await continued('apps.list', {})).items.find(({ slug }: { slug: string }) => slug === 'here');
  assert.equal(here.deployed_at, null);
});

test('an alarm that another machine has set starts the app', async () => {
  await using store = await new MemoryStore().start();
  const settings = { ...bucketSettings(store.place(PREFIX)), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using lost = await new Cellar(settings).start();
  const { id } = await rpcOf(lost)('apps.create', { slug: 'clock', storage: 'bucket' });
  await lost.deployAgain('clock', 'hello', ALARM_APP);
  assert.equal((await lost.get('clock')).text, 'set');
  await lost.stop('SIGKILL');
  await using next = await new Cellar(settings).start();
  await eventually(() => cells(id).length > 0, 'it runs without a request');
  const alarms = async () => (await next.get('clock', '/alarms')).text;
  await eventually(async () => (await alarms()) === '1', 'the alarm was run once');
});

function nameOf({ name }: { name: string }): string {
  return name;
}
