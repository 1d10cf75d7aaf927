// Metrics of an app's requests in the API, through the real host.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Breakdowns } from '../../runtime/telemetry/metrics/breakdowns.ts';
import { Metrics } from '../../runtime/telemetry/metrics/metrics.ts';
import { Store } from '../../runtime/telemetry/store/store.ts';
import { Spans } from '../../runtime/telemetry/traces/spans.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/processes.ts';

const WORKER = `export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/slow') await scheduler.wait(1_100);
    if (pathname === '/boom') return new Response('boom', { status: 500 });
    if (pathname === '/missing') return new Response('no', { status: 404 });
    return new Response('here');
  },
};
`;
/** A request of this duration or longer is slow, in ms. */
const SLOW_MS = 1_000;
/** Age of the metrics that a killed host may lose, in ms. */
const LOST_MS = 2_000;

interface Sums {
  requests: number;
  errors: number;
  client_errors: number;
  wakes: number;
  cpu_ms: number;
  bytes_out: number;
}

/** Returns the sums over all steps of an app's last hours. */
async function sums(cellar: Cellar, id: string, hours = 2): Promise<Sums> {
  const { status, body } = await cellar.call('GET', `/v1/apps/${id}/metrics?hours=${hours}`);
  assert.equal(status, 200, JSON.stringify(body));
  const all: Sums = { requests: 0, errors: 0, client_errors: 0, wakes: 0, cpu_ms: 0, bytes_out: 0 };
  for (const item of body.items as Sums[])
    for (const name of Object.keys(all) as (keyof Sums)[]) all[name] += item[name];
  return all;
}

async function list(cellar: Cellar, id: string, what: string, query = '') {
  const { status, body } = await cellar.call('GET', `/v1/apps/${id}/${what}?hours=2${query}`);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

test('each request counts exactly once, through wakes, deploys, sleeps and restarts of the host', async () => {
  await using cellar = await new Cellar({ RUNNER_FLEET_IDLE_EVICT_S: '1' }).start();
  const id = await cellar.deploy('counted', 'hello', { 'index.js': WORKER });
  const expected = { requests: 0, errors: 0, client_errors: 0 };
  const ask = async (): Promise<void> => {
    const paths = ['/', '/', '/boom', '/missing', '/a', '/b', '/c', '/d'];
    await Promise.all(paths.map((path) => cellar.get('counted', path)));
    expected.requests += paths.length;
    expected.errors += 1;
    expected.client_errors += 1;
  };
  await ask();
  const usedNow = async () => {
    const message = { jsonrpc: '2.0', id: 1, method: 'apps.figures', params: { id } };
    return (await cellar.call('POST', '/rpc', message)).body.result.memory_bytes;
  };
  await eventually(() => cells(id).length === 0, 'the app hibernates');
  await eventually(async () => (await usedNow()) === null, 'its figures tell that no process runs');
  await ask();
  await Promise.all([cellar.deployAgain('counted', 'hello', { 'index.js': `${WORKER}// 2` }), ask()]);
  await ask();
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`, {})).status, 200);
  await ask();
  await ask();
  await cellar.stop();
  await cellar.start();
  await ask();
  const { status } = await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.equal(status, 200);
  const refused = await cellar.get('counted', '/');
  assert.equal(refused.status, 503);
  expected.requests++;
  expected.errors++;
  // Health checks do not count as requests.
  await cellar.get('counted', '/.well-known/fleet/health');

  await eventually(async () => (await sums(cellar, id)).requests >= expected.requests, 'all are counted');
  for (const hours of [2, 24, 72, 168, 720]) {
    const { requests, errors, client_errors } = await sums(cellar, id, hours);
    assert.deepEqual({ requests, errors, client_errors }, expected, `${hours} hours`);
  }
  const { wakes, cpu_ms, bytes_out } = await sums(cellar, id);
  assert.ok(wakes >= 2, `${wakes} wakes`);
  assert.ok(cpu_ms > 0 && bytes_out > 0);
  const { items: apps, memory } = (
    await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method: 'apps.overview' })
  ).body.result;
  assert.equal(apps[0].last_deploy.status, 'live');
  const { requests, errors, duration_ms_p99, open_errors } = apps[0].figures;
  const inDay = requests.reduce((sum: number, each: number) => sum + each, 0);
  assert.deepEqual([inDay, errors, open_errors], [expected.requests, expected.errors, 0]);
  assert.ok(duration_ms_p99 > 0 && memory.used_bytes > 0 && memory.limit_bytes > 0);
  for (const what of ['devices', 'paths', 'refs', 'countries']) {
    const { items } = (await list(cellar, id, what)) as { items: { requests: number; errors: number }[] };
    const count = (name: 'requests' | 'errors') => items.reduce((sum, item) => sum + item[name], 0);
    assert.deepEqual([count('requests'), count('errors')], [expected.requests, expected.errors], what);
  }
  const spans = (await list(cellar, id, 'spans', '&limit=200')).items as {
    status: number;
    duration_ms: number;
  }[];
  // On a busy machine other requests may be slow, and slow requests have spans too.
  const failed = spans.filter(({ status }) => status >= 500);
  assert.equal(failed.length, expected.errors);
  assert.ok(spans.every((span) => failed.includes(span) || span.duration_ms >= SLOW_MS));
});

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

test('devices, paths, referrers and spans describe the requests, and contain no personal data', async () => {
  const id = await cellar.deploy('told', 'hello', { 'index.js': WORKER });
  const agent =
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36';
  const headers = { 'user-agent': agent, referer: 'https://news.example/item?reader=alice' };
  await cellar.get('told', '/users/17?token=secret', { headers });
  await cellar.get('told', '/users/18', { headers: { ...headers, referer: 'http://told.localhost/users' } });
  await cellar.get('told', '/boom?token=secret', { headers: { 'user-agent': 'curl/8.5.0' } });
  await cellar.get('told', '/slow');

  await eventually(async () => (await sums(cellar, id)).requests === 4, 'all are counted');
  const paths = await list(cellar, id, 'paths', '&limit=1');
  assert.deepEqual(paths.items, [{ path: '/users/:id', requests: 2, errors: 0 }]);
  const rest = await list(cellar, id, 'paths', `&cursor=${paths.next_cursor}`);
  assert.deepEqual(
    rest.items.map(({ path }: { path: string }) => path),
    ['/boom', '/slow'],
  );
  assert.equal(rest.next_cursor, null);
  const devices = await list(cellar, id, 'devices');
  const chrome = { kind: 'desktop', client: 'Chrome', os: 'Linux', requests: 2, errors: 0 };
  assert.deepEqual(devices.items[0], chrome);
  assert.ok(devices.items.some((item: { client: string }) => item.client === 'curl'));
  const refs = await list(cellar, id, 'refs');
  assert.deepEqual(
    new Set(refs.items),
    new Set([
      { referrer: null, source: 'none', requests: 2, errors: 1 },
      { referrer: 'news.example', source: 'site', requests: 1, errors: 0 },
      { referrer: 'told.localhost', source: 'own', requests: 1, errors: 0 },
    ]),
  );
  const first = await list(cellar, id, 'spans', '&limit=1');
  assert.deepEqual([first.items[0].path, first.items[0].status], ['/slow', 200]);
  const second = await list(cellar, id, 'spans', `&limit=1&cursor=${first.next_cursor}`);
  const [boom] = second.items;
  assert.deepEqual([boom.path, boom.status, boom.kind], ['/boom', 500, 'fleet.fetch']);
  assert.equal(boom.release, (await cellar.app(id)).live_deploy_id);
  const log = await cellar.call('GET', '/v1/admin/stats');
  assert.equal(log.body.host.telemetry.dropped.requests, 0);
  for (const answer of [paths, rest, devices, refs, first, second])
    assert.doesNotMatch(JSON.stringify(answer), /secret|alice|127\.0\.0|143\.0/);
});

test('invalid ranges and unknown apps are refused', async () => {
  const id = await cellar.create('ranges');
  for (const what of ['metrics', 'devices', 'paths', 'refs', 'countries', 'spans']) {
    for (const hours of ['0', '-1', '1e9', '721', 'abc', '1.5', 'NaN', '%00']) {
      const { status, body } = await cellar.call('GET', `/v1/apps/${id}/${what}?hours=${hours}`);
      assert.deepEqual([status, body.code], [400, 'invalid_input'], `${what} ${hours}`);
    }
    const unknown = await cellar.call('GET', `/v1/apps/0000000000000000/${what}`);
    assert.equal(unknown.body.code, 'app_not_found');
    assert.equal((await cellar.call('GET', `/v1/apps/${id}/${what}`)).status, 200, what);
  }
  const { body } = await cellar.call('GET', `/v1/apps/${id}/metrics/version`);
  assert.deepEqual(body, { schema: 1, watermark: null });
  const { items } = (await cellar.call('GET', `/v1/apps/${id}/metrics?hours=720`)).body;
  assert.ok(items.every((item: Sums) => item.requests === 0));
});

test('a killed host loses at most two seconds of metrics, and no metrics of a deleted app stay', async () => {
  const id = await cellar.deploy('killed', 'hello', { 'index.js': WORKER });
  const ask = (count: number) =>
    Promise.all(Array.from({ length: count }, () => cellar.get('killed', '/boom')));
  await ask(40);
  await sleep(2 * LOST_MS);
  await ask(20);
  const memory = async () => {
    const message = { jsonrpc: '2.0', id: 1, method: 'apps.overview' };
    const { items } = (await cellar.call('POST', '/rpc', message)).body.result;
    return items.find((item: { id: string }) => item.id === id).figures.memory_bytes;
  };
  await eventually(async () => (await memory()) > 0, 'its memory is reported');
  await cellar.stop('SIGKILL');
  await cellar.start();
  const { requests } = await sums(cellar, id);
  assert.ok(requests >= 40 && requests <= 60, `${requests} requests`);
  // An app without a process has no memory value, whatever its last minutes had.
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).status, 200);
  assert.equal(await memory(), null);

  const other = await cellar.deploy('stays', 'hello', { 'index.js': WORKER });
  await cellar.get('stays', '/boom');
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  await cellar.stop();
  await cellar.start();
  await eventually(async () => (await sums(cellar, other)).requests === 1, 'it is counted');
  // If the host stopped before it removed the deleted app's metrics, the next start removes them.
  const kept = async () => {
    await cellar.stop();
    const store = new Store(join(cellar.data, 'telemetry'));
    const days = { retentionDays: 30 };
    const parts = [new Metrics(store, days), new Breakdowns(store, days), new Spans(store, days)];
    const apps = parts.flatMap((part) => part.apps());
    store.close();
    return apps;
  };
  const left = await kept();
  assert.ok(left.includes(other) && !left.includes(id), left.join());
});
