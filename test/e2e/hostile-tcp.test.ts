// Hostile apps and strangers on TCP ports: the connections of other apps and visitors go on.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { ownPorts } from '../support/ports.ts';
import { descendants, eventually } from '../support/processes.ts';

const [port = 0, hostile = 0] = ownPorts(2);
const cellar = new Cellar({ RUNNER_TCP_PORTS: `${port}-${hostile}` });
const rpc = rpcOf(cellar);
const config = { main: 'index.js', compatibility_date: '2026-10-01', limits: { cpu_ms: 500 } };
/** Id of the app that has to keep serving. */
let good = '';
before(async () => {
  await cellar.start();
  good = await cellar.deploy('good', 'tcp');
  await rpc('tcp.ports.set', { id: good, port });
  const id = await cellar.deploy('hostile', 'hostile', { 'wrangler.jsonc': JSON.stringify(config) });
  await rpc('tcp.ports.set', { id, port: hostile });
});
after(() => cellar[Symbol.asyncDispose]());

/** Connects as a visitor, and says something. @param localAddress of the visitor */
function ask(words: string, at = hostile, localAddress = '127.0.0.1'): Socket {
  const socket = connect({ port: at, host: '127.0.0.1', localAddress });
  socket.on('error', () => {});
  socket.write(`${words}\n`);
  return socket;
}

const closed = (socket: Socket) => new Promise((resolve) => socket.resume().once('close', resolve));

/** Returns the good app's answer to a visitor with another address; '' when the connection was reset. */
async function answer(): Promise<string> {
  let text = '';
  try {
    for await (const chunk of ask('send 300000', port, '127.0.0.9')) text += chunk;
  } catch {
    return '';
  }
  return text;
}
const serves = async () => assert.equal((await answer()).length, 300_000);

/** Returns the pid of the listening process, and the id of its user. */
function relay() {
  const { pid } = descendants(cellar.pid).find(({ command }) =>
    command.some((word) => word.endsWith('/tcp/program.ts')),
  )!;
  return { pid, user: Number(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) };
}
const memoryMb = () =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${relay().pid}/status`, 'utf8'))![1]) / 1024;

test('an app that never reads, never ends or floods does not stop the others', async () => {
  const before = memoryMb();
  const sockets = ['never', 'flood'].map((what) => ask(what));
  await serves();
  for (const socket of sockets) for (let i = 0; i < 20; i++) socket.write(Buffer.alloc(500_000));
  await serves();
  assert.ok(
    sockets.every(({ destroyed }) => !destroyed),
    'these are held back',
  );
  assert.ok(memoryMb() - before < 100, `${before} MB, then ${memoryMb()} MB`);
  for (const socket of sockets) socket.destroy();
});

test('a stranger with thousands of connections of one byte leaves places to others', async () => {
  const pid = relay().pid;
  const sockets: Socket[] = [];
  for (let i = 0; i < 2_000; i++) {
    const socket = ask('', i % 2 === 0 ? port : hostile);
    sockets.push(socket);
    if (i % 100 === 0) await serves();
  }
  await eventually(() => sockets.filter(({ destroyed }) => !destroyed).length <= 100, 'the others are reset');
  await serves();
  assert.equal(relay().pid, pid);
  for (const socket of sockets) socket.destroy();
});

test('another account gets and loses no port of the first', async () => {
  const { id: account } = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const eve = { key: (await rpc('keys.create', { account })).key };
  const { id } = await rpc('apps.create', { slug: 'eves' }, eve);
  assert.equal((await rpc('tcp.ports.set', { id, port }, eve)).code, 'tcp_port_taken');
  assert.equal((await rpc('tcp.ports.delete', { id, port }, eve)).code, 'tcp_port_not_found');
  for (const name of ['tcp.ports.set', 'tcp.ports.delete'])
    assert.equal((await rpc(name, { id: good, port }, eve)).code, 'forbidden', name);
  assert.equal((await rpc('tcp.ports.list', { id: good }, eve)).code, 'forbidden');
  await serves();
});

test('the process that listens has few rights, and another one follows it', async () => {
  const { pid, user } = relay();
  if (process.getuid!() === 0) assert.notEqual(user, 0);
  // Another address: an earlier test may have used up the connections that 127.0.0.1 may open in ten seconds.
  const open = ask('watch', port, '127.0.0.8');
  await once(open, 'data');
  process.kill(pid, 'SIGKILL');
  await closed(open);
  await eventually(async () => (await answer()).length === 300_000, 'it serves again');
  assert.notEqual(relay().pid, pid);
});
