// The records that observers get of finished requests.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Target } from '../../../runtime/edge/gateway.ts';
import type { RequestRecord } from '../../../runtime/edge/log/record.ts';
import type { Admission } from '../../../runtime/edge/upstream/backend.ts';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import { call, RawClient, startGateway, startRawUpstream, until } from '../../support/edge/peers.ts';

const OK = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 4\r\n\r\nfine';

/** Starts a gateway whose backend does what `admit` returns, and collects the records of its requests. */
async function observed(
  answer: string,
  admit?: (upstream: Upstream) => Admission,
  limits?: Target['limits'],
) {
  const process = await startRawUpstream((_head, socket) => socket.write(answer));
  const upstream = new Upstream({ socketPath: process.socketPath });
  const backend = {
    site: 'app',
    admit: (): Admission => admit?.(upstream) ?? { kind: 'forward', upstream },
  };
  const front = await startGateway(process.socketPath, {
    resolve: () => ({ kind: 'proxy', backend, ...(limits && { limits }) }),
  });
  const records: RequestRecord[] = [];
  front.gateway.onEnd((record) => records.push(record));
  return {
    port: front.port,
    gateway: front.gateway,
    process,
    records,
    [Symbol.asyncDispose]: async () => {
      await front[Symbol.asyncDispose]();
      upstream.destroy();
      await process[Symbol.asyncDispose]();
    },
  };
}

test('a record describes the request and its result', async () => {
  await using parts = await observed(OK, undefined, { site: 'app', clientRpm: 600, appRpm: 0 });
  const before = Date.now();
  const { headers } = await call(parts.port, '/path?query', {
    method: 'POST',
    headers: { host: 'a.example', 'user-agent': 'agent', referer: 'https://from.example/page?secret' },
    body: 'twelve bytes',
  });
  await until(() => parts.records.length === 1, 'the record');
  const [record] = parts.records;
  assert.ok(record!.endedAt >= before && record!.endedAt <= Date.now());
  assert.ok(record!.durationMs > 0 && record!.durationMs < 10_000);
  assert.match(record!.traceId, /^[0-9a-f]{32}$/);
  assert.match(record!.spanId, /^[0-9a-f]{16}$/);
  assert.deepEqual(record, {
    endedAt: record!.endedAt,
    site: 'app',
    method: 'POST',
    path: '/path',
    clientInfo: {
      host: 'a.example',
      protocol: 'HTTP/1.1',
      userAgent: 'agent',
      referrer: 'https://from.example/page',
      country: null,
      clientNetwork: '127.0.0.0',
      peerNetwork: '127.0.0.0',
      logged: null,
    },
    status: 200,
    durationMs: record!.durationMs,
    heldMs: 0,
    cellStart: 'warm',
    wakeMs: 0,
    release: null,
    bytesIn: 12,
    bytesOut: 4,
    contentType: 'text/plain',
    traceId: record!.traceId,
    spanId: record!.spanId,
    parentSpanId: null,
    requestId: headers['x-request-id'],
    refused: null,
    upgraded: false,
    home: null,
  });
});

test('the record of a request that waited for a start has the wait and says that the process was cold', async () => {
  const gate = Promise.withResolvers<void>();
  let woken: Upstream | null = null;
  let asked = 0;
  await using parts = await observed(OK, () => {
    asked++;
    return woken === null ? { kind: 'hold', ready: gate.promise } : { kind: 'forward', upstream: woken };
  });
  const reply = call(parts.port, '/');
  await until(() => asked === 1, 'it is held');
  woken = new Upstream({ socketPath: parts.process.socketPath }, { readyAt: performance.now(), startMs: 25 });
  gate.resolve();
  assert.equal((await reply).status, 200);
  await call(parts.port, '/');
  await until(() => parts.records.length === 2, 'both records');
  const [first, second] = parts.records;
  assert.deepEqual([first!.cellStart, first!.wakeMs], ['cold', 25]);
  assert.ok(first!.heldMs > 0 && first!.heldMs <= first!.durationMs);
  assert.deepEqual([second!.cellStart, second!.wakeMs, second!.heldMs], ['warm', 0, 0]);
  woken.destroy();
});

test('the record of a refusal has the reason, and that of an upgrade says so', async () => {
  const shed: Admission = {
    kind: 'refuse',
    status: 503,
    code: 'app_unavailable',
    reason: 'shed',
    detail: '',
  };
  await using refusing = await observed(OK, () => shed, { site: 'app', clientRpm: 6, appRpm: 0 });
  for (const status of [503, 429]) assert.equal((await call(refusing.port, '/')).status, status);
  await until(() => refusing.records.length === 2, 'both records');
  const told = refusing.records.map(({ refused, cellStart, status }) => [refused, cellStart, status]);
  assert.deepEqual(told, [
    ['shed', null, 503],
    ['rate_limited', null, 429],
  ]);
  await using upgrading = await observed(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello',
  );
  using client = new RawClient(upgrading.port);
  client.send('GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
  await client.expect('hello');
  client.socket.destroy();
  await until(() => upgrading.records.length === 1, 'the record');
  assert.deepEqual([upgrading.records[0]!.upgraded, upgrading.records[0]!.status], [true, 101]);
});

test('an observer that throws harms neither the request nor another observer, and an observer can be removed', async () => {
  await using parts = await observed(OK);
  parts.gateway.onEnd(() => {
    throw new Error('an observer of this test fails');
  });
  let told = 0;
  const remove = parts.gateway.onEnd(() => told++);
  for (let i = 0; i < 2; i++) assert.equal((await call(parts.port, '/')).body, 'fine');
  await until(() => told === 2, 'the observer behind the failing one is told');
  remove();
  assert.equal((await call(parts.port, '/')).body, 'fine');
  await until(() => parts.records.length === 3, 'the first observer is told of the third');
  assert.equal(told, 2);
});

test("a record has the client's country by its address, or as a trusted Cloudflare tells it", async () => {
  const process = await startRawUpstream((_head, socket) => socket.write(OK));
  await using parts = process;
  const upstream = new Upstream({ socketPath: process.socketPath });
  const backend = { site: 'app', admit: (): Admission => ({ kind: 'forward', upstream }) };
  const countries = async (trustedProxies: string[], headers: Record<string, string>, located = 'DE') => {
    await using front = await startGateway(parts.socketPath, {
      resolve: () => ({ kind: 'proxy', backend }),
      locate: () => `"country":"${located}"`,
      trustedProxies,
    });
    const records: RequestRecord[] = [];
    front.gateway.onEnd((record) => records.push(record));
    await call(front.port, '/', { headers: { host: 'a.example', ...headers } });
    await until(() => records.length === 1, 'the record');
    return records[0]!.clientInfo.country;
  };
  const ofCloudflare = { 'x-forwarded-for': '203.0.113.9', 'cf-ipcountry': 'FR' };
  assert.equal(await countries([], ofCloudflare), 'DE', 'a client cannot claim one');
  assert.equal(await countries([], {}, 'A1'), null, 'MaxMind has it for proxies');
  assert.equal(await countries(['127.0.0.0/8'], ofCloudflare), 'FR');
  assert.equal(await countries(['127.0.0.0/8'], { ...ofCloudflare, 'cf-ipcountry': 'XX' }), null);
  upstream.destroy();
});
