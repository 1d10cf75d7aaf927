// A connection without a stream on top, against a socket of Node's at its other end.
// Runs as root too.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { BareSocket, type SocketUser } from '../../runtime/sockets/bare-socket.ts';
import { createHandleServer } from '../../runtime/sockets/socket-handle.ts';
import { temporary, until, within } from '../support/edge/peers.ts';

/** More than the system takes at once of what nobody reads. */
const LARGE_BYTES = 16 * 1024 * 1024;

/** Keeps what it is told. `told(what)` resolves when it has been. */
class Told implements SocketUser {
  received = '';
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

/** A connection with a port: our end of it, and the other one. */
async function accepted(t: TestContext) {
  const user = new Told();
  const { promise, resolve } = Promise.withResolvers<BareSocket>();
  const server = createHandleServer((handle) => resolve(BareSocket.accept(handle, user)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const other = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  });
  other.pause();
  const socket = await promise;
  t.after(() => {
    socket.destroy();
    other.destroy();
    server.close();
  });
  return { socket, user, other };
}

test('what the system does not take at once waits, in order, and its end is told', async (t) => {
  const { socket, user, other } = await accepted(t);
  assert.equal(socket.write('a small text'), true);
  assert.equal(socket.waiting, 0);
  assert.equal(socket.write(Buffer.alloc(LARGE_BYTES, 'x')), false);
  assert.equal(socket.waiting, LARGE_BYTES);
  socket.write('\xe9 behind it');
  socket.end();
  const received = await within(buffer(other), 'all of it');
  await user.told('onDrain');
  await user.told('onFinish');
  assert.equal(socket.waiting, 0);
  const wanted = `a small text${'x'.repeat(LARGE_BYTES)}\xe9 behind it`;
  assert.ok(received.equals(Buffer.from(wanted, 'latin1')), 'other bytes came, or in another order');
});

test('a socket that is paused reads nothing until it is resumed, and then the end too', async (t) => {
  const { socket, user, other } = await accepted(t);
  socket.pause();
  other.end('a request');
  await once(other, 'finish');
  assert.equal(user.received, '');
  socket.resume();
  await user.told('onEnd');
  assert.equal(user.received, 'a request');
  assert.equal(socket.destroyed, false);
});

test('what can no longer leave is told of as lost, and the socket can still be closed', async (t) => {
  const { socket, user, other } = await accepted(t);
  other.resetAndDestroy();
  await once(other, 'close');
  socket.write('nobody takes this');
  socket.write('or this');
  await Promise.race([user.told('onLost'), user.told('onClose')]);
  socket.destroy();
  await user.told('onClose');
  assert.equal(socket.destroyed, true);
  assert.equal(socket.write('after the end'), true);
});

test('it is closed once all has left, when it is asked to be', async (t) => {
  const { socket, user, other } = await accepted(t);
  socket.write(Buffer.alloc(LARGE_BYTES));
  socket.destroySoon();
  assert.equal(socket.destroyed, false);
  assert.equal((await within(buffer(other), 'all of it')).length, LARGE_BYTES);
  await user.told('onClose');
});

test('a reset breaks off what the other side has', async (t) => {
  const { socket, user, other } = await accepted(t);
  socket.write('a part');
  const failed = once(other, 'error');
  other.resume();
  await once(other, 'data');
  socket.resetAndDestroy();
  assert.equal((await within(failed, 'the reset'))[0].code, 'ECONNRESET');
  await user.told('onClose');
});

test('it becomes a stream of Node’s, with what comes from then on', async (t) => {
  const { socket, user, other } = await accepted(t);
  const stream = socket.toStream();
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

test('a stream that is paused keeps what came before a reset', async (t) => {
  const { socket, other } = await accepted(t);
  const stream = socket.toStream();
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
  // Whatever would be read by then has been.
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
  stream.resume();
  await within(failed.promise, 'the reset');
  assert.deepEqual(received, ['first', 'last']);
});

for (const [name, listenTo] of [
  ['a unix socket', (path: string) => ({ path })],
  ['a port', () => ({ port: 0, host: '127.0.0.1' })],
] as const) {
  test(`what is written before ${name} is connected leaves afterwards`, async (t) => {
    using directory = temporary();
    const socketPath = join(directory.path, 'process.sock');
    const server = createServer((socket: Socket) => socket.pipe(socket)).listen(listenTo(socketPath));
    await once(server, 'listening');
    t.after(() => server.close());
    const address = server.address();
    const to = typeof address === 'string' ? { socketPath } : { host: '127.0.0.1', port: address!.port };
    const user = new Told();
    const connected = Promise.withResolvers<void>();
    const socket = BareSocket.connect(to, user, connected.resolve);
    socket.write('early');
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
  const socket = BareSocket.connect(to, user, () => assert.fail('connected'));
  socket.write('early');
  await user.told('onClose');
  assert.equal(socket.destroyed, true);
});
