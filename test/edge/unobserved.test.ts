// Clients that do not read, do not finish, or disconnect unnoticed: they cost other clients nothing.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  RawClient,
  stableCount,
  startGateway,
  startRawUpstream,
  temporary,
  until,
  within,
} from '../support/edge/peers.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** One body is below the high-water mark of a socket, two are above it. */
const BODY = 'x'.repeat(60_000);
const ANSWER = `HTTP/1.1 200 OK\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`;

test('the rest of an upload may arrive after its complete answer, before the client has read that', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(ANSWER));
  await using front = await startGateway(upstream.socketPath);
  /** Sends `before` requests, and an upload that lacks its last byte, and reads nothing. */
  const send = async (before: number): Promise<RawClient> => {
    const client = new RawClient(front.port);
    client.socket.pause();
    client.send(`${GET.repeat(before)}POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx`);
    return client;
  };
  /** The number of requests that reach the process while nobody reads the answers. */
  const standstill = () => stableCount(() => upstream.requests.length);
  using probe = await send(1_000);
  const taken = await standstill();
  probe.socket.destroy();
  assert.ok(taken < 1_000, 'the buffers of the system are full');
  // The upload has to be the request whose answer fills the buffers.
  const clients = await Promise.all(Array.from({ length: 16 }, (_, i) => send(taken - 9 + i)));
  await standstill();
  for (const client of clients) client.send('y');
  // The gateway is in this process: an exception in it fails the test.
  using next = new RawClient(front.port);
  next.send(GET);
  await next.expect(BODY);
  for (const client of clients) client.socket.destroy();
});

test('an aborted HTTP/1.0 answer on the unix socket closes only its connection', async () => {
  using directory = temporary();
  const path = join(directory.path, 'gateway.sock');
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart');
  });
  await using front = await startGateway(upstream.socketPath);
  await front.gateway.listenUnix(path);
  const client = connect(path);
  const closed = new Promise<void>((resolve) => client.on('close', () => resolve()));
  client.on('error', () => {});
  client.resume();
  client.write('GET / HTTP/1.0\r\nHost: a\r\n\r\n');
  await within(closed, 'the end of the connection');
});

test('a client that disconnected while its connection was not read is dropped in time', async () => {
  await using upstream = await startRawUpstream(() => {});
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  let flushed = 0;
  // More bytes than the gateway buffers: it stops reading and cannot see that the client disconnects.
  client.socket.write(GET + 'x'.repeat(400_000), () => flushed++);
  await until(() => upstream.requests.length === 1 && flushed === 1, 'the request arrived');
  client.socket.resetAndDestroy();
  await until(() => {
    front.gateway.sweep(performance.now() + 3_600_000);
    return front.upstream.active === 0;
  }, 'the request was given up');
});

test('an upgrade that is accepted while the gateway closes gets a close frame', async () => {
  let grant = (): void => {};
  await using upstream = await startRawUpstream((_head, socket) => {
    grant = () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n');
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
  await until(() => upstream.requests.length === 1, 'the request arrived');
  const closed = front.gateway.close(3_000);
  grant();
  await closed;
  assert.match(client.received, /Service Restart/);
});

test('a client that never reads the end of its last answer is dropped and leaves no listeners', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(ANSWER));
  await using front = await startGateway(upstream.socketPath);
  const clients = Array.from({ length: 40 }, (_, i) => {
    const client = new RawClient(front.port);
    client.socket.pause();
    return client.send(GET.repeat(50 + i));
  });
  await stableCount(() => upstream.requests.length);
  const warnings: string[] = [];
  const warned = ({ name }: Error): number => warnings.push(name);
  process.on('warning', warned);
  for (let i = 0; i < 20; i++) {
    front.gateway.sweep(performance.now() + 3_600_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  process.off('warning', warned);
  for (const client of clients) client.socket.destroy();
  assert.deepEqual(warnings, []);
});
