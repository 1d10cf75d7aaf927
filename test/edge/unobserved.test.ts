// Clients that do not read, do not finish, or have left where the gateway does not look: they cost nobody else anything.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  RawClient,
  startGateway,
  startRawUpstream,
  still,
  temporary,
  until,
  within,
} from '../support/edge/peers.ts';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** Less than what a socket of Node takes without asking to wait, and two are more. */
const BODY = 'x'.repeat(60_000);
const ANSWER = `HTTP/1.1 200 OK\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`;

test('the rest of an upload may come when its answer is whole, but not yet taken', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(ANSWER));
  await using front = await startGateway(upstream.socketPath);
  /** A client that reads nothing sends so many requests, and an upload that lacks its last byte. */
  const send = async (before: number): Promise<RawClient> => {
    const client = new RawClient(front.port);
    client.socket.pause();
    client.send(`${GET.repeat(before)}POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx`);
    return client;
  };
  /** How many requests get through to the process while nobody reads the answers. */
  const standstill = () => still(() => upstream.requests.length);
  using probe = await send(1_000);
  const taken = await standstill();
  probe.socket.destroy();
  assert.ok(taken < 1_000, 'the buffers of the system are full');
  // The upload has to be the request whose answer fills them.
  const clients = await Promise.all(Array.from({ length: 16 }, (_, i) => send(taken - 9 + i)));
  await standstill();
  for (const client of clients) client.send('y');
  // The gateway is in this process: an exception in it fails the test.
  using next = new RawClient(front.port);
  next.send(GET);
  await next.expect(BODY);
  for (const client of clients) client.socket.destroy();
});

test('an HTTP/1.0 answer on the unix socket that breaks off costs only its connection', async () => {
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

test('a client that left while nothing of it was read is given up in time', async () => {
  await using upstream = await startRawUpstream(() => {});
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  let flushed = 0;
  // More behind the request than the gateway keeps: it stops to read, and the end cannot be seen.
  client.socket.write(GET + 'x'.repeat(400_000), () => flushed++);
  await until(() => upstream.requests.length === 1 && flushed === 1, 'the request arrived');
  client.socket.resetAndDestroy();
  await until(() => {
    front.gateway.sweep(performance.now() + 3_600_000);
    return front.upstream.active === 0;
  }, 'the request was given up');
});

test('an upgrade that is granted while the gateway closes is closed politely', async () => {
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

test('a client that never takes the end of its last answer is dropped, and leaves no listeners', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(ANSWER));
  await using front = await startGateway(upstream.socketPath);
  const clients = Array.from({ length: 40 }, (_, i) => {
    const client = new RawClient(front.port);
    client.socket.pause();
    return client.send(GET.repeat(50 + i));
  });
  await still(() => upstream.requests.length);
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
