// The relay of TCP connections: limits of visitors, and apps that break its rules. A server here stands for the host.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Relay } from '../../runtime/tcp/relay.ts';
import { eventually } from '../support/processes.ts';

const directory = mkdtempSync(join(tmpdir(), 'cellar-tcp-'));
const path = join(directory, 'host.sock');
/** Handles each connection at the host's end. Each test sets it. */
let answer: (socket: Socket) => void = () => {};
const answered: Socket[] = [];
const host = createHttpServer();
host.on('upgrade', (request, socket: Socket) => {
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const accept = createHash('sha1').update(key).digest('base64');
  socket.on('error', () => {}).resume();
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
  );
  answered.push(socket);
  answer(socket);
});
const relay = new Relay(path);
/** One server for each public port that `Relay.take` gets. */
const servers = [20_000, 20_001, 20_002].map((port) =>
  createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => relay.take(client, port)),
);

before(async () => {
  host.listen(path);
  for (const server of servers) server.listen(0, '127.0.0.1');
  await Promise.all([host, ...servers].map((server) => once(server, 'listening')));
});
after(() => {
  for (const socket of answered) socket.destroy();
  for (const server of servers) server.close();
  host.close();
  rmSync(directory, { recursive: true });
});

/** Connects as a visitor. @param localAddress the visitor's address @param server the server of a public port */
function open(localAddress = '127.0.0.1', server = servers[0]!): Socket {
  const { port } = server.address() as AddressInfo;
  return connect({ port, host: '127.0.0.1', localAddress });
}

/** Resolves with the code of the error, or `closed`, when the connection has ended. */
function endOf(socket: Socket): Promise<string> {
  let code = 'closed';
  socket.resume().on('error', (error: NodeJS.ErrnoException) => {
    code = String(error.code);
  });
  return new Promise((resolve) => socket.on('close', () => resolve(code)));
}

/** Returns a frame of a WebSocket server. @param opcode 1: text, 2: bytes, 8: close */
function frame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  if (length < 126) return Buffer.concat([Buffer.from([0x80 | opcode, length]), payload]);
  const head = Buffer.alloc(10, 0);
  head[0] = 0x80 | opcode;
  head[1] = 127;
  head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, payload]);
}

const text = (told: string) => frame(1, Buffer.from(told));
const code = (number: number) => frame(8, Buffer.from([number >> 8, number & 255]));

test('an end as it should be is an end, and any other one a reset', async () => {
  for (const [frames, expected] of [
    [[frame(2, Buffer.from('bye')), code(1000)], 'closed'],
    [[code(1012)], 'closed'],
    [[code(1011)], 'ECONNRESET'],
    [[], 'ECONNRESET'],
  ] as const) {
    answer = (socket) => {
      for (const each of frames) socket.write(each);
      socket.end();
    };
    assert.equal(await endOf(open()), expected, String(frames));
  }
});

test('a process that breaks the rules loses the connection', async () => {
  const chunk = frame(2, Buffer.alloc(64 * 1024));
  for (const frames of [
    // More bytes than the window, while the client reads none.
    Array.from({ length: 500 }, () => chunk),
    [frame(2, Buffer.alloc(200 * 1024))],
    [text('{"end":true}'), frame(2, Buffer.from('more'))],
    [text('{')],
    [text('null')],
    [text('{"ack":-1}')],
    [text('{"ack":1e15}')],
    [text(`{"ack":1${' '.repeat(100)}}`)],
  ]) {
    answer = (socket) => {
      for (const each of frames) socket.write(each);
    };
    const socket = open();
    socket.pause();
    const error = new Promise<string>((resolve) =>
      socket.on('error', (reason: NodeJS.ErrnoException) => resolve(String(reason.code))),
    );
    await once(socket, 'connect');
    // The client does not read, so only a write shows that the relay has closed the connection.
    const write = setInterval(() => socket.write('x'), 20);
    assert.match(await error, /ECONNRESET|EPIPE/);
    clearInterval(write);
  }
});

test('a client that sends without end is held back', async () => {
  let received = 0;
  const full = Promise.withResolvers<void>();
  answer = (socket) =>
    socket.on('data', ({ length }: Buffer) => {
      received += length;
      if (received >= 128 * 1024) full.resolve();
    });
  const socket = open();
  await once(socket, 'connect');
  for (let i = 0; i < 300; i++) socket.write(Buffer.alloc(100_000));
  await full.promise;
  // Another connection is served meanwhile.
  answer = (other) => other.end(code(1000));
  assert.equal(await endOf(open()), 'closed');
  assert.ok(received < 300_000, `${received}`);
  socket.destroy();
});

/** Opens connections, and waits until each is taken or reset. @returns them, and the numbers of both kinds */
async function openMany(count: number, visitor: string, server = servers[0]!) {
  const taken = answered.length;
  const sockets = Array.from({ length: count }, () => open(visitor, server));
  let resets = 0;
  for (const socket of sockets)
    void endOf(socket).then((how) => {
      if (how === 'ECONNRESET') resets++;
    });
  const served = () => answered.length - taken;
  await eventually(() => served() + resets >= count, 'each is taken or reset');
  return { sockets, counts: [served(), resets] };
}

/** Ends all connections. */
async function endAll(): Promise<void> {
  for (const socket of answered) socket.destroy();
  for (const server of servers) {
    const open = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await eventually(async () => (await open()) === 0, 'the connections end');
  }
}

test('one visitor has a share of the new and of the open connections', async () => {
  answer = () => {};
  await endAll();
  const [first, second, third] = servers;
  assert.deepEqual((await openMany(60, '127.0.0.2', first)).counts, [50, 10]);
  assert.deepEqual((await openMany(50, '127.0.0.2', second)).counts, [50, 0]);
  assert.deepEqual((await openMany(1, '127.0.0.2', third)).counts, [0, 1]);
  assert.deepEqual((await openMany(1, '127.0.0.3', third)).counts, [1, 0]);
});

test('visitors who take all places of a port lose some to others', async () => {
  answer = () => {};
  await endAll();
  const isOpen = ({ destroyed }: Socket) => !destroyed;
  const modest = (await openMany(40, '127.0.0.10')).sockets;
  const greedy: Socket[] = [];
  for (let visitor = 11; visitor < 16; visitor++)
    greedy.push(...(await openMany(visitor === 15 ? 10 : 50, `127.0.0.${visitor}`)).sockets);
  const newcomer = await openMany(1, '127.0.0.16');
  assert.deepEqual(newcomer.counts, [1, 0]);
  await eventually(() => greedy.filter(isOpen).length === 209, 'one of the greedy is reset');
  assert.ok([...newcomer.sockets, ...modest].every(isOpen));
  await endAll();
});
