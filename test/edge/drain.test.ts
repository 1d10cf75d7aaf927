// Drains of a process's requests and of the gateway.
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { Upstream } from '../../runtime/edge/upstream/upstream.ts';
import { call, RawClient, startGateway, startRawUpstream, until, within } from '../support/edge/peers.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

async function startSlow() {
  const waiting: Socket[] = [];
  const upstream = await startRawUpstream((_head, socket) => waiting.push(socket));
  const front = await startGateway(upstream.socketPath);
  const dispose = async (): Promise<void> => {
    await front[Symbol.asyncDispose]();
    await upstream[Symbol.asyncDispose]();
  };
  return { waiting, front, [Symbol.asyncDispose]: dispose };
}

test('a drain waits for requests in flight', async () => {
  await using parts = await startSlow();
  const { waiting, front } = parts;
  const reply = call(front.port, '/');
  await until(() => waiting.length === 1, 'the request arrived');
  let done = false;
  const drained = front.upstream.drain(5_000).finally(() => {
    done = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(done, false);
  waiting[0]!.write(OK);
  assert.equal((await reply).body, 'ok');
  assert.deepEqual(await within(drained, 'the drain'), { cut: 0 });
});

test('a drain aborts and counts requests that outlast its grace period, and a second call returns the same promise', async () => {
  await using parts = await startSlow();
  const { waiting, front } = parts;
  const replies = [call(front.port, '/1'), call(front.port, '/2')];
  await until(() => waiting.length === 2, 'the requests arrived');
  const drained = front.upstream.drain(20);
  assert.equal(front.upstream.drain(9_999), drained);
  assert.deepEqual(await within(drained, 'the drain'), { cut: 2 });
  for (const reply of await Promise.all(replies)) assert.equal(reply.status, 502);
  assert.equal(front.upstream.active, 0);
});

test('an idle upstream drains at once and counts each end once', async () => {
  const upstream = new Upstream({ socketPath: '/nowhere.sock' });
  const end = upstream.begin();
  upstream.begin()();
  end();
  end();
  assert.equal(upstream.active, 0);
  assert.deepEqual(await within(upstream.drain(100_000), 'the drain'), { cut: 0 });
});

test('a gateway that leaves serves on, and closes each connection after its next response', async () => {
  await using parts = await startSlow();
  const { waiting, front } = parts;
  using idle = new RawClient(front.port);
  idle.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 1, 'the first request arrived');
  waiting[0]!.write(OK);
  await idle.expect('\r\n\r\nok');
  front.gateway.leave();
  assert.equal(idle.ended, false);
  const fresh = call(front.port, '/');
  idle.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 3, 'the next requests arrived');
  for (const socket of waiting.slice(1)) socket.write(OK);
  await within(idle.closed, 'the end of the connection');
  assert.match(idle.received.slice(1), /HTTP\/1\.1 200 .*connection: close/is);
  const { status, headers } = await fresh;
  assert.deepEqual([status, headers.connection], [200, 'close']);
});

test('close lets a request in flight finish, closes idle connections at once and answers others with 503', async () => {
  await using parts = await startSlow();
  const { waiting, front } = parts;
  using idle = new RawClient(front.port);
  using fresh = new RawClient(front.port);
  using half = new RawClient(front.port);
  using busy = new RawClient(front.port);
  half.send('GET / HTTP/1.1\r\nHost:');
  idle.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 1, 'the first request arrived');
  waiting[0]!.write(OK);
  await idle.expect('\r\n\r\nok');
  busy.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 2, 'the second request arrived');

  const closed = front.gateway.close(100_000);
  assert.equal(front.gateway.close(0), closed);
  await within(Promise.all([idle.closed, fresh.closed, half.closed]), 'the end of idle connections');
  const refused = await call(front.port, '/');
  assert.deepEqual(
    [refused.status, refused.headers['retry-after'], refused.headers.connection],
    [503, '5', 'close'],
  );
  // The gateway does not wait for a first request on this new connection.
  using late = new RawClient(front.port);
  assert.equal(busy.ended, false);
  waiting[1]!.write(OK);
  assert.match(await busy.end(), /\r\nconnection: close\r\n(?:[\s\S]*\r\n)?\r\nok$/i);
  assert.deepEqual(await within(closed, 'the close'), { cut: 0 });
  await within(late.closed, 'the end of a new connection');
  await assert.rejects(call(front.port, '/'), { code: 'ECONNREFUSED' });
});

test('close ends a connection after its current answer while others are still in flight', async () => {
  await using parts = await startSlow();
  const { waiting, front } = parts;
  using first = new RawClient(front.port);
  first.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 1, 'the first request arrived');
  waiting[0]!.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst');
  await first.expect('first');
  const second = call(front.port, '/');
  await until(() => waiting.length === 2, 'the second request arrived');
  const closed = front.gateway.close(5_000);
  waiting[0]!.write('again');
  assert.match(await first.end(), /firstagain$/);
  waiting[1]!.write(OK);
  assert.equal((await second).body, 'ok');
  assert.deepEqual(await within(closed, 'the close'), { cut: 0 });
});

test('close aborts what outlasts its grace period and counts requests and tunnels', async () => {
  const waiting: Socket[] = [];
  await using upstream = await startRawUpstream((head, socket) => {
    waiting.push(socket);
    if (/upgrade: other/i.test(head)) {
      socket.allowHalfOpen = true;
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n');
    }
  });
  await using front = await startGateway(upstream.socketPath);
  using plain = new RawClient(front.port);
  using upgraded = new RawClient(front.port);
  plain.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  upgraded.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n');
  await upgraded.expect('upgrade: other');
  await until(() => waiting.length === 2, 'both arrived');
  assert.deepEqual(await within(front.gateway.close(20), 'the close'), { cut: 2 });
  await plain.end();
  await upgraded.end();
  await until(() => front.upstream.active + front.upstream.tunnels === 0, 'nothing is counted any more');
});

test('a gateway listens on several ports and reports why it cannot', async () => {
  await using parts = await startSlow();
  const { waiting, front } = parts;
  const second = await front.gateway.listen(0, '127.0.0.1');
  const reply = call(second, '/');
  await until(() => waiting.length === 1, 'the request arrived');
  waiting[0]!.write(OK);
  assert.equal((await reply).status, 200);
  await assert.rejects(front.gateway.listen(second, '127.0.0.1'), { code: 'EADDRINUSE' });
});
