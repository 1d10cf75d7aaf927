// TCP connections that one host takes for apps of another.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts } from '../support/hosts/hosts.ts';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';

const DEADLINE_MS = 30_000;
const port = ownPort();
let hosts: Hosts;
let id = '';

const rpc = (name: string, body: object) => rpcOf(hosts.all[0]!)(name, body);

/** Asks the app by TCP for the addresses of the connection. @returns '' when the connection is reset */
async function answer(): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.write('who\n');
  let text = '';
  try {
    for await (const chunk of socket) text += chunk;
  } catch {
    return '';
  }
  return text;
}

before(async () => {
  // Both hosts try to listen on the port at the same address, so only one gets it.
  hosts = await Hosts.start(2, { RUNNER_STORAGE: 'bucket', RUNNER_TCP_PORTS: String(port) });
  id = await hosts.all[0]!.deploy('sockets', 'tcp');
  await rpc('tcp.ports.set', { id, port });
});
after(() => hosts[Symbol.asyncDispose]());

test('a connection at any host reaches the app at its home, also after a move, until the port is deleted', async () => {
  const { items } = await rpc('hosts.list', {});
  assert.equal(items.length, 2);
  const { home } = await rpc('apps.get', { id });
  const elsewhere = items.find((host: { id: string }) => host.id !== home.id);
  for (const host of [null, elsewhere.id, home.id]) {
    if (host !== null) {
      const moved = async () => (await rpc('apps.move', { id, host })).code === undefined;
      await eventually(moved, 'the app moves', DEADLINE_MS);
      assert.equal((await rpc('apps.get', { id })).home.id, host);
    }
    const isAnswered = async () => (await answer()).includes('"remoteAddress":"127.0.0.1:');
    await eventually(isAnswered, 'the app answers', DEADLINE_MS);
  }
  await rpc('tcp.ports.delete', { id, port });
  await eventually(async () => (await answer()) === '', 'the connection is reset', DEADLINE_MS);
});
