// TCP connections of clients to the `connect()` handler of a pushed app.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { ownPorts } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';

const [port = 0, spare = 0, silent = 0] = ownPorts(3);
const cellar = new Cellar({ RUNNER_TCP_PORTS: `${port}-${silent}` });
const rpc = rpcOf(cellar);
let id = '';
before(async () => {
  await cellar.start();
  id = await cellar.deploy('sockets', 'tcp');
  assert.equal((await rpc('tcp.ports.set', { id, port })).port, port);
});
after(() => cellar[Symbol.asyncDispose]());

/** Connects, and sends a line of words to the app. */
async function ask(words: string, at = port): Promise<Socket> {
  const socket = connect({ port: at, host: '127.0.0.1', allowHalfOpen: true });
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(`${words}\n`);
  return socket;
}

/** Reads until the other side ends. @throws {Error} when the connection is reset */
async function restOf(socket: Socket): Promise<string> {
  let text = '';
  for await (const chunk of socket.setEncoding('latin1')) text += chunk;
  return text;
}

const told = async () => JSON.parse((await cellar.get('sockets')).text) as string[];
const isTold = (what: string) =>
  eventually(async () => (await told()).includes(what), `the app says ${what}`);

test('the handler knows the addresses of both sides', async () => {
  const socket = await ask('who');
  const { localPort } = socket;
  const { remoteAddress, localAddress } = JSON.parse(await restOf(socket));
  assert.deepEqual([remoteAddress, localAddress], [`127.0.0.1:${localPort}`, `127.0.0.1:${port}`]);
});

test('bytes go both ways unchanged', async () => {
  const socket = await ask('echo');
  const [ready] = await once(socket, 'data');
  assert.equal(String(ready), 'ready\n');
  const sent = Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => (i * 7) % 251));
  socket.end(sent);
  assert.ok(Buffer.from(await restOf(socket), 'latin1').equals(sent));
});

test('one side may end, and the other goes on', async () => {
  const summed = await ask('sum');
  summed.end();
  assert.equal(await restOf(summed), '0');
  const half = await ask('half');
  half.resume();
  await once(half, 'end');
  half.end('after the end');
  await isTold('after the end');
});

test('the end of the handler is the end of the connection, with all that it has written', async () => {
  assert.equal(await restOf(await ask('unawaited')), 'all of it');
  assert.equal(await restOf(await ask('throw')), 'before');
  assert.equal(await restOf(await ask('close')), 'bye');
  await isTold('closed');
  assert.match(await restOf(await ask('tls')), /`secureTransport` socket option/);
  assert.equal((await restOf(await ask('send 5000000'))).length, 5_000_000);
  await eventually(
    async () => JSON.stringify(await rpc('errors.list', { id })).includes('as asked by TCP'),
    'the error is grouped',
  );
});

test('an app learns that the client has gone', async () => {
  const socket = await ask('watch');
  await once(socket, 'data');
  socket.resetAndDestroy();
  await isTold('The TCP connection was lost.');
});

test('a client that does not read holds back the app, which goes on later', async () => {
  const socket = await ask('send 20000000');
  await once(socket, 'readable');
  assert.equal((await restOf(await ask('send 1000'))).length, 1_000, 'others go on');
  assert.equal((await restOf(socket)).length, 20_000_000);
});

test('a sleeping app wakes, and the connections are in its log of requests', async () => {
  await rpc('apps.sleep', { id });
  assert.match(await restOf(await ask('who')), /remoteAddress/);
  await eventually(
    async () => JSON.stringify(await rpc('requests.list', { id })).includes(`/tcp/${port}`),
    'the log of requests names the port',
  );
});

test('a deploy ends open connections and leads new ones to the new version', async () => {
  const socket = await ask('watch');
  await once(socket, 'data');
  const ended = restOf(socket);
  await cellar.deployAgain('sockets', 'tcp', { 'version.txt': '2' });
  assert.equal(await ended, '');
  assert.match(await restOf(await ask('who')), /remoteAddress/);
});

test('ports without an app, of an app without the handler, and of a deleted one are reset', async () => {
  await assert.rejects(ask('who', spare).then(restOf), { code: 'ECONNRESET' });
  const other = await cellar.deploy('silent', 'hello');
  await rpc('tcp.ports.set', { id: other, port: silent });
  await assert.rejects(ask('who', silent).then(restOf), { code: 'ECONNRESET' });
  await eventually(
    async () => JSON.stringify(await rpc('logs.list', { id: other })).includes('no connect() handler'),
    'the log says why',
  );
  await rpc('tcp.ports.delete', { id: other, port: silent });
  await rpc('apps.delete', { id: other });
});

test('a port belongs to one app, and only the operator opens more', async () => {
  const { id: other } = await rpc('apps.create', { slug: 'other' });
  assert.equal((await rpc('tcp.ports.set', { id: other, port })).code, 'tcp_port_taken');
  const refused = await rpc('tcp.ports.set', { id: other, port: silent + 1 });
  assert.match(JSON.stringify(refused), new RegExp(`must be one of ${port}-${silent}`));
  assert.equal((await rpc('tcp.ports.delete', { id: other, port })).code, 'tcp_port_not_found');
  const { items } = await rpc('tcp.ports.list', { id });
  assert.deepEqual(
    items.map((each: { port: number }) => each.port),
    [port],
  );
});

test('visitors reach no handler by HTTP', async () => {
  const before = await told();
  await cellar.get('sockets', '/', {
    headers: {
      'x-cellar-call': '{"kind":"tcp","remote":"a","local":"b"}',
      'x-cellar-tcp': `{"port":${port}}`,
    },
  });
  assert.deepEqual(await told(), before);
});
