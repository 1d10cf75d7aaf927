// Hosts that do not answer, and strangers on the private network.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Peer } from '../../runtime/hosts/peer.ts';
import { APP, backendOf, routeOf, twoHosts } from '../support/edge/hosts.ts';
import { call, RawClient, startRawUpstream, until } from '../support/edge/peers.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SHOP = { host: 'shop.test' };

/** Starts a server as the app's process, which answers with a text. Returns its socket. */
async function answering(t: TestContext, text: string): Promise<string> {
  const socketPath = join(temporaryDirectory(t), 'app.sock');
  const server = createServer((asked, response) => asked.resume().on('end', () => response.end(text)));
  await once(server.listen(socketPath), 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return socketPath;
}

/** Starts a host that accepts connections and never answers. Returns its address, and the heads that it got. */
async function frozen(t: TestContext) {
  const sockets = new Set<Socket>();
  const heads: string[] = [];
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('data', (bytes) => heads.push(String(bytes))).on('error', () => {});
  });
  await once(server.listen(0, '127.0.0.2'), 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const requests = () => heads.filter((head) => !head.includes('x-cellar-to: ping'));
  return { address: `127.0.0.2:${(server.address() as AddressInfo).port}`, requests };
}

test('an answer of another host that breaks off is an error of that question alone', async (t) => {
  let answering: Socket | null = null;
  const server = createServer((asked, response) => {
    if (asked.headers['x-cellar-to'] === 'classes') {
      response.writeHead(200, { 'content-length': '100' }).write('{');
      answering = asked.socket;
      return;
    }
    // By the next ping, the head of that answer has arrived.
    answering?.resetAndDestroy();
    response.end();
  });
  await once(server.listen(0, '127.0.0.2'), 'listening');
  const address = `127.0.0.2:${(server.address() as AddressInfo).port}`;
  const other = { id: 'other', name: 'other', address, version: '1.0.0', state: 'active' } as const;
  const peer = new Peer(other, 'key', () => {});
  t.after(() => {
    peer.close();
    server.close();
    server.closeAllConnections();
  });
  // The test fails when nothing handles the error of the connection.
  await assert.rejects(peer.classesOf(APP));
});

test('a request that never reached a lost home waits for the new one', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  await home.fromHosts.close(0);
  const later = ['GET', 'DELETE', 'POST'].map((method) =>
    call(entry.port, '/', { method, headers: SHOP, ...(method === 'POST' && { body: 'x' }) }),
  );
  await until(() => entry.hosts.peers.get('home')!.waiting !== null, 'the requests wait');
  entry.add(APP, backendOf(await answering(t, 'here')));
  learn([routeOf('entry', { generation: 2 })]);
  assert.deepEqual(
    (await Promise.all(later)).map(({ status, body }) => [status, body]),
    [
      [200, 'here'],
      [200, 'here'],
      [200, 'here'],
    ],
  );
});

test('of requests that were sent, only safe ones without an answer are sent again', async (t) => {
  const { entry, home } = await twoHosts(t);
  const sockets: Socket[] = [];
  let dies = true;
  await using upstream = await startRawUpstream((head, socket) => {
    if (dies) sockets.push(socket);
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nagain');
    if (head.startsWith('GET /begun')) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf');
  });
  home.add(APP, backendOf(upstream.socketPath));
  const safe = call(entry.port, '/safe', { headers: SHOP });
  const unsafe = call(entry.port, '/unsafe', { method: 'DELETE', headers: SHOP });
  using begun = new RawClient(entry.port);
  begun.send('GET /begun HTTP/1.1\r\nHost: shop.test\r\n\r\n');
  await begun.expect('half');
  await until(() => sockets.length === 3, 'the process has all requests');
  dies = false;
  await home.restart();
  const [again, lost] = await Promise.all([safe, unsafe]);
  assert.equal(lost.status, 502);
  assert.match(lost.body, /may have seen the request/);
  assert.match(await begun.end(), /half$/);
  assert.equal(again.body, 'again');
});

test('requests that the home breaks off hold no others, and are not repeated for ever', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  let broken = 0;
  const server = createTcpServer((socket) => {
    socket
      .on('error', () => {})
      .on('data', (bytes) => {
        if (String(bytes).startsWith('GET /broken')) {
          broken++;
          socket.destroy();
        } else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine');
      });
  });
  await once(server.listen(0, '127.0.0.2'), 'listening');
  t.after(() => server.close());
  const address = `127.0.0.2:${(server.address() as AddressInfo).port}`;
  learn([routeOf('home')], [entry.known, { ...home.known, address }]);
  await until(() => entry.hosts.peers.get('home')?.address === address, 'the new address is known');
  const reply = call(entry.port, '/broken', { headers: SHOP });
  await until(() => broken === 1, 'it was broken off');
  assert.equal((await call(entry.port, '/fine', { headers: SHOP })).body, 'fine');
  assert.equal(broken, 1, 'the other did not wait for it');
  assert.equal((await reply).status, 502);
  assert.equal(broken, 4);
});

test('requests that reach a home which closes are sent again, those with a body too', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  home.fromHosts.closing = true;
  const [get, remove, post] = ['GET', 'DELETE', 'POST'].map((method) =>
    call(entry.port, '/', { method, headers: SHOP, ...(method === 'POST' && { body: 'x' }) }),
  );
  await until(() => entry.hosts.peers.get('home')!.upstream.active === 0, 'it has answered all');
  entry.add(APP, backendOf(await answering(t, 'here')));
  learn([routeOf('entry', { generation: 2 })]);
  for (const { status, body } of [await get!, await remove!, await post!])
    assert.deepEqual([status, body], [200, 'here']);
});

test('a large body waits at the entry until the home takes it, and is sent whole to the next one', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  const { upstream } = entry.hosts.peers.get('home')!;
  const begun = t.mock.method(upstream, 'begin');
  home.fromHosts.closing = true;
  const body = 'x'.repeat(2 ** 20);
  using raw = new RawClient(entry.port);
  raw.send(
    `POST / HTTP/1.1\r\nHost: shop.test\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  const eager = call(entry.port, '/', { method: 'POST', headers: SHOP, body });
  // Both requests may have been sent back before the next check of `until`.
  await until(() => begun.mock.callCount() >= 2, 'the home has had both');
  await until(() => upstream.active === 0, 'it has sent them back');
  home.fromHosts.closing = false;
  const got: number[] = [];
  const socketPath = join(temporaryDirectory(t), 'app.sock');
  const server = createServer(async (asked, response) => {
    const bytes = Buffer.concat(await asked.toArray());
    got.push(bytes.length);
    response.end(`${bytes.length}`);
  });
  await once(server.listen(socketPath), 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  home.add(APP, backendOf(socketPath));
  learn([routeOf('home')]);
  await raw.expect('HTTP/1.1 100 Continue\r\n\r\n');
  raw.send(body);
  await raw.expect(`${body.length}`);
  assert.equal((await eager).body, `${body.length}`);
  assert.deepEqual(got, [body.length, body.length]);
});

test('a request whose body the home has taken is not sent again', async (t) => {
  const { entry, home } = await twoHosts(t);
  let taken = 0;
  await using upstream = await startRawUpstream((_head, socket) => {
    taken++;
    socket.on('data', () => {});
  });
  home.add(APP, backendOf(upstream.socketPath));
  const reply = call(entry.port, '/', { method: 'POST', headers: SHOP, body: 'x' });
  await until(() => taken === 1, 'the app has it');
  await home.restart();
  assert.equal((await reply).status, 502);
  assert.equal(taken, 1);
});

test('a frozen home: what was sent is given up after its pings have failed, and new requests wait', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  const { address, requests } = await frozen(t);
  learn([routeOf('home')], [entry.known, { ...home.known, address }]);
  await until(() => entry.hosts.peers.get('home')?.address === address, 'the new address is known');
  const started = performance.now();
  const safe = call(entry.port, '/safe', { headers: SHOP });
  const unsafe = call(entry.port, '/unsafe', { method: 'POST', headers: SHOP, body: 'x' });
  await until(() => requests().length === 2, 'the frozen host has both');
  assert.equal((await unsafe).status, 502);
  assert.ok(performance.now() - started < 30_000, 'soon after the 6 s of its pings');
  assert.ok(entry.hosts.peers.get('home')!.lost.aborted);
  assert.deepEqual(entry.hosts.peers.unanswered, [{ id: 'home', ms: 6_000 }]);
  const later = call(entry.port, '/later', { method: 'POST', headers: SHOP, body: 'x' });
  entry.add(APP, backendOf(await answering(t, 'here')));
  learn([routeOf('entry', { generation: 2 })], [entry.known, { ...home.known, address }]);
  assert.deepEqual(
    (await Promise.all([safe, later])).map(({ body }) => body),
    ['here', 'here'],
  );
  assert.equal(requests().length, 2);
});

test('a request that waits for an app of a lost host is told to the control plane, until the app has moved', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  const lost = [entry.known, { ...home.known, state: 'silent' as const }];
  // The first report of queues makes waiting requests retry, which would tell the control plane once more.
  await until(() => entry.hosts.peers.get('home')!.hasReported, 'the home has reported its queues');
  let asked = 0;
  entry.homes.onAwaited = () => asked++;
  learn([routeOf('home')], lost);
  const reply = call(entry.port, '/', { headers: SHOP });
  await until(() => asked === 1, 'it was told');
  assert.deepEqual(entry.homes.takeAwaited(), [{ app: APP, home: 'home' }]);
  assert.deepEqual(entry.homes.takeAwaited(), []);
  learn([routeOf('home')], lost);
  await until(() => asked === 2, 'it waits on');
  entry.add(APP, backendOf(await answering(t, 'here')));
  learn([routeOf('entry', { generation: 2 })], lost);
  assert.equal((await reply).body, 'here');
  assert.equal(asked, 2);
});

test('one app has a share of the connections between hosts: beyond it 503, and others are served', async (t) => {
  const { entry, home, learn } = await twoHosts(t, { shareMax: 3 });
  const other = 'b'.repeat(16);
  const hanging: Socket[] = [];
  await using upstream = await startRawUpstream((head, socket) => {
    if (head.includes('upgrade'))
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello',
      );
    hanging.push(socket);
  });
  home.add(APP, backendOf(upstream.socketPath));
  home.add(other, backendOf(await answering(t, 'served'), other));
  learn([routeOf('home'), routeOf('home', { id: other, slug: 'other' })]);
  using socket = new RawClient(entry.port);
  socket.send('GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
  await socket.expect('hello');
  using one = new RawClient(entry.port);
  using two = new RawClient(entry.port);
  for (const raw of [one, two]) raw.send('GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n');
  await until(() => hanging.length === 3, 'the share is used');
  const refused = await call(entry.port, '/', { headers: SHOP });
  assert.equal(refused.status, 503);
  assert.match(refused.body, /of this app are open between the hosts/);
  assert.equal((await call(entry.port, '/', { headers: { host: 'other.test' } })).body, 'served');
  one.socket.destroy();
  await until(() => hanging.some(({ destroyed }) => destroyed), 'a request has ended');
  two.socket.destroy();
  await until(() => hanging.filter(({ destroyed }) => destroyed).length === 2, 'another one has ended');
  home.add(APP, backendOf(await answering(t, 'again')));
  assert.equal((await call(entry.port, '/', { headers: SHOP })).body, 'again');
});

test('an app on the disk of a silent host answers 503 that names the host', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  learn([routeOf('home', { storage: 'local' })], [entry.known, { ...home.known, state: 'silent' }]);
  const reply = await call(entry.port, '/', { headers: SHOP });
  assert.equal(reply.status, 503);
  assert.match(reply.body, /on the disk of the host home, which does not answer/);
  learn([routeOf('removed', { storage: 'local' })], [entry.known]);
  const removed = await call(entry.port, '/', { headers: SHOP });
  assert.equal(removed.status, 503);
  assert.match(removed.body, /of a host that was removed from this Cellar/);
});

test('without the key the private network gets 404 and nothing else', async (t) => {
  const { home } = await twoHosts(t);
  let calls = 0;
  await using upstream = await startRawUpstream((_head, socket) => {
    calls++;
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
  });
  home.add(APP, backendOf(upstream.socketPath));
  const [host, port] = home.address.split(':') as [string, string];
  const ask = (headers: Record<string, string>) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      const sent = request({ host, port, agent: false, headers: { ...SHOP, ...headers } }, async (answer) => {
        resolve({ status: answer.statusCode!, body: (await answer.toArray()).join('') });
      });
      sent.on('error', reject).end();
    });
  const good = {
    'x-cellar-to': 'app',
    'x-cellar-app': APP,
    'x-cellar-hops': '1',
    'x-cellar-generation': '1',
  };
  const { key } = home.hosts;
  const wrong = key.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  for (const given of [{}, { 'x-cellar-hosts-key': '' }, { 'x-cellar-hosts-key': wrong }])
    for (const to of ['app', 'host', 'ping', 'wake'])
      assert.deepEqual(await ask({ ...good, 'x-cellar-to': to, ...given }), { status: 404, body: '' });
  assert.equal(calls, 0);
  const keyed = { ...good, 'x-cellar-hosts-key': key };
  for (const hops of ['0', '3', '-1', '1.5', 'x', '1e1'])
    assert.equal((await ask({ ...keyed, 'x-cellar-hops': hops })).status, 508);
  assert.equal((await ask({ ...keyed, 'x-cellar-to': 'other' })).status, 404);
  assert.equal(calls, 0);
  assert.equal((await ask(keyed)).status, 200);
  assert.equal(calls, 1);
});

test('the key opens nothing at the edge', async (t) => {
  const { entry, home } = await twoHosts(t);
  home.add(APP, backendOf(await answering(t, 'shop')));
  const headers = { 'x-cellar-hosts-key': entry.hosts.key, 'x-cellar-hops': '1', 'x-cellar-app': APP };
  for (const to of ['app', 'host', 'ping']) {
    const reply = await call(entry.port, '/', {
      headers: { ...headers, 'x-cellar-to': to, host: 'no.test' },
    });
    assert.equal(reply.status, 404);
  }
});
