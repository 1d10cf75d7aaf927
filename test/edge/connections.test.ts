// The total of bytes that all connections together may buffer.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { TrustedProxies } from '../../runtime/edge/client.ts';
import { Connection, type Entrance } from '../../runtime/edge/connection.ts';
import { Connections } from '../../runtime/edge/connections.ts';
import { Gateway } from '../../runtime/edge/gateway.ts';
import { Queue, type Queued } from '../../runtime/edge/upstream/queue.ts';
import { createSocketServer } from '../../runtime/sockets/gateway-socket.ts';
import { startGateway, startRawUpstream, until } from '../support/edge/peers.ts';

/** Accepts connections. `send` opens one with an incomplete request. `keeps` waits for a number of buffered bytes. */
async function listen(t: TestContext, keptMax: number, entrance: Entrance = 'port') {
  const connections = new Connections(keptMax);
  let kept = 0;
  let told = () => {};
  const owner = {
    begin: () => assert.fail('no request is whole'),
    isSampled: false,
    locate: () => '',
    closed: (connection: Connection) => connections.delete(connection),
    countKept: (more: number) => {
      kept += more;
      connections.countKept(more);
      told();
    },
  };
  const server = createSocketServer((accepted) =>
    connections.add(new Connection(owner, accepted, new TrustedProxies([]), entrance)),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.after(() => {
    for (const { socket } of connections) socket.destroy();
    server.close();
  });
  const keeps = async (bytes: number) => {
    while (kept !== bytes) {
      const { promise, resolve } = Promise.withResolvers<void>();
      told = resolve;
      await promise;
    }
  };
  const send = async (localAddress: string, bytes: number): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    t.after(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write(`GET / HTTP/1.1\r\nx: ${'y'.repeat(bytes - 19)}`);
    return socket;
  };
  return { connections, keeps, send };
}

test('above the buffer limit only the client with the most buffered bytes loses its connections', async (t) => {
  const { connections, keeps, send } = await listen(t, 60_000);
  const greedy = [await send('127.0.0.2', 20_000), await send('127.0.0.2', 20_000)];
  await keeps(40_000);
  await send('127.0.0.3', 10_000);
  await keeps(50_000);
  assert.equal(connections.size, 3);
  const closed = Promise.all(greedy.map((socket) => once(socket, 'close')));
  await send('127.0.0.3', 15_000);
  await closed;
  await keeps(25_000);
  assert.deepEqual(
    [...connections].map(({ peer }) => peer),
    ['127.0.0.3', '127.0.0.3'],
  );
});

test('the bytes of a response count as buffered while its client does not read them', async (t) => {
  const body = Buffer.alloc(64 * 1024);
  await using upstream = await startRawUpstream((_head, socket) => {
    const write = () => {
      while (!socket.destroyed && socket.write(body));
    };
    socket.on('drain', write).write('HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n');
    write();
  });
  let kept = 0;
  t.mock.method(Gateway.prototype, 'countKept', (more: number) => {
    kept += more;
  });
  await using gateway = await startGateway(upstream.socketPath);
  const socket = connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.pause().write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  await until(() => kept >= 64 * 1024, 'the response is blocked');
  assert.ok(kept < 256 * 1024);
  socket.resume();
  await until(() => kept === 0, 'sent bytes no longer count');
  socket.pause();
  await until(() => kept >= 64 * 1024, 'the response is blocked again');
  socket.destroy();
  await until(() => kept === 0, 'the bytes of a closed connection no longer count');
});

test('of the connections of another host, only those with the most buffered bytes are closed', async (t) => {
  const { connections, keeps, send } = await listen(t, 60_000, 'host');
  const greedy = await send('127.0.0.2', 31_000);
  await send('127.0.0.2', 10_000);
  await keeps(41_000);
  const closed = once(greedy, 'close');
  await send('127.0.0.2', 20_000);
  await closed;
  await keeps(30_000);
  assert.equal(connections.size, 2);
});

test('bytes that are read, or whose connection closes, no longer count as buffered', async (t) => {
  const { keeps, send } = await listen(t, 60_000);
  const first = await send('127.0.0.2', 30_000);
  await keeps(30_000);
  first.destroy();
  await keeps(0);
  // Too long for a request head, so the connection is refused and its bytes are dropped.
  await send('127.0.0.2', 40_000);
  await send('127.0.0.2', 20_000);
  await keeps(20_000);
});

test('a head that is too large is refused with the limit that holds for its connection', async (t) => {
  for (const [entrance, limit] of [
    ['port', 32_768],
    ['host', 49_152],
  ] as const) {
    const { send } = await listen(t, 60_000, entrance);
    const socket = await send('127.0.0.2', 50_000);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(answer.toString(), new RegExp(`431[^]*have more than ${limit} bytes`));
  }
});

class Guest implements Queued<Guest> {
  queue: object | null = null;
  before: Guest | null = null;
  after: Guest | null = null;
  readonly luggage = Array.from({ length: 100 }, () => ({}));
}

test('items that leave a long-lived queue are freed by minor garbage collections', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;
  const queue = new Queue<Guest>();
  queue.add(new Guest());
  // After two minor collections V8 counts the queue and its first item as old.
  for (let i = 0; i < 3; i++) collect({ type: 'minor' });
  const before = process.memoryUsage().heapUsed;
  const guests = 5_000;
  for (let i = 1; i <= guests; i++) {
    queue.add(new Guest());
    queue.delete(queue.first!);
    if (i % 100 === 0) collect({ type: 'minor' });
  }
  const bytes = (process.memoryUsage().heapUsed - before) / guests;
  assert.ok(bytes < 500, `${bytes} bytes of each guest are left`);
});

test('a queue keeps its order whichever item leaves, and items that left have no links', () => {
  const queue = new Queue<Guest>();
  const guests = Array.from({ length: 5 }, () => new Guest());
  for (const guest of guests) queue.add(guest);
  const [first, second, third, fourth, fifth] = guests as [Guest, Guest, Guest, Guest, Guest];
  for (const guest of [third, first, fifth]) assert.equal(queue.delete(guest), true);
  assert.equal(queue.delete(third), false);
  assert.deepEqual([...queue], [second, fourth]);
  assert.equal(queue.first, second);
  // A link from a removed item to a later one would keep the later one in memory.
  for (const { before, after } of [first, third, fifth]) assert.deepEqual([before, after], [null, null]);
  queue.add(third);
  for (const guest of queue) queue.delete(guest);
  assert.deepEqual([queue.size, queue.first], [0, null]);
});
