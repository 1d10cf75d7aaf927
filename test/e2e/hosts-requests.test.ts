// Requests, pushes and calls at a host that is not the home of their app: the home is the host that runs it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';
import { OtlpReceiver } from '../support/telemetry/otlp.ts';

const SHOP = {
  'wrangler.json': JSON.stringify({ name: 'x', main: 'index.js', compatibility_date: '2026-10-01' }),
  'index.js': `export default {
  async fetch(request) {
    if (request.method === 'POST') return new Response(request.body);
    if (request.url.endsWith('/traced')) return new Response(request.headers.get('traceparent'));
    return new Response('the shop at ' + new URL(request.url).hostname);
  },
};`,
};

let hosts: Hosts;
let receiver: OtlpReceiver;
/** The home of the app `shop`, and the host that is not. */
let [home, other]: TestHost[] = [];
let shop = '';

before(async () => {
  receiver = await OtlpReceiver.start();
  hosts = await Hosts.start(2, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
  const [one] = hosts.all as [TestHost];
  const { items } = await rpcOf(one)('hosts.list', {});
  const created = await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  shop = created.id;
  const { address } = items.find(({ id }: { id: string }) => id === created.home.id);
  home = hosts.all.find((host) => host.address === address)!;
  other = hosts.all.find((host) => host !== home)!;
});
after(async () => {
  await hosts[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

test('a push to the other host is deployed at the home, and both hosts serve it', async () => {
  await other!.deployAgain('shop', 'hello', SHOP);
  for (const host of [home!, other!])
    assert.equal((await host.get('shop')).text, 'the shop at shop.localhost');
  const body = randomBytes(2 ** 20).toString('hex');
  const { text } = await other!.get('shop', '/', { method: 'POST', body });
  assert.equal(text, body);
});

test('the API of each host reads what is at the home', async () => {
  for (const host of hosts.all) {
    const { status, body } = await host.call('GET', `/v1/apps/${shop}/deploys`);
    assert.equal(status, 200);
    assert.equal(body.items.length, 1);
    const log = await host.call('GET', `/v1/apps/${shop}/deploys/${body.items[0].id}/log`);
    assert.match(JSON.stringify(log.body), /start: the first release/);
  }
});

test('both access logs name the hosts, under one trace', async () => {
  const id = randomBytes(8).toString('hex');
  assert.equal((await other!.get('shop', `/${id}`)).status, 200);
  const lineOf = ({ data }: TestHost) => {
    const path = layout(data).accessLog;
    // A host creates the file when it writes the first line.
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
    return text.split('\n').find((line) => line.includes(id));
  };
  await eventually(() => hosts.all.every((host) => lineOf(host) !== undefined), 'both have the line');
  const [there, here] = [home!, other!].map((host) => JSON.parse(lineOf(host)!));
  assert.equal(here.trace_id, there.trace_id);
  assert.ok(here.home);
  assert.equal(there.home, undefined);
  assert.deepEqual([here.site, there.site], [shop, shop]);
});

test('a request is one span at either host, and its parent is the span of the caller', async () => {
  const spansOf = (traceId: string) => receiver.spans().filter((span) => span.traceId === traceId);
  for (const host of hosts.all) {
    const [traceId, parentSpanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
    const traceparent = `00-${traceId}-${parentSpanId}-01`;
    const { text: forwarded } = await host.get('shop', '/traced', { headers: { traceparent } });
    await eventually(() => spansOf(traceId).length > 0, 'the span arrives');
    const [span, ...others] = spansOf(traceId);
    assert.deepEqual(others, []);
    assert.equal(span.parentSpanId, parentSpanId);
    assert.equal(forwarded, `00-${traceId}-${span.spanId}-01`);
  }
  const { text: begun } = await other!.get('shop', '/traced');
  const [, traceId, spanId] = begun.split('-');
  await eventually(() => spansOf(traceId!).length > 0, 'the span arrives');
  const [root] = spansOf(traceId!);
  assert.deepEqual([root.spanId, root.parentSpanId ?? ''], [spanId, '']);
});

test('the metrics of all hosts are one document that Prometheus can read', async (t) => {
  const { items } = await rpcOf(home!)('hosts.list', {});
  const body = String((await other!.call('GET', '/metrics')).body);
  const lines = body.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const series = lines.map((line) => line.slice(0, line.lastIndexOf(' ')));
  assert.equal(new Set(series).size, series.length, 'each series is there once');
  for (const { id } of items) {
    // The series name hosts by id, because both hosts have the same name.
    assert.ok(lines.includes(`cellar_host_up{host="${id}"} 1`), body);
    assert.ok(series.includes(`cellar_memory_used_bytes{host="${id}"}`), body);
  }
  const requests = lines.filter((line) =>
    /^cellar_app_requests_total\{.*app="shop",status="2xx"\}/.test(line),
  );
  assert.equal(requests.length, 1, 'only the home counts requests');
  if (spawnSync('promtool', ['--version']).error !== undefined)
    return t.diagnostic('promtool is not installed: apt-get install prometheus');
  const checked = spawnSync('promtool', ['check', 'metrics'], { input: body, encoding: 'utf8' });
  assert.deepEqual([checked.status, checked.stderr], [0, '']);
});

test('a name that nobody has is not found at each host', async () => {
  for (const host of hosts.all) assert.equal((await host.get('nobody')).status, 404);
});

// This test is the last, because an app that moves leaves its logs behind.
test('maintenance is the same at both hosts, also after the app has moved between them', async () => {
  const rpc = rpcOf(other!);
  await rpc('maintenance.set', { id: shop, enabled: true, html: '<p>later</p>' });
  const pages = () =>
    Promise.all(hosts.all.map((host) => host.get('shop', '/', { headers: { accept: 'text/html' } })));
  const expected = [
    [503, '<p>later</p>'],
    [503, '<p>later</p>'],
  ];
  assert.deepEqual(
    (await pages()).map(({ status, text }) => [status, text]),
    expected,
  );
  const { items } = await rpc('hosts.list', {});
  const idOf = (host: TestHost) =>
    items.find(({ address }: { address: string }) => address === host.address).id;
  for (const to of [other!, home!]) {
    await rpc('apps.move', { id: shop, host: idOf(to) });
    assert.deepEqual(
      (await pages()).map(({ status, text }) => [status, text]),
      expected,
    );
  }
  await rpc('maintenance.set', { id: shop, enabled: false });
  for (const host of hosts.all) assert.equal((await host.get('shop')).status, 200);
});
