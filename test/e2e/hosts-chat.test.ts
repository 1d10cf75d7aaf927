// WebSockets at another host than the one that runs the app.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';

const DEADLINE_MS = 120_000;

/** Opens a WebSocket to the room. Keeps its messages from the start, because the room sends its history at once. */
async function join(
  host: TestHost,
): Promise<{ socket: WebSocket; got: string[]; next: () => Promise<unknown> }> {
  const socket = host.webSocket('chat', '/rooms/lobby/socket');
  const got: string[] = [];
  socket.addEventListener('message', ({ data }) => got.push(data));
  await once(socket, 'open', { signal: AbortSignal.timeout(DEADLINE_MS) });
  const next = () => once(socket, 'message', { signal: AbortSignal.timeout(DEADLINE_MS) });
  return { socket, got, next };
}

test('clients of both hosts meet in one room, and come back after it has moved', async () => {
  await using hosts = await Hosts.start(2);
  const [one] = hosts.all as [TestHost];
  const { id, home } = await rpcOf(one)('apps.create', { slug: 'chat', storage: 'bucket' });
  const pushed = await one.push(await one.checkout('chat'), 'chat');
  assert.equal(pushed.code, 0, pushed.stderr);
  const clients = await Promise.all(hosts.all.map(join));
  for (const [n, { socket }] of clients.entries()) {
    const heard = clients.map(({ next }) => next());
    socket.send(`from ${n}`);
    await Promise.all(heard);
  }
  const said = ['{"id":1,"text":"from 0"}', '{"id":2,"text":"from 1"}'];
  for (const { got } of clients) assert.deepEqual(got, said);

  const { items } = await rpcOf(one)('hosts.list', {});
  const closed = clients.map(({ socket }) =>
    once(socket, 'close', { signal: AbortSignal.timeout(DEADLINE_MS) }),
  );
  const { code, detail } = await rpcOf(one)('apps.move', {
    id,
    host: items.find((host: { id: string }) => host.id !== home.id).id,
  });
  assert.equal(code, undefined, detail);
  for (const [event] of await Promise.all(closed)) assert.equal(event.code, 1012);
  for (const host of hosts.all) {
    const { socket, got, next } = await join(host);
    while (got.length < 2) await next();
    assert.deepEqual(got, said);
    const ended = once(socket, 'close', { signal: AbortSignal.timeout(DEADLINE_MS) });
    socket.close();
    assert.equal((await ended)[0].code, 1000);
  }
});
