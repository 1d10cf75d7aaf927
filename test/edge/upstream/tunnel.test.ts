// WebSockets and other upgraded connections.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import type { Admission } from '../../../runtime/edge/upstream/backend.ts';
import { Tunnel } from '../../../runtime/edge/upstream/tunnel.ts';
import {
  RawClient,
  stableCount,
  startGateway,
  startRawUpstream,
  startWorkerd,
  until,
  within,
} from '../../support/edge/peers.ts';

const APP = `
let closes = [];
export default {
  async fetch(request) {
    if (new URL(request.url).pathname === '/closes') return Response.json(closes);
    if (request.headers.get('upgrade') !== 'websocket') return new Response('plain', { status: 426 });
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener('message', ({ data }) => server.send(data));
    server.addEventListener('close', ({ code }) => closes.push(code));
    return new Response(null, { status: 101, webSocket: client, headers: { 'sec-websocket-protocol': 'chat' } });
  },
};
`;
const UPGRADE =
  'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n';
/** An unmasked close frame, as servers send them, with code 1012 and its reason. */
const RESTART = '\x88\x11\x03\xf4Service Restart';

let cell: Awaited<ReturnType<typeof startWorkerd>>;
before(async () => {
  cell = await startWorkerd(APP);
});
after(() => cell[Symbol.asyncDispose]());

/** More than the system's buffers hold. */
const BIG = 16 * 1024 * 1024;
const SMALL = 16 * 1024;
const LAST_WORDS = 'last words';

/** Resolves when the socket sends no more of what was written. */
async function stuck(socket: Socket): Promise<void> {
  assert.ok((await stableCount(() => socket.writableLength)) > 0);
}

async function open(port: number): Promise<WebSocket> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`, ['chat']);
  socket.binaryType = 'arraybuffer';
  await within(once(socket, 'open'), 'the WebSocket');
  return socket;
}

test('a WebSocket echoes text and a large message through the gateway and counts as a tunnel', async () => {
  await using front = await startGateway(cell.socketPath);
  const socket = await open(front.port);
  assert.equal(socket.protocol, 'chat');
  for (const text of ['hello', 'x'.repeat(900_000)]) {
    const echoed = once(socket, 'message');
    socket.send(text);
    const [event] = await within(echoed, 'the echo');
    assert.equal((event as MessageEvent).data, text);
  }
  assert.equal(front.upstream.tunnels, 1);
  assert.equal(front.upstream.active, 0);
  const closed = once(socket, 'close');
  socket.close(1000, 'done');
  const [event] = await within(closed, 'the close');
  assert.equal((event as CloseEvent).code, 1000);
  await until(() => front.upstream.tunnels === 0, 'the tunnel has ended');
});

test('a queued WebSocket opens after the release', async () => {
  const ready = Promise.withResolvers<void>();
  let asked = 0;
  await using front = await startGateway(cell.socketPath, {
    resolve: () => ({ kind: 'proxy', backend: { site: 'app', admit } }),
  });
  const { upstream } = front;
  function admit(): Admission {
    return asked++ === 0 ? { kind: 'hold', ready: ready.promise } : { kind: 'forward', upstream };
  }
  const opened = open(front.port);
  await until(() => asked === 1, 'it is held');
  ready.resolve();
  const socket = await opened;
  const echoed = once(socket, 'message');
  socket.send('hello');
  assert.equal(((await within(echoed, 'the echo'))[0] as MessageEvent).data, 'hello');
  socket.close();
});

test('a drain closes a WebSocket with 1012 on both sides', async () => {
  await using front = await startGateway(cell.socketPath);
  const socket = await open(front.port);
  const closed = once(socket, 'close');
  assert.deepEqual(await front.upstream.drain(5_000), { cut: 0 });
  const [event] = await within(closed, 'the close');
  assert.equal((event as CloseEvent).code, 1012);
  assert.equal((event as CloseEvent).wasClean, true);
  await using other = await startGateway(cell.socketPath);
  const closes = await (await fetch(`http://127.0.0.1:${other.port}/closes`)).json();
  assert.ok((closes as number[]).includes(1012), `the app saw ${closes}`);
});

test('an upgrade that the app declines is an ordinary answer, and the connection ends', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write('HTTP/1.1 426 Upgrade Required\r\ncontent-length: 5\r\n\r\nplain');
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  assert.match(
    await client.send(UPGRADE).end(),
    /^HTTP\/1\.1 426 [\s\S]*connection: close\r\n(?:[\s\S]*\r\n)?\r\nplain$/i,
  );
  assert.match(upstream.requests[0]!, /connection: upgrade\r\nupgrade: websocket\r\n/i);
  assert.equal(front.upstream.active, 0);
});

test('the close frame of a drain goes between two frames, never into one', async () => {
  const opened = Promise.withResolvers<Socket>();
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write(SWITCHING, 'latin1');
    opened.resolve(socket);
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send(UPGRADE);
  await client.expect('\r\n\r\n');
  const app = await opened.promise;
  app.write('\x81\x7e\x00\xc8half', 'latin1');
  await client.expect('half');
  const drained = front.upstream.drain(5_000);
  app.write(`${'-'.repeat(196)}\x81\x04late`, 'latin1');
  await client.expect(RESTART);
  app.write('\x81\x05later', 'latin1');
  client.send('\x88\x82\0\0\0\0\x03\xf4').socket.end();
  app.end();
  assert.deepEqual(await within(drained, 'the drain'), { cut: 0 });
  const frames = client.received.slice(client.received.indexOf('\r\n\r\n') + 4);
  assert.equal(frames, `\x81\x7e\x00\xc8half${'-'.repeat(196)}${RESTART}`);
});

test('a client that does not answer the close frame is disconnected after a second', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.write(SWITCHING, 'latin1'));
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send(UPGRADE);
  await until(() => front.upstream.tunnels === 1, 'the tunnel is open');
  client.expect(RESTART).then(() => [...upstream.sockets][0]!.end());
  assert.deepEqual(await within(front.upstream.drain(100_000), 'the drain'), { cut: 0 });
  assert.match(await client.end(), new RegExp(`${RESTART}$`));
});

test('an end of either direction is forwarded while the other still carries bytes', async () => {
  const opened: Socket[] = [];
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.allowHalfOpen = true;
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n');
    opened.push(socket);
  });
  await using front = await startGateway(upstream.socketPath);
  const request = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n';
  using first = new RawClient(front.port);
  await first.send(request).expect('upgrade: echo\r\n');
  opened[0]!.on('end', () => opened[0]!.end('after the end'));
  first.socket.end('last words');
  assert.match(await first.end(), /\r\n\r\nafter the end$/);

  using second = new RawClient(front.port);
  await second.send(request).expect('upgrade: echo\r\n');
  opened[1]!.end();
  await second.end();
  const got = once(opened[1]!, 'data');
  second.socket.end('still here');
  assert.equal(String((await within(got, 'the last bytes'))[0]), 'still here');
  await until(() => front.upstream.tunnels === 0, 'both tunnels have ended');
});

test('bytes sent with an upgrade request reach the app after its answer', async () => {
  const got = Promise.withResolvers<string>();
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write(SWITCHING, 'latin1');
    socket.removeAllListeners('data');
    socket.on('data', (chunk) => got.resolve(String(chunk)));
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send(`${UPGRADE}early`);
  assert.equal(await within(got.promise, 'the early bytes'), 'early');
});

test('h2c, an upgrade with a body and one in HTTP/1.0 are ordinary requests', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  });
  await using front = await startGateway(upstream.socketPath);
  for (const request of [
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n',
    'POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nab',
    'GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  ]) {
    using client = new RawClient(front.port);
    client.send(request);
    await client.expect('\r\n\r\nok');
    assert.doesNotMatch(upstream.requests.at(-1)!, /upgrade|settings/i);
  }
});

test('a WebSocket handshake with a Content-Length of 0 opens a tunnel', async () => {
  await using front = await startGateway(cell.socketPath);
  using client = new RawClient(front.port);
  client.send(UPGRADE.replace(/\r\n\r\n$/, '\r\nContent-Length: 0\r\n\r\n'));
  await client.expect('\r\n\r\n');
  assert.match(client.received, /^HTTP\/1\.1 101 /);
});

test('an upgrade after a refused request is not read, one after another request is an ordinary one', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  });
  await using front = await startGateway(upstream.socketPath);
  using refused = new RawClient(front.port);
  assert.match(await refused.send(`GET / HTTP/1.1\r\n\r\n${UPGRADE}`).end(), /^HTTP\/1\.1 400 /);
  assert.equal(upstream.requests.length, 0);
  using second = new RawClient(front.port);
  second.send(`GET / HTTP/1.1\r\nHost: a\r\n\r\n${UPGRADE}`);
  await until(() => second.received.split('\r\n\r\nok').length === 3, 'both are answered');
});

test('a tunnel with a side that reads nothing for fifteen minutes is closed; a silent one is not', async () => {
  const ends: Socket[] = [];
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.removeAllListeners('data');
    socket.pause();
    socket.write(SWITCHING);
    ends.push(socket);
  });
  await using front = await startGateway(upstream.socketPath);
  using silent = new RawClient(front.port);
  using sending = new RawClient(front.port);
  for (const client of [silent, sending]) {
    client.send(UPGRADE);
    await client.expect('101 Switching Protocols');
  }
  const later = (minutes: number) => front.gateway.sweep(performance.now() + minutes * 60_000);
  for (let i = 0; i < 400; i++) sending.send(Buffer.alloc(64 * 1024));
  await stuck(sending.socket);
  // The other direction was blocked too and moves again, which does not save the tunnel.
  sending.socket.pause();
  ends[1]!.write(Buffer.alloc(BIG, 'y'));
  await stuck(ends[1]!);
  sending.socket.resume();
  await until(() => sending.received.length > BIG, 'what the process sent');
  later(14);
  assert.equal(front.upstream.tunnels, 2);
  later(16);
  await sending.end();
  await until(() => front.upstream.tunnels === 1, 'only the silent tunnel is left');
  later(600);
  assert.equal(silent.ended, false);
  assert.equal(front.upstream.tunnels, 1);
});

test('a client that disconnects just as the process accepts an upgrade leaves nothing behind', async () => {
  let client: RawClient;
  await using process = await startRawUpstream((_head, socket) => {
    // The gateway reads the reset and the answer in one turn of its event loop, the reset first.
    client.socket.resetAndDestroy();
    socket.write(SWITCHING);
  });
  await using front = await startGateway(process.socketPath);
  client = new RawClient(front.port).send(UPGRADE);
  await until(() => process.requests.length === 1 && process.sockets.size === 0, 'the process is left alone');
  await until(() => front.upstream.active === 0 && front.upstream.tunnels === 0, 'nothing is counted');
});

test('a client that disconnects while its process reads nothing leaves nothing behind', async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  await using process = await startRawUpstream((_head, socket) => {
    socket.removeAllListeners('data');
    socket.pause();
    socket.write(SWITCHING);
    resolve(socket);
  });
  await using front = await startGateway(process.socketPath);
  using client = new RawClient(front.port);
  client.send(UPGRADE);
  const end = await promise;
  await client.expect('101 Switching Protocols');
  for (let i = 0; i < 400; i++) client.send(Buffer.alloc(64 * 1024));
  await stuck(client.socket);
  client.socket.resetAndDestroy();
  // The gateway does not read this client now: only a write shows that the client has disconnected.
  await until(() => {
    if (end.writable) end.write('\x81\x01a', 'latin1');
    return front.upstream.tunnels === 0;
  }, 'the tunnel is over');
});

test('a client gets everything that its process sent before it disconnected', async (t) => {
  const pair = async (): Promise<[near: Socket, far: Socket]> => {
    const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const far = connect((server.address() as AddressInfo).port, '127.0.0.1');
    const [near] = (await once(server, 'connection')) as [Socket];
    server.close();
    t.after(() => {
      near.destroy();
      far.destroy();
    });
    return [near, far];
  };
  const [client, reader] = await pair();
  const [upstream, process] = await pair();
  reader.pause();
  const { promise: over, resolve } = Promise.withResolvers<void>();
  new Tunnel(client, upstream, 'websocket', resolve);
  // Fills the system's buffers with less than makes the gateway pause the process.
  let sent = LAST_WORDS.length;
  for (; client.writableLength === 0; sent += SMALL) {
    client.write(Buffer.alloc(SMALL));
    await new Promise((resolve) => setImmediate(resolve));
  }
  process.write(LAST_WORDS);
  await until(() => upstream.bytesRead === LAST_WORDS.length, 'all of it was taken from the process');
  process.resetAndDestroy();
  await within(new Promise((resolve) => upstream.once('close', resolve)), 'the reset');
  assert.equal((await within(buffer(reader), 'all of it')).length, sent);
  await within(over, 'the end of the tunnel');
});
