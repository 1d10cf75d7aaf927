// The proxy through which containers reach the addresses that their app may reach.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net, { type AddressInfo, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { AppAddresses } from '../../runtime/browser/app-addresses.ts';
import { egressProxy } from '../../runtime/containers/egress.ts';

const ALLOWED = '127.0.0.2';

async function listen(t: TestContext, server: Server): Promise<number> {
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Starts the proxy and a server. `ask` sends a request through the proxy, and the server sends the given answer. */
async function open(t: TestContext) {
  let answer = '';
  const heads: string[] = [];
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (head) => {
      heads.push(head.toString());
      socket.end(answer);
    });
  });
  const port = await listen(t, server);
  const proxy = await listen(
    t,
    egressProxy(new AppAddresses([ALLOWED]), 'owner', () => true),
  );
  const ask = async (words: string, answered: string) => {
    answer = answered;
    const socket = net.connect(proxy, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.write(words.replace('PORT', String(port)));
    let said = '';
    socket.on('data', (piece) => (said += piece));
    await once(socket, 'close', { signal: AbortSignal.timeout(10_000) });
    return said;
  };
  return { ask, heads };
}

const GET = `GET http://${ALLOWED}:PORT/a?b HTTP/1.1\r\nhost: other\r\nconnection: close\r\n`;
const GOOD = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npage';

test('requests go to the host of their URL, without the headers of a proxy', async (t) => {
  const { ask, heads } = await open(t);
  assert.match(await ask(`${GET}proxy-authorization: Basic x\r\n\r\n`, GOOD), /^HTTP\/1.1 200 OK.*page$/s);
  assert.match(heads[0]!, /^GET \/a\?b HTTP\/1.1\r\nhost: 127\.0\.0\.2:\d+\r\n/);
  assert.doesNotMatch(heads[0]!, /proxy|other/);
});

test('invalid answers and requests end alone', async (t) => {
  const { ask } = await open(t);
  for (const status of ['099', '000'])
    assert.match(await ask(`${GET}\r\n`, `HTTP/1.1 ${status} x\r\n\r\n`), /^HTTP\/1.1 502 /, status);
  const trailer = 'trailer: a\r\ncontent-length: ';
  assert.match(await ask(`${GET}${trailer}0\r\n\r\n`, GOOD), /^HTTP\/1.1 200 OK.*page$/s);
  assert.match(
    await ask(`${GET}\r\n`, `HTTP/1.1 200 OK\r\n${trailer}4\r\n\r\npage`),
    /^HTTP\/1.1 200 OK.*page$/s,
  );
  assert.match(await ask(`${GET}\r\n`, 'no HTTP\r\n\r\n'), /^HTTP\/1.1 502 /);
});

test('a tunnel leads to allowed addresses only', async (t) => {
  const { ask } = await open(t);
  const tunnel = (host: string) => ask(`CONNECT ${host}:PORT HTTP/1.1\r\nhost: x\r\n\r\nwords`, 'page');
  assert.match(await tunnel(ALLOWED), /^HTTP\/1.1 200 .*\r\n\r\npage$/s);
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.2]x', ''])
    assert.match(await tunnel(host), /^HTTP\/1.1 403 /, host);
});
