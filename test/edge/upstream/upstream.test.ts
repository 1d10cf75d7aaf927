// The pool of connections to a process: kept, reused and closed.
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import type { AnswerReader } from '../../../runtime/edge/upstream/upstream-connection.ts';
import { call, startGateway, startRawUpstream, until } from '../../support/edge/peers.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

/** Starts a process that answers every request, and collects the connection of each request. */
async function started() {
  const used: Socket[] = [];
  const upstream = await startRawUpstream((_head, socket) => {
    used.push(socket);
    socket.write(OK);
  });
  const front = await startGateway(upstream.socketPath);
  return {
    used,
    sockets: upstream.sockets,
    front,
    [Symbol.asyncDispose]: async () => {
      await front[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

test('a connection carries one request after another and is closed after an idle time', async () => {
  await using parts = await started();
  for (let i = 0; i < 5; i++) assert.equal((await call(parts.front.port, '/')).body, 'ok');
  assert.equal(new Set(parts.used).size, 1);
  await until(() => parts.sockets.size === 0, 'the idle connection was closed');
  assert.equal((await call(parts.front.port, '/')).body, 'ok');
});

test('a connection with an unrequested answer is closed', async () => {
  await using parts = await started();
  assert.equal((await call(parts.front.port, '/')).body, 'ok');
  parts.used[0]!.write(OK);
  await until(() => parts.sockets.size === 0, 'the connection was closed');
  assert.equal((await call(parts.front.port, '/')).body, 'ok');
  assert.equal(new Set(parts.used).size, 2);
});

test('no request goes to a closed process, though another may listen at its socket path', async () => {
  await using parts = await started();
  assert.equal((await call(parts.front.port, '/')).status, 200);
  parts.front.upstream.destroy();
  const { status, body } = await call(parts.front.port, '/');
  assert.deepEqual([status, JSON.parse(body).code], [503, 'app_unavailable']);
  assert.equal(parts.used.length, 1);
});

/** Asks `upstream` for `count` connections at once. Records which of them are given and which fail, in order. */
function askFor(upstream: Upstream, count: number) {
  const given: number[] = [];
  const failed: number[] = [];
  let answered = 0;
  const readers = Array.from(
    { length: count },
    (_, i): AnswerReader => ({
      method: 'GET',
      upgrades: false,
      onConnection: (connection) => {
        given.push(i);
        connection.socket.write(`GET /${i} HTTP/1.1\r\nhost: a\r\n\r\n`);
        connection.sent();
      },
      onInformation: () => {},
      onSwitch: () => {},
      onRoom: () => {},
      onHead: () => {},
      onBody: (_pieces, last) => {
        if (last) answered++;
      },
      onFailure: () => failed.push(i),
    }),
  );
  for (const reader of readers) upstream.ask(reader);
  return { given, failed, readers, answered: () => answered };
}

test('a process gets few of many requests at once, and the rest in order of arrival', async () => {
  await using process = await startRawUpstream((_head, socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
  });
  const upstream = new Upstream({ socketPath: process.socketPath });
  const { given, failed, readers, answered } = askFor(upstream, 200);
  assert.equal(given.length, 32);
  upstream.giveUp(readers[100]!);
  await until(() => answered() === 199, 'all but the one given up are answered');
  const all = Array.from({ length: 200 }, (_, i) => i);
  assert.deepEqual(given, all.toSpliced(100, 1));
  assert.deepEqual(failed, []);
  upstream.destroy();
});

test('a process that does not answer soon gets all requests: it may be waiting for one of them', async () => {
  await using process = await startRawUpstream(() => {});
  const upstream = new Upstream({ socketPath: process.socketPath });
  const { given } = askFor(upstream, 200);
  await until(() => given.length === 200, 'all were given');
  upstream.destroy();
});

test('requests that wait for a connection fail when the process is closed', async () => {
  await using process = await startRawUpstream(() => {});
  const upstream = new Upstream({ socketPath: process.socketPath });
  const { given, failed } = askFor(upstream, 100);
  upstream.destroy();
  assert.equal(given.length, 32);
  await until(() => failed.length === 100, 'all have failed');
});
