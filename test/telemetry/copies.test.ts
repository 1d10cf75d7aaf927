// Copies of metrics and error groups in a bucket: what is written, and what another machine reads from them.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Copies } from '../../runtime/telemetry/copies/copies.ts';
import { Metrics } from '../../runtime/telemetry/metrics/metrics.ts';
import { Store } from '../../runtime/telemetry/store/store.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { eventually } from '../support/processes.ts';
import { openErrors } from '../support/telemetry/errors.ts';
import { APP, taken } from '../support/telemetry/parts.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const OTHER = 'fedcba9876543210';

/** Opens the telemetry of a machine whose bucket is `bucket`. */
function machine(t: TestContext, bucket: MemoryStore, directory = temporaryDirectory(t), retentionDays = 30) {
  const store = new Store(directory);
  const metrics = new Metrics(store, { retentionDays });
  const { errors, report, list, close } = openErrors(t, { retentionDays }, directory);
  const troubles: string[] = [];
  const copies = new Copies({
    place: bucket.place('of/cellar/'),
    sources: [errors.copies(), ...metrics.copies()],
    onTrouble: (message) => troubles.push(message),
  });
  t.after(() => store.close());
  return {
    ...{ directory, copies, metrics, errors, report, list, troubles },
    /** Counts requests that ended `ago` ms ago. */
    count: (requests: number, ago = 0, site = APP) => {
      const endedAt = Date.now() - ago;
      metrics.take(taken(Array.from({ length: requests }, () => ({ endedAt, site, status: 500 }))));
      metrics.flush();
    },
    read: (hours: number, appId = APP) => metrics.answers.metrics({ appId, hours }).items,
    requests: (hours: number, appId = APP) =>
      metrics.answers.metrics({ appId, hours }).items.reduce((sum, { requests }) => sum + requests, 0),
    forget: (appId: string) => {
      for (const part of [copies, metrics, errors]) part.forget(appId);
    },
    /** Closes the telemetry, so that its directory can be opened again. */
    close: () => {
      close();
      store.close();
    },
  };
}

/** Returns the requests to the bucket since the last call. */
function asked(bucket: MemoryStore): string[] {
  return bucket.asked.splice(0).map(({ method, key }) => `${method} ${key.replace(/\/[\dT-]+\//, '/…/')}`);
}

/** Returns all copies as text. */
function copied(bucket: MemoryStore): string {
  return [...bucket.objects.values()].map(({ body }) => gunzipSync(body).toString('utf8')).join('\n');
}

test('an empty machine has the figures and error groups of the lost one, once, beside its own', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  for (const ago of [0, 5 * 60_000, 30 * HOUR_MS, 20 * DAY_MS]) lost.count(3, ago);
  lost.count(2, 0, OTHER);
  await lost.report(APP, 2);
  const [ignored, resolved] = await lost.list(APP);
  const set = (fingerprint: string, status: 'ignored' | 'resolved') =>
    lost.errors.answers['errors/status']!({ appId: APP, fingerprint, status });
  await set(ignored!.fingerprint, 'ignored');
  await set(resolved!.fingerprint, 'resolved');
  await lost.copies.round();

  const next = machine(t, bucket);
  next.count(1);
  await next.report(APP, 2);
  await next.copies.round();
  assert.deepEqual([next.requests(1), next.requests(72), next.requests(720)], [7, 10, 13]);
  assert.equal(next.requests(1, OTHER), 2);
  assert.deepEqual(
    next.read(720).find(({ requests }) => requests === 3),
    lost.read(720).find(({ requests }) => requests === 3),
  );
  const [group] = await next.list(APP, 'ignored');
  assert.deepEqual([group!.fingerprint, group!.count], [ignored!.fingerprint, 2]);
  assert.equal(group!.first_seen_at, ignored!.first_seen_at);
  assert.equal(
    group!.sparkline.reduce((sum, errors) => sum + errors),
    2,
  );
  assert.deepEqual((await next.list(APP, 'resolved'))[0]!.fingerprint, resolved!.fingerprint);

  next.close();
  const again = machine(t, bucket, next.directory);
  await again.copies.round();
  assert.equal(again.requests(720), 13, 'loaded once');
});

test('only what has changed is written', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { copies, count, report } = machine(t, bucket);
  await copies.round();
  assert.deepEqual(asked(bucket), ['GET of/cellar/telemetry/']);
  await copies.round();
  assert.deepEqual(asked(bucket), []);
  count(1, 2 * HOUR_MS);
  count(1);
  await report(APP, 1);
  await copies.round();
  asked(bucket);
  await copies.round();
  assert.deepEqual(asked(bucket), []);
  count(1);
  await copies.round();
  const figures = [
    'PUT of/cellar/telemetry/hours/…/0000.json.gz',
    'PUT of/cellar/telemetry/minutes/…/0000.json.gz',
  ];
  assert.deepEqual(asked(bucket), figures);
  await report(APP, 1);
  await copies.round();
  assert.deepEqual(asked(bucket), ['PUT of/cellar/telemetry/errors/…/0000.json.gz']);
});

test('a bucket that is away delays copies, and gets the newest state', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  await lost.copies.round();
  lost.count(1, 5 * HOUR_MS);
  bucket.cut();
  await assert.rejects(lost.copies.round());
  lost.count(1);
  lost.count(1, 2 * HOUR_MS);
  bucket.faults = {};
  await lost.copies.round();
  const next = machine(t, bucket);
  await next.copies.round();
  assert.equal(next.requests(24), 3);
});

test('copies go on after the clock was set back', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 3 * DAY_MS });
  lost.count(1);
  await lost.copies.round();
  t.mock.timers.reset();
  lost.count(1);
  await lost.copies.round();
  const next = machine(t, bucket);
  await next.copies.round();
  assert.equal(next.requests(1), 1);
});

test('a load that is interrupted goes on after a restart, and counts nothing twice', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  for (let hour = 0; hour < 30; hour++) lost.count(1, hour * HOUR_MS);
  await lost.copies.round();
  asked(bucket);
  const first = machine(t, bucket);
  first.copies.start();
  await eventually(() => bucket.asked.length > 10, 'some copies are loaded');
  await first.copies.close();
  const loaded = first.requests(72);
  assert.ok(loaded > 0 && loaded < 30, `${loaded}`);
  first.close();
  const second = machine(t, bucket, first.directory);
  await second.copies.round();
  assert.equal(second.requests(72), 30);
  assert.equal(second.requests(720), 30);
});

test('the rows of a deleted app are removed from all copies, also of one deleted before the load', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  for (const ago of [0, HOUR_MS, 30 * HOUR_MS, 20 * DAY_MS])
    for (const site of [APP, OTHER]) lost.count(1, ago, site);
  await lost.report(APP, 1);
  await lost.report(OTHER, 1);
  await lost.copies.round();
  lost.forget(OTHER);
  await lost.copies.round();
  assert.doesNotMatch(copied(bucket), new RegExp(OTHER));
  assert.match(copied(bucket), new RegExp(APP));

  const next = machine(t, bucket);
  next.forget(APP);
  await next.copies.round();
  assert.equal(next.requests(720), 0);
  assert.deepEqual(await next.list(APP), []);
  assert.equal(bucket.objects.size, 0, 'objects without rows are removed');
});

test('old copies are removed', async (t) => {
  await using bucket = await new MemoryStore().start();
  const month = machine(t, bucket);
  for (const ago of [0, 80 * HOUR_MS, 20 * DAY_MS]) month.count(1, ago);
  await month.copies.round();
  const of = (table: string) =>
    [...bucket.objects.keys()].filter((name) => name.includes(`/${table}/`)).length;
  assert.deepEqual([of('minutes'), of('hours')], [1, 3]);
  month.close();
  const week = machine(t, bucket, month.directory, 7);
  await week.copies.round();
  assert.deepEqual([of('minutes'), of('hours')], [1, 2]);
});

test('a copy that cannot be read is left out', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  lost.count(1);
  lost.count(1, 20 * DAY_MS);
  await lost.copies.round();
  const [damaged] = [...bucket.objects].filter(([name]) => name.includes('/hours/')).sort()[0]!;
  const newer = gzipSync(JSON.stringify({ format: 2, rows: [] }));
  bucket.objects.set(damaged, { ...bucket.objects.get(damaged)!, body: newer });
  bucket.objects.set('of/cellar/telemetry/hours/note', {
    body: Buffer.from('x'),
    etag: '"x"',
    at: new Date().toISOString(),
  });
  const next = machine(t, bucket);
  await next.copies.round();
  assert.deepEqual(next.troubles, [`${damaged.slice('of/cellar/'.length)} cannot be loaded`]);
  assert.equal(next.requests(720), 1);
  assert.deepEqual(bucket.objects.get(damaged)!.body, newer, 'it stays as it is');
});
