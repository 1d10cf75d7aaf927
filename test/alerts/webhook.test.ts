// Allowed webhook addresses, and the requests to them.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { secretText, send } from '../../runtime/alerts/webhook.ts';
import { PublicAddresses } from '../../runtime/isolation/private-networks.ts';
import { Receiver, signatureOf } from '../support/alerts/receiver.ts';

const secret = Buffer.alloc(32, 7);
const message = { id: 'msg_1', body: '{"type":"alert.test"}', headers: {}, secret };
const { signal } = new AbortController();
const loopback = { addresses: new PublicAddresses(['127.0.0.1']), isLocalApp: () => false };
const strict = { addresses: new PublicAddresses([]), isLocalApp: () => false };

test('a message arrives signed, and its receiver can verify it', async () => {
  await using receiver = await Receiver.start();
  assert.deepEqual(await send(receiver.url, message, loopback, signal), { status: 204, error: null });
  const [got] = receiver.received;
  assert.equal(got!.headers['webhook-id'], 'msg_1');
  assert.equal(got!.headers['webhook-signature'], signatureOf(got!, secretText(secret)));
  assert.notEqual(
    got!.headers['webhook-signature'],
    signatureOf({ ...got!, text: '{}' }, secretText(secret)),
  );
});

test('this machine and its networks cannot be reached, under any name', async () => {
  await using receiver = await Receiver.start();
  for (const host of [
    '127.0.0.1',
    'localhost',
    '127.1',
    '0x7f000001',
    '2130706433',
    '0.0.0.0',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::]',
    '169.254.169.254',
    '10.0.0.1',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '[fd00:ec2::254]',
  ]) {
    const { status, error } = await send(`http://${host}:${receiver.port}/`, message, strict, signal);
    assert.equal(status, null, host);
    assert.match(error!, /is not a public address; .*RUNNER_EGRESS_ALLOW/, host);
  }
  assert.deepEqual(receiver.received, []);
});

test('an app of this machine is reached by its name, whatever DNS says, and no other name is', async () => {
  await using receiver = await Receiver.start();
  const reach = { ...strict, isLocalApp: ({ hostname }: URL) => hostname === 'shop.localhost' };
  const at = (host: string) => send(`http://${host}:${receiver.port}/`, message, reach, signal);
  assert.equal((await at('shop.localhost')).status, 204);
  assert.equal(receiver.received[0]!.headers.host, `shop.localhost:${receiver.port}`);
  for (const host of ['api.localhost', 'localhost', '127.0.0.1'])
    assert.equal((await at(host)).status, null, host);
  assert.equal(receiver.received.length, 1);
});

test('a redirect does not bypass that, and is no delivery', async () => {
  await using receiver = await Receiver.start();
  receiver.answers = [{ status: 307, headers: { location: `http://localhost:${receiver.port}/inner` } }];
  assert.deepEqual(await send(receiver.url, message, loopback, signal), {
    status: 307,
    error: 'the webhook answered 307',
  });
  assert.equal(receiver.received.length, 1);
});

test('an aborted delivery is reported, and so is a receiver that cannot be reached', async () => {
  const receiver = await Receiver.start();
  const { url } = receiver;
  const given = AbortSignal.abort(new Error('the host is stopping'));
  assert.equal((await send(url, message, loopback, given)).status, null);
  await receiver[Symbol.asyncDispose]();
  assert.match((await send(url, message, loopback, signal)).error!, /ECONNREFUSED/);
});

test('a receiver that resets the connection after its status has accepted the message', async (t) => {
  const url = await receiverOf(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
    socket.resetAndDestroy();
  });
  const body = JSON.stringify({ text: 'x'.repeat(4 * 2 ** 20) });
  assert.deepEqual(await send(url, { ...message, body }, loopback, signal), { status: 200, error: null });
});

test('a receiver that switches protocols has not accepted the message', async (t) => {
  const url = await receiverOf(t, (socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n');
  });
  assert.deepEqual(await send(url, message, loopback, signal), {
    status: 101,
    error: 'the webhook answered 101',
  });
});

test('a receiver may send few interim answers', async (t) => {
  const hint = 'HTTP/1.1 103 Early Hints\r\n\r\n';
  const few = await receiverOf(t, (socket) => {
    socket.write(`${hint.repeat(3)}HTTP/1.1 204 No Content\r\n\r\n`);
  });
  assert.equal((await send(few, message, loopback, signal)).status, 204);
  const many = await receiverOf(t, (socket) => {
    socket.write(hint.repeat(1_000));
  });
  const error = 'it sent too many interim responses (1xx)';
  assert.deepEqual(await send(many, message, loopback, signal), { status: null, error });
});

/** Starts a server that calls `answer` when a request arrives. @returns its URL */
async function receiverOf(t: TestContext, answer: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
