// The connections to a process: kept, taken again and given up.
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { call, startGateway, startRawUpstream, until } from '../support/edge/peers.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

/** A process that answers everything, and the connection that each request came on. */
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

test('a connection carries one request after another, and is closed when none has come for a while', async () => {
  await using parts = await started();
  for (let i = 0; i < 5; i++) assert.equal((await call(parts.front.port, '/')).body, 'ok');
  assert.equal(new Set(parts.used).size, 1);
  await until(() => parts.sockets.size === 0, 'the idle connection was closed');
  assert.equal((await call(parts.front.port, '/')).body, 'ok');
});

test('a connection on which a process says what nobody asked for is given up', async () => {
  await using parts = await started();
  assert.equal((await call(parts.front.port, '/')).body, 'ok');
  parts.used[0]!.write(OK);
  await until(() => parts.sockets.size === 0, 'the connection was closed');
  assert.equal((await call(parts.front.port, '/')).body, 'ok');
  assert.equal(new Set(parts.used).size, 2);
});

test('nothing goes to a process that was given up, though another may listen at its place by now', async () => {
  await using parts = await started();
  assert.equal((await call(parts.front.port, '/')).status, 200);
  parts.front.upstream.destroy();
  const { status, body } = await call(parts.front.port, '/');
  assert.deepEqual([status, JSON.parse(body).code], [503, 'app_unavailable']);
  assert.equal(parts.used.length, 1);
});
