// The addresses that an app's browser may reach, and the proxy that connects it to them.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { AppAddresses } from '../../runtime/browser/app-addresses.ts';
import { read, serveSocks } from '../../runtime/browser/socks.ts';
import { FairQueue } from '../../runtime/queues/fair-queue.ts';

test('a browser reaches public addresses, and private ones that the operator opens to apps', () => {
  const none = new AppAddresses([]);
  for (const address of ['1.1.1.1', '2606:4700::1111']) assert.ok(none.has(address), address);
  const closed = [
    '127.0.0.1',
    '::1',
    '::ffff:127.0.0.1',
    '10.0.0.1',
    '169.254.169.254',
    'fd00:ec2::254',
    'fe80::1',
  ];
  for (const address of [...closed, '100.100.100.200', '64:ff9b::7f00:1', '0.0.0.0', 'no address'])
    assert.equal(none.has(address), false, address);
  const some = new AppAddresses(['10.0.0.0/8', '0.0.0.0/0', '127.0.0.2']);
  assert.ok(some.has('10.1.2.3'));
  assert.ok(some.has('127.0.0.2'));
  for (const address of ['127.0.0.1', '169.254.169.254', '100.100.100.200'])
    assert.equal(some.has(address), false, address);
});

test('the proxy connects to allowed addresses only, and refuses what is no request', async () => {
  const echo = net.createServer((socket) => socket.pipe(socket));
  const lookups = new FairQueue({ name: 'lookups', running: 1, runningPerOwner: 1, waitingPerOwner: 1 });
  const proxy = net.createServer(
    (socket) => void serveSocks(socket, new AppAddresses(['127.0.0.2']), lookups),
  );
  for (const server of [echo, proxy]) {
    server.listen(0, '0.0.0.0');
    await once(server, 'listening');
  }
  const { port } = echo.address() as AddressInfo;
  const ask = async (...request: number[]) => {
    const socket = net.connect((proxy.address() as AddressInfo).port, '127.0.0.1');
    socket.write(Uint8Array.of(5, 1, 0));
    assert.deepEqual([...(await read(socket, 2))], [5, 0]);
    socket.write(Uint8Array.from(request));
    const [, code] = await read(socket, 10);
    return { code, socket };
  };
  const at = [port >> 8, port & 255];
  try {
    const allowed = await ask(5, 1, 0, 1, 127, 0, 0, 2, ...at);
    assert.equal(allowed.code, 0);
    allowed.socket.write('hello');
    assert.equal(String(await read(allowed.socket, 5)), 'hello');
    allowed.socket.destroy();
    const name = Buffer.from('localhost');
    const mapped = [...Array(10).fill(0), 255, 255, 127, 0, 0, 1];
    for (const [why, request] of [
      ['loopback', [5, 1, 0, 1, 127, 0, 0, 1, ...at]],
      ['a name of it', [5, 1, 0, 3, name.length, ...name, ...at]],
      ['IPv4 in IPv6', [5, 1, 0, 4, ...mapped, ...at]],
    ] as const) {
      const { code, socket } = await ask(...request);
      assert.equal(code, 2, why);
      socket.destroy();
    }
    // The SOCKS commands BIND (2) and UDP ASSOCIATE (3) are not supported.
    for (const command of [2, 3]) assert.equal((await ask(5, command, 0, 1, 127, 0, 0, 2, ...at)).code, 7);
    const other = net.connect((proxy.address() as AddressInfo).port, '127.0.0.1');
    other.write('GET / HTTP/1.1\r\n\r\n');
    await once(other, 'close');
  } finally {
    for (const server of [echo, proxy]) server.close();
  }
});
