// Slow clients: each phase of a connection has a timeout, and a process has none.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { CONNECTIONS_MAX } from '../../runtime/edge/connections.ts';
import type { Admission } from '../../runtime/edge/upstream/backend.ts';
import {
  call,
  RawClient,
  stableCount,
  startGateway,
  startGatewayProcess,
  startRawUpstream,
  until,
  within,
} from '../support/edge/peers.ts';

const HEAD = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
const HOUR = 3_600;
/** A busy machine may take longer to open very many connections than the gateway lets them be idle. */
const PATIENT = { timeouts: false };
const CHUNK = Buffer.alloc(64 * 1024, 'x');

type Parts = Awaited<ReturnType<typeof started>>;

/** Starts a gateway whose clock can be advanced, before a process whose answers the test writes. */
async function started(resolve?: () => Admission) {
  const waiting: Socket[] = [];
  const upstream = await startRawUpstream((_head, socket) => waiting.push(socket));
  const front = await startGateway(
    upstream.socketPath,
    resolve && { resolve: () => ({ kind: 'proxy', backend: { site: 'app', admit: resolve } }) },
  );
  return {
    waiting,
    upstream,
    front,
    /** Runs the gateway's timeout check as if `seconds` had passed. */
    after: (seconds: number) => front.gateway.sweep(performance.now() + seconds * 1000),
    [Symbol.asyncDispose]: async () => {
      await front[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

/** Resolves when the gateway has read everything sent so far: by then it has answered a later request. */
async function taken({ front, waiting }: Parts): Promise<void> {
  const before = waiting.length;
  const reply = call(front.port, '/other');
  await until(() => waiting.length === before + 1, 'another request arrived');
  waiting.at(-1)!.write(OK);
  await reply;
}

test('an incomplete head gets 408 after 15 seconds, however many bytes arrived', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  client.send('GET / HTTP/1.1\r\nHo');
  await taken(parts);
  parts.after(10);
  client.send('st: a\r\nX: ');
  await taken(parts);
  parts.after(12);
  assert.equal(client.ended, false);
  parts.after(16);
  assert.match(await client.end(), /^HTTP\/1\.1 408 [\s\S]*"code":"request_timeout"/);
});

test('empty lines do not begin a request', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  await taken(parts);
  const before = performance.now();
  await until(() => performance.now() > before + 20, 'a moment has gone');
  client.send('\r\n');
  await taken(parts);
  parts.front.gateway.sweep(before + 15_010);
  await client.end();
});

test('a connection without a request is closed after 15 seconds, an idle one after two minutes', async () => {
  await using parts = await started();
  using fresh = new RawClient(parts.front.port);
  using used = new RawClient(parts.front.port);
  used.send(HEAD);
  await until(() => parts.waiting.length === 1, 'the request arrived');
  parts.waiting[0]!.write(OK);
  await used.expect('\r\n\r\nok');
  await taken(parts);
  parts.after(16);
  assert.equal(await fresh.end(), '');
  parts.after(121);
  assert.equal(used.ended, false);
  parts.after(130);
  await used.end();
});

test('an answer may take hours to begin and to finish', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  client.send(HEAD);
  await until(() => parts.waiting.length === 1, 'the request arrived');
  parts.after(HOUR);
  parts.waiting[0]!.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n');
  await client.expect('one');
  parts.after(2 * HOUR);
  parts.waiting[0]!.write('3\r\ntwo\r\n0\r\n\r\n');
  await client.expect('two');
});

test('a client whose upload stalls for two minutes is disconnected, and its request is cancelled', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf');
  await until(() => parts.waiting.length === 1, 'the request arrived');
  parts.after(110);
  client.send('more');
  await taken(parts);
  parts.after(110);
  assert.equal(client.ended, false);
  parts.after(121);
  await client.end();
  await until(() => parts.front.upstream.active === 0, 'the request is cancelled');
});

test('an upload that waits for the process or in the queue does not time out', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${CHUNK.length * 200}\r\n\r\n`);
  await until(() => parts.waiting.length === 1, 'the request arrived');
  parts.waiting[0]!.pause();
  for (let i = 0; i < 200; i++) client.send(CHUNK);
  await taken(parts);
  assert.ok((await stableCount(() => client.socket.writableLength)) > 0);
  parts.after(HOUR / 5);
  await taken(parts);
  assert.equal(client.ended, false);
  // The gateway does not read this connection, so it cannot see whether its client has disconnected.
  parts.after(HOUR / 3);
  await until(() => parts.front.upstream.active === 0, 'the request is given up');

  const gate = Promise.withResolvers<void>();
  await using holding = await started(() => ({ kind: 'hold', ready: gate.promise }));
  using held = new RawClient(holding.front.port);
  held.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf');
  await taken(parts);
  holding.after(HOUR);
  await taken(parts);
  assert.equal(held.ended, false);
});

test('a client that reads nothing of its answer for two minutes is disconnected', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  client.socket.pause();
  client.send(HEAD);
  await until(() => parts.waiting.length === 1, 'the request arrived');
  const [process] = parts.waiting;
  process!.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
  while (process!.write(`10000\r\n${CHUNK}\r\n`)) await new Promise((resolve) => setImmediate(resolve));
  await taken(parts);
  parts.after(110);
  assert.equal(parts.front.upstream.active, 1);
  parts.after(121);
  await until(() => parts.front.upstream.active === 0, 'the request is cancelled');
});

test('a client that keeps sending after its last answer is disconnected after two seconds', async () => {
  await using parts = await started();
  using client = new RawClient(parts.front.port);
  client.send('nonsense\r\n\r\n');
  await client.end();
  client.send('more nonsense');
  await taken(parts);
  assert.equal(client.socket.destroyed, false);
  parts.after(3);
  // The client notices that the gateway has closed the connection only at its second write.
  while (!client.socket.destroyed) {
    client.send('and more');
    await taken(parts);
  }
});

/** Opens `count` connections, accepted in this order and answered, so that none is closed too soon. */
async function openMany(port: number, count: number, localAddress?: string): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    // Opens only as many connections at once as the system's accept queue takes.
    const some = Array.from({ length: Math.min(400, count - sockets.length) }, () => {
      const socket = connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
      socket.write(HEAD);
      return socket;
    });
    await Promise.all(some.map((socket) => once(socket, 'data')));
    sockets.push(...some);
  }
  return sockets;
}

test('above the connection limit a client gets an error; another one is served at the cost of the client with most', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(OK));
  await using gateway = await startGatewayProcess(upstream.socketPath, PATIENT);
  const sockets = await openMany(gateway.port, CONNECTIONS_MAX);
  using refused = new RawClient(gateway.port);
  refused.send(HEAD);
  assert.match(
    await refused.end(),
    /^HTTP\/1\.1 503 [\s\S]*retry-after: 5\r\n[\s\S]*"code":"app_unavailable"/,
  );
  const others = [];
  for (const [i, localAddress] of ['127.0.0.2', '127.0.0.3', '127.0.0.2'].entries()) {
    const lost = once(sockets[i]!, 'close');
    const other = connect({ port: gateway.port, host: '127.0.0.1', localAddress });
    others.push(other);
    other.write(HEAD);
    const [answer] = (await within(once(other, 'data'), 'the answer')) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    await within(lost, 'the loss of an idle connection');
  }
  sockets.at(-1)!.write(HEAD);
  await once(sockets.at(-1)!, 'data');
  for (const other of others) other.destroy();
  for (const socket of sockets) socket.destroy();
  const served = async () => (await call(gateway.port, '/')).status === 200;
  while (!(await served()));
});

test('new clients cost the clients with most connections in turn, also those that opened none recently', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(OK));
  await using gateway = await startGatewayProcess(upstream.socketPath, PATIENT);
  const half = CONNECTIONS_MAX / 2;
  const first = await openMany(gateway.port, half - 2, '127.0.0.2');
  const last = await openMany(gateway.port, half + 2);
  const lost = (sockets: Socket[]) => sockets.filter(({ destroyed }) => destroyed).length;
  const newcomers: Socket[] = [];
  for (let i = 0; i < 10; i++) {
    newcomers.push(...(await openMany(gateway.port, 1, `127.0.1.${i + 1}`)));
    await until(() => lost(first) + lost(last) > i, 'the loss of an idle connection');
  }
  assert.deepEqual([lost(first), lost(last)], [3, 7]);
  for (const socket of [...first, ...last, ...newcomers]) socket.destroy();
});

test('a new client does not cost an answer that its client has yet to read', async () => {
  // Below a socket's high-water mark: the gateway finishes a request once its whole answer is in the socket's buffer.
  const body = 'x'.repeat(60_000);
  await using upstream = await startRawUpstream((head, socket) =>
    socket.write(
      head.startsWith('GET /large ')
        ? `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`
        : OK,
    ),
  );
  await using gateway = await startGatewayProcess(upstream.socketPath, PATIENT);
  /** Sends the request `times` times and reads nothing. Resolves when no more requests reach the process. */
  const ask = async (times: number) => {
    const client = new RawClient(gateway.port);
    client.socket.pause();
    client.send(HEAD.replace('/', '/large').repeat(times));
    await stableCount(() => upstream.requests.length);
    return client;
  };
  using probe = await ask(1_000);
  const taken = upstream.requests.length;
  probe.socket.destroy();
  const clients = [];
  for (const times of [taken - 2, taken - 1, taken]) clients.push({ times, client: await ask(times) });
  const idle = await openMany(gateway.port, CONNECTIONS_MAX - clients.length);
  const newcomers: Socket[] = [];
  for (let i = 0; i < clients.length; i++) {
    newcomers.push(...(await openMany(gateway.port, 1, `127.0.1.${i + 1}`)));
  }
  for (const { times, client } of clients) {
    client.socket.resume();
    const whole = () => client.received.split(body).length - 1;
    await until(() => client.ended || whole() === times, 'all answers');
    assert.equal(whole(), times);
    client.socket.destroy();
  }
  for (const socket of [...idle, ...newcomers]) socket.destroy();
});
