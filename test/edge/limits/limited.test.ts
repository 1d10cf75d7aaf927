import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Target } from '../../../runtime/edge/gateway.ts';
import { call, RawClient, startGateway, startRawUpstream, until } from '../../support/edge/peers.ts';

let upstream: Awaited<ReturnType<typeof startRawUpstream>>;
before(async () => {
  upstream = await startRawUpstream((_head, socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'),
  );
});
after(() => upstream[Symbol.asyncDispose]());

/** Starts a gateway that admits each client once in ten seconds. Each host is its own site; `free` has no limit. */
async function limited(trustedProxies: string[] = []) {
  const target = await startGateway(upstream.socketPath);
  const resolve = ({ host }: { host: string }): Target => ({
    kind: 'proxy',
    backend: { site: host, admit: () => ({ kind: 'forward', upstream: target.upstream }) },
    limits: { site: host, clientRpm: host === 'free' ? 0 : 6, appRpm: 0 },
  });
  const gateway = await startGateway(upstream.socketPath, { resolve, trustedProxies });
  return {
    port: gateway.port,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await target[Symbol.asyncDispose]();
    },
  };
}

test('above the limit a client gets 429 with Retry-After, as a problem or a page, and its app gets nothing', async (t) => {
  // The clock stands still, because the answers say how long to wait.
  const now = performance.now();
  t.mock.method(performance, 'now', () => now);
  await using gateway = await limited();
  assert.equal((await call(gateway.port, '/', { headers: { host: 'a' } })).status, 200);
  const before = upstream.requests.length;
  const problem = await call(gateway.port, '/', { headers: { host: 'a' } });
  assert.equal(problem.status, 429);
  assert.equal(problem.headers['content-type'], 'application/problem+json');
  assert.equal(problem.headers['retry-after'], '10');
  assert.match(problem.headers['x-request-id'] as string, /^[0-9a-f]{32}$/);
  assert.deepEqual(JSON.parse(problem.body), {
    type: 'about:blank',
    title: 'Too Many Requests',
    status: 429,
    detail: 'Too many requests. Try again in 10 seconds.',
    code: 'rate_limited',
  });
  const page = await call(gateway.port, '/', { headers: { host: 'a', accept: 'text/html' } });
  assert.equal(page.status, 429);
  assert.match(page.body, /Try again in 10 seconds/);
  assert.match(page.headers['content-security-policy'] as string, /^default-src 'none'/);
  const git = await call(gateway.port, '/', { headers: { host: 'a', 'user-agent': 'git/2.39.5' } });
  assert.equal(git.status, 429);
  assert.match(git.headers['content-type'] as string, /^text\/plain/);
  assert.equal(git.body, 'Too many requests. Try again in 10 seconds.\n');
  assert.equal(upstream.requests.length, before);
  assert.equal((await call(gateway.port, '/', { headers: { host: 'b' } })).status, 200);
});

test('a site without a limit accepts any number of requests', async () => {
  await using gateway = await limited();
  for (let i = 0; i < 30; i++) {
    assert.equal((await call(gateway.port, '/', { headers: { host: 'free' } })).status, 200);
  }
});

test('behind a trusted proxy the client address counts, otherwise the peer', async () => {
  const from = async (port: number, client: string) =>
    (await call(port, '/', { headers: { host: 'a', 'x-forwarded-for': client } })).status;
  await using trusting = await limited(['127.0.0.1']);
  assert.equal(await from(trusting.port, '192.0.2.1'), 200);
  assert.equal(await from(trusting.port, '6.6.6.6, 192.0.2.1'), 429);
  assert.equal(await from(trusting.port, '192.0.2.2'), 200);
  assert.equal(await from(trusting.port, '2001:db8::1'), 200);
  assert.equal(await from(trusting.port, '2001:db8::ffff:2'), 429);
  await using plain = await limited();
  assert.equal(await from(plain.port, '192.0.2.1'), 200);
  assert.equal(await from(plain.port, '192.0.2.2'), 429);
});

test('an upload and an upgrade above the limit are refused before their body is read', async () => {
  await using gateway = await limited();
  assert.equal((await call(gateway.port, '/', { headers: { host: 'a' } })).status, 200);
  using upload = new RawClient(gateway.port);
  upload.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n');
  assert.match(await upload.end(), /^HTTP\/1\.1 429 Too Many Requests\r\n/);
  using upgrade = new RawClient(gateway.port);
  upgrade.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  assert.match(await upgrade.end(), /^HTTP\/1\.1 429 Too Many Requests\r\n/);
});

test('a client that keeps asking above the limit is delayed, and a proxy is not', async () => {
  const answered = async (client: RawClient, count: number) => {
    const since = performance.now();
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count));
    const seen = () => client.received.split('HTTP/1.1 ').length - 1;
    await until(() => seen() === count, `${count} answers`);
    return performance.now() - since;
  };
  await using gateway = await limited();
  using greedy = new RawClient(gateway.port);
  // One request passes, four are refused at once, and two refusals are delayed by half a second or more.
  assert.ok((await answered(greedy, 7)) > 950);
  assert.ok(greedy.received.split(' 429 ').length - 1 >= 5);
  await using trusting = await limited(['127.0.0.1']);
  using proxy = new RawClient(trusting.port);
  // If the refusals to a proxy were delayed too, these would take 45 s.
  assert.ok((await answered(proxy, 100)) < 15_000);
});
