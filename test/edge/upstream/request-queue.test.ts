// Requests that wait for their backend, and answers of the gateway itself.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { GatewayOptions, Target } from '../../../runtime/edge/gateway.ts';
import type { Admission } from '../../../runtime/edge/upstream/backend.ts';
import { type QueuedRequest, RequestQueues } from '../../../runtime/edge/upstream/request-queue.ts';
import type { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import {
  call,
  RawClient,
  stableCount,
  startGateway,
  startRawUpstream,
  startWorkerd,
  until,
} from '../../support/edge/peers.ts';

let cell: Awaited<ReturnType<typeof startWorkerd>>;
before(async () => {
  cell = await startWorkerd(
    'export default { async fetch(request) { return new Response("got " + (await request.text())); } };',
  );
});
after(() => cell[Symbol.asyncDispose]());

/** A backend that queues requests until it is released, and counts the attempts. */
class Held {
  asked = 0;
  open = false;
  #gate = Promise.withResolvers<void>();
  #upstream: () => Upstream;

  constructor(upstream: () => Upstream, site = 'app') {
    this.#upstream = upstream;
    this.target = { kind: 'proxy', backend: { site, admit: () => this.#admit() } };
  }

  readonly target: Target;

  release(): void {
    this.open = true;
    this.wake();
  }

  /** Lets the gateway ask again for its queued requests, even while the backend is not open. */
  wake(): void {
    this.#gate.resolve();
    this.#gate = Promise.withResolvers<void>();
  }

  #admit(): Admission {
    this.asked++;
    if (this.open) return { kind: 'forward', upstream: this.#upstream() };
    return { kind: 'hold', ready: this.#gate.promise };
  }
}

async function startHeld(socketPath: string, options: Partial<GatewayOptions> = {}) {
  let upstream: Upstream | undefined;
  const held = new Held(() => upstream!);
  const front = await startGateway(socketPath, { resolve: () => held.target, ...options });
  upstream = front.upstream;
  return { held, front, [Symbol.asyncDispose]: () => front[Symbol.asyncDispose]() };
}

test('queued requests keep their bodies and are all answered after the release', async () => {
  await using parts = await startHeld(cell.socketPath);
  const { held, front } = parts;
  const big = 'x'.repeat(300_000);
  const replies = [call(front.port, '/a'), call(front.port, '/b', { method: 'POST', body: big })];
  await until(() => held.asked === 2, 'both are held');
  assert.equal(front.upstream.active, 0);
  held.wake();
  await until(() => held.asked === 4, 'both were asked for again and are held again');
  held.release();
  const [first, second] = await Promise.all(replies);
  assert.equal(first!.body, 'got ');
  assert.equal(second!.body, `got ${big}`);
});

test('a queued upload stops at a bounded size', async () => {
  await using parts = await startHeld(cell.socketPath);
  const { held, front } = parts;
  using client = new RawClient(front.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n');
  const chunk = Buffer.alloc(64 * 1024);
  let sent = 0;
  const fill = (): void => {
    while (client.socket.writable && client.socket.write(chunk)) sent += chunk.length;
  };
  client.socket.on('drain', fill);
  fill();
  await until(() => held.asked === 1, 'it is held');
  await stableCount(() => sent);
  assert.ok(sent < 16 * 1024 * 1024, `the gateway took ${sent} bytes`);
});

test('a queued client that disconnects is dropped: nothing is forwarded after the release', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  });
  await using parts = await startHeld(upstream.socketPath);
  const { held, front } = parts;
  const requests = [
    'GET /gone HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf',
    'GET /gone HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  ];
  for (const request of requests) {
    const client = new RawClient(front.port);
    const before = held.asked;
    client.send(request);
    await until(() => held.asked === before + 1, 'it is held');
    client.socket.end();
    await client.end();
    client.socket.destroy();
  }
  const kept = call(front.port, '/kept');
  await until(() => held.asked === requests.length + 1, 'the last one is held');
  held.release();
  assert.equal((await kept).status, 200);
  assert.deepEqual(
    upstream.requests.map((head) => head.split(' ')[1]),
    ['/kept'],
  );
});

test('a request that is queued too long is refused with 503 and Retry-After', async () => {
  await using parts = await startHeld(cell.socketPath, { holdTimeoutMs: 30 });
  const reply = await call(parts.front.port, '/');
  assert.equal(reply.status, 503);
  assert.equal(reply.headers['retry-after'], '5');
  assert.equal(JSON.parse(reply.body).code, 'app_unavailable');
});

test('a request to a full queue is refused at once, until a queued client disconnects', async () => {
  await using parts = await startHeld(cell.socketPath);
  const { held, front } = parts;
  const request = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  const clients = Array.from({ length: 1_000 }, () => new RawClient(front.port).send(request));
  await until(() => held.asked === 1_000, 'all are held');
  assert.equal((await call(front.port, '/')).status, 503);
  clients[0]!.socket.end();
  await clients[0]!.end();
  const next = call(front.port, '/');
  await until(() => held.asked === 1_002, 'the next one is asked for');
  held.release();
  assert.equal((await next).status, 200);
  for (const client of clients) client[Symbol.dispose]();
});

test('a thousand queued requests of one app do not keep another app from starting and serving', async () => {
  let upstream: Upstream | undefined;
  const stuck = new Held(() => upstream!, 'stuck');
  const starting = new Held(() => upstream!, 'starting');
  await using front = await startGateway(cell.socketPath, {
    resolve: ({ host }) => (host === 'stuck' ? stuck : starting).target,
  });
  upstream = front.upstream;
  const request = 'GET / HTTP/1.1\r\nHost: stuck\r\n\r\n';
  const clients = Array.from({ length: 1_000 }, () => new RawClient(front.port).send(request));
  await until(() => stuck.asked === 1_000, 'a thousand are held for the stuck app');
  const reply = call(front.port, '/', { headers: { host: 'starting' } });
  await until(() => starting.asked === 1, 'the other app is asked for');
  starting.release();
  assert.equal((await reply).body, 'got ');
  for (const client of clients) client[Symbol.dispose]();
});

test('a gateway that closes refuses queued requests in time and asks their clients to retry', async () => {
  await using parts = await startHeld(cell.socketPath);
  const { held, front } = parts;
  using idle = new RawClient(front.port);
  idle.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const reply = call(front.port, '/', { method: 'POST', body: 'text' });
  await until(() => held.asked === 2, 'both are held');
  const { cut } = await front.gateway.close(2_000);
  assert.equal(cut, 0);
  const { status, headers } = await reply;
  assert.deepEqual([status, headers['retry-after']], [503, '5']);
  assert.match(await idle.end(), /^HTTP\/1\.1 503 [\s\S]*\r\nconnection: close\r\n/);
});

/** A request for a site that buffers `keptBytes` bytes. */
function heldRequest(site: string, keptBytes = 0): QueuedRequest & { keptBytes: number } {
  return { backend: { site }, heldSince: null, heldMs: 0, keptBytes, onKept: null, onGone: null };
}

test('when all places are taken, the app with most queued requests loses one to another app, and only then', async () => {
  const requestQueues = new RequestQueues(10_000, { requests: 3, bytes: 100 }, { requests: 4, bytes: 100 });
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  const most = [1, 2, 3].map(() => requestQueues.wait(heldRequest('most'), ready));
  assert.equal(await requestQueues.wait(heldRequest('most'), ready), 'full');
  const other = [
    requestQueues.wait(heldRequest('other'), ready),
    requestQueues.wait(heldRequest('other'), ready),
  ];
  assert.equal(await most[0], 'full');
  assert.equal(await requestQueues.wait(heldRequest('other'), ready), 'full');
  const third = requestQueues.wait(heldRequest('third'), ready);
  resolve();
  const ended = await Promise.all([...most, ...other, third]);
  assert.deepEqual(ended.toSorted(), ['full', 'full', 'ready', 'ready', 'ready', 'ready']);
  assert.equal(ended[5], 'ready');
});

test('queued bytes are limited for each app and in total, also while they arrive', async () => {
  const requestQueues = new RequestQueues(10_000, { requests: 10, bytes: 100 }, { requests: 10, bytes: 150 });
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  const growing = heldRequest('large', 40);
  const ended = [requestQueues.wait(growing, ready), requestQueues.wait(heldRequest('large', 40), ready)];
  growing.keptBytes = 61;
  growing.onKept!();
  assert.equal(await ended[0], 'full');
  ended.push(
    requestQueues.wait(heldRequest('large', 60), ready),
    requestQueues.wait(heldRequest('small', 40), ready),
  );
  const last = requestQueues.wait(heldRequest('other', 20), ready);
  assert.equal(await ended[2], 'full');
  resolve();
  assert.deepEqual(await Promise.all([...ended, last]), ['full', 'ready', 'full', 'ready', 'ready']);
});

test('a refusing backend is answered for: a problem for programs, a page for people, Retry-After for both', async () => {
  const admit = (): Admission => ({
    kind: 'refuse',
    status: 503,
    code: 'app_stopped',
    detail: 'The app <b> is stopped.',
    retryAfterS: 7,
  });
  await using front = await startGateway(cell.socketPath, {
    resolve: () => ({ kind: 'proxy', backend: { site: 'app', admit } }),
  });
  const problem = await call(front.port, '/', { headers: { accept: 'application/json, text/html;q=0.5' } });
  assert.equal(problem.headers['retry-after'], '7');
  assert.deepEqual(JSON.parse(problem.body), {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: 'The app <b> is stopped.',
    code: 'app_stopped',
  });
  const page = await call(front.port, '/', {
    headers: { accept: 'text/html,application/xml;q=0.9,*/*;q=0.8' },
  });
  assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  assert.equal(page.headers['retry-after'], '7');
  assert.match(page.body, /The app &#60;b&#62; is stopped\./);
  assert.ok(page.body.includes(page.headers['x-request-id'] as string), 'the page names the request');
  const head = await call(front.port, '/', { method: 'HEAD' });
  assert.equal(head.status, 503);
  assert.equal(head.body, '');
});

test('the host and the path decide where a request goes, and a local answer may be slow', async () => {
  const heads: string[] = [];
  await using front = await startGateway(cell.socketPath, {
    resolve: (head) => {
      heads.push(`${head.method} ${head.host} ${head.path} ${head.target}`);
      if (head.host === 'broken.example') throw new Error('no route');
      return {
        kind: 'respond',
        respond: async () =>
          head.host === 'ok.example'
            ? { status: 200, headers: { 'content-type': 'text/plain' }, body: 'här' }
            : { refusal: { status: 404, code: 'unknown_host', detail: 'No app answers here.' } },
      };
    },
  });
  const ok = await call(front.port, '/p?q', { headers: { host: 'OK.example.:80' } });
  assert.equal(ok.body, 'här');
  assert.equal(ok.headers['content-length'], '4');
  assert.match(ok.headers['x-request-id'] as string, /^[0-9a-f]{32}$/);
  assert.deepEqual(heads, ['GET ok.example /p /p?q']);
  const unknown = await call(front.port, '/', { headers: { host: 'x.example' } });
  assert.equal(unknown.status, 404);
  assert.equal(JSON.parse(unknown.body).code, 'unknown_host');
  const broken = await call(front.port, '/', { headers: { host: 'broken.example' } });
  assert.equal(broken.status, 500);
  assert.equal(JSON.parse(broken.body).code, 'internal_error');
});
