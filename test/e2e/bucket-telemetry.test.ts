// Telemetry of a Cellar with a bucket: a lost machine's figures and error groups, and an alert of an outage.
// Mostly waits.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { Receiver } from '../support/alerts/receiver.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

const PREFIX = 'of/cellar/';
const APPS = ['kept', 'here'];
/** Timeout until telemetry is copied into the bucket, in ms. Copies are made once a minute. */
const COPIED_MS = 90_000;
const FAILING = {
  'index.js': `export default { fetch(request) {
    if (request.url.endsWith('/fails')) throw new TypeError('no such thing');
    return new Response('fine');
  } };`,
};

/** Returns the errors, and the number of failed requests, of an app's last hour. */
async function history(cellar: Cellar, slug: string) {
  const rpc = rpcOf(cellar);
  const { items } = await rpc('errors.list', { id: slug, status: 'open' });
  const minutes = (await rpc('metrics.get', { id: slug, hours: 1 })).items;
  const failed = minutes.reduce((sum: number, { errors }: { errors: number }) => sum + errors, 0);
  return { failed, groups: items.map(({ fingerprint, count }: Group) => ({ fingerprint, count })) };
}

interface Group {
  fingerprint: string;
  count: number;
}

test('an empty machine shows the figures and errors of the lost one, also of apps on its disk', async () => {
  await using store = await new MemoryStore().start();
  const settings = { ...bucketSettings(store.place(PREFIX)), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using lost = await new Cellar(settings).start();
  for (const slug of APPS) {
    await rpcOf(lost)('apps.create', { slug, storage: slug === 'kept' ? 'bucket' : 'local' });
    await lost.deployAgain(slug, 'hello', FAILING);
    for (let n = 0; n < 3; n++) assert.equal((await lost.get(slug, '/fails')).status, 500);
  }
  const of = (cellar: Cellar) => Promise.all(APPS.map((slug) => history(cellar, slug)));
  const isWhole = (all: Awaited<ReturnType<typeof of>>) =>
    all.every(({ failed, groups }) => failed === 3 && groups[0]?.count === 3);
  await eventually(async () => isWhole(await of(lost)), 'all errors are counted');
  const before = await of(lost);
  const copied = (table: string) =>
    [...store.objects]
      .filter(([name]) => name.startsWith(`${PREFIX}telemetry/${table}/`))
      .flatMap(([, { body }]) => JSON.parse(gunzipSync(body).toString('utf8')).rows)
      .reduce((sum, row) => sum + (row.count ?? row.errors), 0);
  for (const table of ['errors', 'minutes', 'hours'])
    await eventually(() => copied(table) === 6, `${table} are copied`, COPIED_MS);
  await lost.stop('SIGKILL');

  await using next = await new Cellar(settings).start();
  await eventually(async () => isWhole(await of(next)), 'the copies are loaded');
  assert.deepEqual(await of(next), before);
});

test('an alert reports a bucket that does not answer for 10 s, and that it is back', async () => {
  await using store = await new MemoryStore().start();
  await using receiver = await Receiver.start();
  await using cellar = await new Cellar({
    ...bucketSettings(store.place(PREFIX)),
    RUNNER_EGRESS_ALLOW: '127.0.0.1',
    RUNNER_BUCKET_PRICES: 'writes=4.50,reads=0.36',
  }).start();
  const rpc = rpcOf(cellar);
  const { id } = await rpc('apps.create', { slug: 'told' });
  const made = await rpc('alerts.set', { id, url: receiver.url, on: ['bucket'] });
  assert.deepEqual(made.on, ['bucket'], JSON.stringify(made));
  const { bucket } = (await rpc('admin.stats', {})).host;
  assert.deepEqual([bucket.problem, bucket.monthly_usd], [null, null]);
  store.cut();
  const told = () => receiver.distinct.map(({ body }) => body.type);
  await eventually(() => told().length > 0, 'the outage is reported');
  assert.match(receiver.received[0]!.body.data.message, /^The bucket cannot be used/);
  store.faults = {};
  await eventually(() => told().length > 1, 'its end is reported');
  assert.deepEqual(told(), ['bucket.away', 'bucket.back']);
});
