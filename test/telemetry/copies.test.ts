// Copies of metrics and error groups in a bucket: what is written, and what another machine reads from them.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Copies } from '../../runtime/telemetry/copies/copies.ts';
import { copiesOf, type KnownHosts } from '../../runtime/telemetry/copies/source.ts';
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

/** Opens the telemetry of a machine whose bucket is `bucket`. @param host its id, as one of several hosts */
function machine(
  t: TestContext,
  bucket: MemoryStore,
  directory = temporaryDirectory(t),
  retentionDays = 30,
  host: string | null = null,
) {
  const root = copiesOf(host);
  const store = new Store(directory);
  const metrics = new Metrics(store, { retentionDays });
  const { errors, report, list, close } = openErrors(t, { retentionDays }, directory);
  const troubles: string[] = [];
  const copies = new Copies({
    place: bucket.place('of/cellar/'),
    root,
    sources: [errors.copies(root), ...metrics.copies(root)],
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
  await lost.copies.round(null);

  const next = machine(t, bucket);
  next.count(1);
  await next.report(APP, 2);
  await next.copies.round(null);
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
  await again.copies.round(null);
  assert.equal(again.requests(720), 13, 'loaded once');
});

test('only what has changed is written', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { copies, count, report } = machine(t, bucket);
  await copies.round(null);
  assert.deepEqual(asked(bucket), ['GET of/cellar/telemetry/']);
  await copies.round(null);
  assert.deepEqual(asked(bucket), []);
  count(1, 2 * HOUR_MS);
  count(1);
  await report(APP, 1);
  await copies.round(null);
  asked(bucket);
  await copies.round(null);
  assert.deepEqual(asked(bucket), []);
  count(1);
  await copies.round(null);
  const figures = [
    'PUT of/cellar/telemetry/hours/…/0000.json.gz',
    'PUT of/cellar/telemetry/minutes/…/0000.json.gz',
  ];
  assert.deepEqual(asked(bucket), figures);
  await report(APP, 1);
  await copies.round(null);
  assert.deepEqual(asked(bucket), ['PUT of/cellar/telemetry/errors/…/0000.json.gz']);
});

test('a bucket that is away delays copies, and gets the newest state', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  await lost.copies.round(null);
  lost.count(1, 5 * HOUR_MS);
  bucket.cut();
  await assert.rejects(lost.copies.round(null));
  lost.count(1);
  lost.count(1, 2 * HOUR_MS);
  bucket.faults = {};
  await lost.copies.round(null);
  const next = machine(t, bucket);
  await next.copies.round(null);
  assert.equal(next.requests(24), 3);
});

test('copies go on after the clock was set back', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 3 * DAY_MS });
  lost.count(1);
  await lost.copies.round(null);
  t.mock.timers.reset();
  lost.count(1);
  await lost.copies.round(null);
  const next = machine(t, bucket);
  await next.copies.round(null);
  assert.equal(next.requests(1), 1);
});

test('a load that is interrupted goes on after a restart, and counts nothing twice', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  for (let hour = 0; hour < 30; hour++) lost.count(1, hour * HOUR_MS);
  await lost.copies.round(null);
  asked(bucket);
  const first = machine(t, bucket);
  bucket.faults = { hangs: () => bucket.asked.length > 10 };
  first.copies.start(null);
  await eventually(() => bucket.asked.length > 10, 'some copies are loaded');
  await first.copies.close();
  bucket.faults = {};
  const loaded = first.requests(72);
  assert.ok(loaded > 0 && loaded < 30, `${loaded}`);
  first.close();
  const second = machine(t, bucket, first.directory);
  await second.copies.round(null);
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
  await lost.copies.round(null);
  lost.forget(OTHER);
  await lost.copies.round(null);
  assert.doesNotMatch(copied(bucket), new RegExp(OTHER));
  assert.match(copied(bucket), new RegExp(APP));

  const next = machine(t, bucket);
  next.forget(APP);
  await next.copies.round(null);
  assert.equal(next.requests(720), 0);
  assert.deepEqual(await next.list(APP), []);
  assert.equal(bucket.objects.size, 0, 'objects without rows are removed');
});

test('old copies are removed', async (t) => {
  await using bucket = await new MemoryStore().start();
  const month = machine(t, bucket);
  for (const ago of [0, 80 * HOUR_MS, 20 * DAY_MS]) month.count(1, ago);
  await month.copies.round(null);
  const of = (table: string) =>
    [...bucket.objects.keys()].filter((name) => name.includes(`/${table}/`)).length;
  assert.deepEqual([of('minutes'), of('hours')], [1, 3]);
  month.close();
  const week = machine(t, bucket, month.directory, 7);
  await week.copies.round(null);
  assert.deepEqual([of('minutes'), of('hours')], [1, 2]);
});

test('a copy that cannot be read is left out', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = machine(t, bucket);
  lost.count(1);
  lost.count(1, 20 * DAY_MS);
  await lost.copies.round(null);
  const [damaged] = [...bucket.objects].filter(([name]) => name.includes('/hours/')).sort()[0]!;
  const newer = gzipSync(JSON.stringify({ format: 2, rows: [] }));
  bucket.objects.set(damaged, { ...bucket.objects.get(damaged)!, body: newer });
  bucket.objects.set('of/cellar/telemetry/hours/note', {
    body: Buffer.from('x'),
    etag: '"x"',
    at: new Date().toISOString(),
  });
  const next = machine(t, bucket);
  await next.copies.round(null);
  assert.deepEqual(next.troubles, [`${damaged.slice('of/cellar/'.length)} cannot be loaded`]);
  assert.equal(next.requests(720), 1);
  assert.deepEqual(bucket.objects.get(damaged)!.body, newer, 'it stays as it is');
});

/** Opens the telemetry of one of several hosts. */
function host(t: TestContext, bucket: MemoryStore, id: string, directory?: string) {
  return machine(t, bucket, directory, 30, id);
}

function known(notLost: string[], apps = [APP, OTHER]): KnownHosts {
  return { notLost, apps };
}

test('several hosts keep their copies apart, and an empty host takes over only those of lost hosts', async (t) => {
  await using bucket = await new MemoryStore().start();
  const [one, two] = [host(t, bucket, 'one'), host(t, bucket, 'two')];
  for (const ago of [0, 5 * HOUR_MS, 20 * DAY_MS]) one.count(5, ago);
  await one.report(APP, 1);
  two.count(7, 0, OTHER);
  await one.copies.round(known(['two']));
  await two.copies.round(known(['one']));

  const third = host(t, bucket, 'three');
  await third.copies.round(known(['one', 'two']));
  assert.deepEqual([third.requests(1), third.requests(1, OTHER)], [0, 0], 'no host is lost');

  const fourth = host(t, bucket, 'four');
  fourth.count(1);
  await fourth.copies.round(known(['two', 'three']));
  assert.deepEqual([fourth.requests(1), fourth.requests(720), fourth.requests(1, OTHER)], [6, 16, 0]);
  assert.equal((await fourth.list(APP)).length, (await one.list(APP)).length);
  assert.deepEqual(
    [...bucket.objects.keys()].filter((name) => name.includes('/one/')),
    [],
  );

  // The fourth host has copied the rows of the first one.
  const fifth = host(t, bucket, 'five');
  await fifth.copies.round(known([]));
  assert.deepEqual([fifth.requests(1), fifth.requests(720), fifth.requests(1, OTHER)], [6, 16, 7]);
});

test('a host that seemed lost writes its copies again when it starts', async (t) => {
  await using bucket = await new MemoryStore().start();
  const silent = host(t, bucket, 'silent');
  for (const ago of [0, 5 * HOUR_MS, 20 * DAY_MS]) silent.count(1, ago);
  await silent.report(APP, 1);
  await silent.copies.round(known([]));
  const own = () => [...bucket.objects.keys()].filter((name) => name.includes('/silent/')).sort();
  const before = own();
  silent.close();
  await host(t, bucket, 'next').copies.round(known([]));
  assert.deepEqual(own(), []);
  const again = host(t, bucket, 'silent', silent.directory);
  await again.copies.round(known(['next']));
  assert.deepEqual(own(), before);
  asked(bucket);
  await again.copies.round(known(['next']));
  assert.deepEqual(asked(bucket), []);
});

test('taking over goes on after a restart, and counts nothing twice', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = host(t, bucket, 'lost');
  for (let hour = 0; hour < 30; hour++) lost.count(1, hour * HOUR_MS);
  await lost.copies.round(known([]));
  asked(bucket);
  const first = host(t, bucket, 'new');
  bucket.faults = { hangs: () => bucket.asked.length > 10 };
  first.copies.start(known([]));
  await eventually(() => bucket.asked.length > 10, 'some copies are loaded');
  await first.copies.close();
  bucket.faults = {};
  first.close();
  const second = host(t, bucket, 'new', first.directory);
  await second.copies.round(known([]));
  assert.deepEqual([second.requests(72), second.requests(720)], [30, 30]);
  const next = host(t, bucket, 'next');
  await next.copies.round(known([]));
  assert.deepEqual([next.requests(72), next.requests(720)], [30, 30]);
});

test('rows of deleted apps are not taken over', async (t) => {
  await using bucket = await new MemoryStore().start();
  const lost = host(t, bucket, 'lost');
  for (const site of [APP, OTHER]) {
    lost.count(1, 0, site);
    await lost.report(site, 1);
  }
  await lost.copies.round(known([]));
  const next = host(t, bucket, 'next');
  await next.copies.round(known([], [APP]));
  assert.deepEqual([next.requests(720), next.requests(720, OTHER)], [1, 0]);
  assert.deepEqual(await next.list(OTHER), []);
  assert.doesNotMatch(copied(bucket), new RegExp(OTHER));
});

test('the copies of a single machine move to a folder of its own when it becomes one of several', async (t) => {
  await using bucket = await new MemoryStore().start();
  const single = machine(t, bucket);
  for (const ago of [0, 5 * HOUR_MS, 20 * DAY_MS]) single.count(1, ago);
  await single.report(APP, 1);
  await single.copies.round(null);
  single.close();
  const first = host(t, bucket, 'first', single.directory);
  await first.copies.round(known([]));
  assert.equal(first.requests(720), 3, 'loaded once');
  const names = [...bucket.objects.keys()];
  assert.ok(names.length > 0 && names.every((name) => name.startsWith('of/cellar/telemetry/hosts/first/')));
  const next = host(t, bucket, 'next');
  await next.copies.round(known([]));
  assert.equal(next.requests(720), 3);
});

test('the first of several hosts continues a lost single machine', async (t) => {
  await using bucket = await new MemoryStore().start();
  const single = machine(t, bucket);
  single.count(3);
  await single.copies.round(null);
  const second = host(t, bucket, 'second');
  await second.copies.round(known(['first']));
  assert.equal(second.requests(1), 0);
  const first = host(t, bucket, 'first');
  await first.copies.round(known([]));
  assert.equal(first.requests(1), 3);
});
