// The sockets of the gateway, each connected to a plain socket.
// Runs as root too.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import {
  acceptSocket,
  connectSocket,
  createSocketServer,
  READ_AHEAD_BYTES,
  reset,
  type SocketUser,
  send,
  toStream,
} from '../../runtime/sockets/gateway-socket.ts';
import { stableCount, temporary, until, within } from '../support/edge/peers.ts';

/** Exceeds the kernel's socket buffers. */
const LARGE_BYTES = 16 * 1024 * 1024;

/** Records events. `told(what)` resolves after the event. */
class Told implements Required<SocketUser> {
  received = '';
  isLost = false;
  readonly #all = new Map<string, PromiseWithResolvers<void>>();

  told(what: keyof SocketUser): Promise<void> {
    return within(this.#one(what).promise, what);
  }

  onRead(bytes: Buffer): void {
    this.received += bytes.toString('latin1');
    this.#tell('onRead');
  }

  onEnd(): void {
    this.#tell('onEnd');
  }

  onDrain(): void {
    this.#tell('onDrain');
  }

  onLost(): void {
    this.isLost = true;
    this.#tell('onLost');
  }

  onFinish(): void {
    this.#tell('onFinish');
  }

  onClose(): void {
    this.#tell('onClose');
  }

  #tell(what: keyof SocketUser): void {
    this.#one(what).resolve();
  }

  #one(what: keyof SocketUser): PromiseWithResolvers<void> {
    const one = this.#all.get(what) ?? Promise.withResolvers<void>();
    this.#all.set(what, one);
    return one;
  }
}

/** Makes a client connection. @returns our end of it, and the client's */
async function accepted(t: TestContext) {
  const user = new Told();
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const server = createSocketServer((socket) => {
    acceptSocket(socket, user);
    resolve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const other = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).pause();
  const socket = await promise;
  t.after(() => {
    socket.destroy();
    other.destroy();
    server.close();
  });
  return { socket, user, other };
}

/** Makes a connection to a process. @returns our end of it, and the process's */
async function connected(t: TestContext) {
  const user = new Told();
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, resolve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connectSocket({ host: '127.0.0.1', port }, user, () => {});
  const other = await promise;
  t.after(() => {
    socket.destroy();
    other.destroy();
    server.close();
  });
  return { socket, user, other };
}

test('data over the kernel’s buffer waits, in order, and its drain is reported', async (t) => {
  const { socket, user, other } = await accepted(t);
  assert.equal(send(socket, 'a small text'), true);
  assert.equal(socket.writableLength, 0);
  assert.equal(send(socket, Buffer.alloc(LARGE_BYTES, 'x')), false);
  assert.equal(socket.writableLength, LARGE_BYTES);
  send(socket, '\xe9 behind it');
  const received = buffer(other);
  await user.told('onDrain');
  assert.equal(socket.writableLength, 0);
  socket.end();
  await user.told('onFinish');
  assert.equal(send(socket, 'after the end'), true);
  const wanted = `a small text${'x'.repeat(LARGE_BYTES)}\xe9 behind it`;
  const all = await within(received, 'all of it');
  assert.ok(all.equals(Buffer.from(wanted, 'latin1')), 'other bytes came, or in another order');
});

test('a paused client is read up to the limit only, and after that completely', async (t) => {
  const { socket, user, other } = await accepted(t);
  socket.pause();
  other.end(Buffer.alloc(LARGE_BYTES, 'x'));
  await until(() => socket.readableLength > 0, 'one read');
  await stableCount(() => socket.bytesRead);
  assert.equal(user.received, '');
  assert.ok(socket.readableLength <= READ_AHEAD_BYTES, `${socket.readableLength} bytes are buffered`);
  socket.resume();
  await user.told('onEnd');
  assert.equal(user.received.length, LARGE_BYTES);
  assert.equal(socket.destroyed, false);
});

test('a paused client that sends single bytes is soon not read any more', async (t) => {
  const { socket, other } = await accepted(t);
  other.setNoDelay();
  socket.pause();
  for (let n = 0; n < 20; n++) {
    other.write('x');
    await new Promise((resolve) => setImmediate(resolve));
  }
  await stableCount(() => socket.bytesRead);
  assert.ok(socket.readableLength < 20, `${socket.readableLength} bytes are buffered`);
});

test('a reset reaches the peer after partial data', async (t) => {
  const { socket, user, other } = await accepted(t);
  send(socket, 'a part');
  const failed = once(other, 'error');
  other.resume();
  await once(other, 'data');
  reset(socket);
  assert.equal((await within(failed, 'the reset'))[0].code, 'ECONNRESET');
  await user.told('onClose');
});

test('a socket whose end was sent is closed instead of reset', async (t) => {
  const { socket, user } = await accepted(t);
  socket.end();
  reset(socket);
  await user.told('onClose');
});

for (const [name, open] of [
  ['a client', accepted],
  ['a process', connected],
] as const)
  test(`the socket of ${name} becomes a stream, with all later data`, async (t) => {
    const { socket, user, other } = await open(t);
    const stream = toStream(socket);
    stream.write('from here');
    stream.end();
    other.end('from there');
    assert.deepEqual(await within(Promise.all([text(stream), text(other)]), 'both'), [
      'from there',
      'from here',
    ]);
    await user.told('onClose');
    assert.deepEqual([socket.destroyed, user.received], [true, '']);
  });

test('data to a process that stopped reading is lost, and its socket stays open', async (t) => {
  const { socket, user, other } = await connected(t);
  socket.pause();
  other.write('an answer');
  await until(() => other.writableLength === 0, 'all was sent');
  other.destroy();
  await once(other, 'close');
  while (socket.writable && !user.isLost) {
    send(socket, 'nobody takes this');
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(socket.destroyed, false);
});

test('a paused stream of a process keeps data from before a reset', async (t) => {
  const { socket, other } = await connected(t);
  const stream = toStream(socket);
  const received: string[] = [];
  stream.on('data', (bytes: Buffer) => received.push(bytes.toString('latin1')));
  const failed = Promise.withResolvers<Error>();
  stream.on('error', failed.resolve);
  stream.once('data', () => stream.pause());
  other.write('first');
  await within(once(stream, 'data'), 'the first bytes');
  other.write('last');
  await until(() => other.bytesWritten === 9 && other.writableLength === 0, 'all was sent');
  other.resetAndDestroy();
  await once(other, 'close');
  // Lets every pending read happen.
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
  stream.resume();
  await within(failed.promise, 'the reset');
  assert.deepEqual(received, ['first', 'last']);
});

for (const [name, listenTo] of [
  ['a unix socket', (path: string) => ({ path })],
  ['a port', () => ({ port: 0, host: '127.0.0.1' })],
] as const) {
  test(`data written before ${name} is connected is sent afterwards`, async (t) => {
    using directory = temporary();
    const socketPath = join(directory.path, 'process.sock');
    const server = createServer((socket: Socket) => socket.pipe(socket)).listen(listenTo(socketPath));
    await once(server, 'listening');
    t.after(() => server.close());
    const address = server.address();
    const to = typeof address === 'string' ? { socketPath } : { host: '127.0.0.1', port: address!.port };
    const user = new Told();
    const connected = Promise.withResolvers<void>();
    const socket = connectSocket(to, user, connected.resolve);
    send(socket, 'early');
    await connected.promise;
    socket.end();
    await user.told('onEnd');
    assert.equal(user.received, 'early');
    socket.destroy();
    await user.told('onClose');
  });
}

test('a process that cannot be reached closes the connection, and never connects', async () => {
  using directory = temporary();
  const user = new Told();
  const to = { socketPath: join(directory.path, 'nobody.sock') };
  const socket = connectSocket(to, user, () => assert.fail('connected'));
  send(socket, 'early');
  await user.told('onClose');
  assert.equal(socket.destroyed, true);
});
