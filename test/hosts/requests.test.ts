// Requests at a host that is not the app's home. All features of HTTP work as they do with a local process.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Homes } from '../../runtime/hosts/homes.ts';
import { Hosts } from '../../runtime/hosts/hosts.ts';
import { APP, backendOf, CLUSTER_KEY, routeOf, TestHost, twoHosts } from '../support/edge/hosts.ts';
import { call, RawClient, startRawUpstream, until } from '../support/edge/peers.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SHOP = { host: 'shop.test' };

/** Starts a server as the app's process. Returns its socket. */
async function app(t: TestContext, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const socketPath = join(temporaryDirectory(t), 'app.sock');
  const server = createServer(answer).listen(socketPath);
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { socketPath, server };
}

/** Starts two hosts, and an app at the second. */
async function served(t: TestContext, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const hosts = await twoHosts(t);
  const { socketPath, server } = await app(t, answer);
  hosts.home.add(APP, backendOf(socketPath));
  return { ...hosts, server };
}

test('the app sees the client, the address and the trace, and none of the headers between hosts', async (t) => {
  let seen: IncomingMessage['headers'] = {};
  const { entry, home } = await served(t, ({ headers, url }, response) => {
    seen = headers;
    response.setHeader('set-cookie', ['a=1', 'b=2']).end(url);
  });
  const traceparent = `00-${'4'.repeat(32)}-${'5'.repeat(16)}-01`;
  const stranger = {
    'x-cellar-hops': '7',
    'x-cellar-app': 'b'.repeat(16),
    'x-cellar-to': 'host',
    'x-cellar-parent': '6',
  };
  const headers = {
    ...SHOP,
    ...stranger,
    traceparent,
    cookie: 'c=3',
    'x-own': 'kept',
    'cf-connecting-ip': '6.6.6.6',
  };
  const reply = await call(entry.port, '/a?b=c', { headers });
  assert.equal(reply.status, 200);
  assert.equal(reply.body, '/a?b=c');
  assert.deepEqual(reply.headers['set-cookie'], ['a=1', 'b=2']);
  assert.equal(seen.host, 'shop.test');
  assert.equal(seen['x-own'], 'kept');
  assert.equal(seen.cookie, 'c=3');
  assert.equal(seen['x-real-ip'], '127.0.0.1');
  assert.equal(seen['cf-connecting-ip'], '127.0.0.1');
  assert.equal(seen['x-forwarded-for'], '127.0.0.1');
  assert.equal(seen['x-forwarded-proto'], 'http');
  assert.match(String(seen['x-cellar-cf']), /httpProtocol/);
  const internal = Object.keys(seen).filter((name) => name.startsWith('x-cellar-'));
  assert.deepEqual(internal.sort(), ['x-cellar-cf', 'x-cellar-proto']);
  await until(() => home.records.length === 1 && entry.records.length === 1, 'both hosts have a record');
  const [there, here] = [home.records[0]!, entry.records[0]!];
  assert.equal(there.traceId, '4'.repeat(32));
  assert.equal(here.traceId, there.traceId);
  assert.deepEqual([there.spanId, there.parentSpanId], [here.spanId, '5'.repeat(16)]);
  assert.equal(seen.traceparent, `00-${'4'.repeat(32)}-${here.spanId}-01`);
  assert.equal(here.requestId, there.requestId);
  assert.equal(reply.headers['x-request-id'], here.requestId);
  assert.deepEqual([here.home, there.home], ['home', null]);
  assert.equal(there.site, APP);
});

test('bodies of 10 MB cross in both directions, with a length and in chunks', async (t) => {
  const { entry } = await served(t, (asked, response) => {
    if (asked.headers['content-length'])
      response.setHeader('content-length', asked.headers['content-length']);
    asked.pipe(response);
  });
  const body = randomBytes(10 * 2 ** 20);
  const sum = createHash('sha256').update(body).digest('hex');
  for (const headers of [
    { ...SHOP, 'content-length': body.length },
    { ...SHOP, 'transfer-encoding': 'chunked' },
  ]) {
    const echoed = await new Promise<string>((resolve, reject) => {
      const sent = request({ port: entry.port, method: 'POST', headers, agent: false }, (answer) => {
        const hash = createHash('sha256');
        answer.on('data', (chunk) => hash.update(chunk)).on('end', () => resolve(hash.digest('hex')));
      });
      sent.on('error', reject).end(body);
    });
    assert.equal(echoed, sum);
  }
});

test('a request whose head is as long as a client may send it crosses', async (t) => {
  const { entry, home } = await twoHosts(t);
  await using upstream = await startRawUpstream((_head, socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlong'),
  );
  home.add(APP, backendOf(upstream.socketPath));
  const reply = await call(entry.port, '/', { headers: { ...SHOP, 'x-long': 'x'.repeat(32_600) } });
  assert.deepEqual([reply.status, reply.body], [200, 'long']);
});

test('HEAD, 100-continue, an interim answer, trailers and events cross', async (t) => {
  const events = Promise.withResolvers<ServerResponse>();
  const { entry } = await served(t, (asked, response) => {
    if (asked.url === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      events.resolve(response);
    } else if (asked.url === '/hints') {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' }, () => response.end('hinted'));
    } else {
      response.setHeader('content-length', 5);
      asked.resume().on('end', () => response.end('whole'));
    }
  });
  const head = await call(entry.port, '/', { method: 'HEAD', headers: SHOP });
  assert.deepEqual([head.status, head.headers['content-length'], head.body], [200, '5', '']);
  using raw = new RawClient(entry.port);
  raw.send(
    'POST / HTTP/1.1\r\nHost: shop.test\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  await raw.expect('HTTP/1.1 100 Continue\r\n\r\n');
  raw.send('3\r\nabc\r\n0\r\nX-Trailer: dropped\r\n\r\nGET /hints HTTP/1.1\r\nHost: shop.test\r\n\r\n');
  await raw.expect('whole');
  await raw.expect('103 Early Hints');
  await raw.expect('hinted');
  raw.send('GET /events HTTP/1.1\r\nHost: shop.test\r\n\r\n');
  await raw.expect('data: 1');
  (await events.promise).write('data: 2\n\n');
  await raw.expect('data: 2');
});

test('a WebSocket crosses in both directions, and ends with either side', async (t) => {
  const { entry, server } = await served(t, () => {});
  const upgraded = Promise.withResolvers<Socket>();
  server.on('upgrade', (_asked, socket: Socket) => {
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello',
    );
    socket.on('end', () => socket.end());
    upgraded.resolve(socket);
  });
  using raw = new RawClient(entry.port);
  raw.send('GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
  await raw.expect('101 Switching Protocols');
  await raw.expect('hello');
  const socket = await upgraded.promise;
  raw.send('a frame');
  const [bytes] = await once(socket, 'data');
  assert.equal(String(bytes), 'a frame');
  const closed = once(socket, 'close');
  raw.socket.destroy();
  await closed;
});

test('a client that leaves takes the request at the home with it', async (t) => {
  const hosts = await twoHosts(t);
  await using upstream = await startRawUpstream(() => {});
  hosts.home.add(APP, backendOf(upstream.socketPath));
  using raw = new RawClient(hosts.entry.port);
  raw.send('GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n');
  await until(() => upstream.sockets.size === 1, 'the request has arrived');
  raw.socket.destroy();
  await until(() => upstream.sockets.size === 0, 'its connection to the process has ended');
});

test('a request waits at the home until the app arrives there', async (t) => {
  const { entry, home } = await twoHosts(t);
  const { socketPath } = await app(t, (_asked, response) => response.end('arrived'));
  const reply = call(entry.port, '/', { headers: SHOP });
  await until(
    () => home.fromHosts !== null && entry.hosts.peers.get('home')!.upstream.active === 1,
    'it was sent',
  );
  home.add(APP, backendOf(socketPath));
  assert.equal((await reply).body, 'arrived');
});

test('a home that has handed the app over passes requests on, once', async (t) => {
  const { entry, home } = await twoHosts(t);
  const { socketPath } = await app(t, (_asked, response) => response.end('moved'));
  entry.add('elsewhere', backendOf('/nowhere'));
  // The home gave the app to the entry host, which does not know it yet.
  home.homes.moved(APP, 'entry');
  const reply = call(entry.port, '/', { headers: SHOP });
  await until(() => home.hosts.peers.get('entry')!.upstream.active === 1, 'the home has passed it back');
  entry.add(APP, backendOf(socketPath));
  assert.equal((await reply).body, 'moved');
});

test('a request that waits for an app goes on when the app gets another home instead', async (t) => {
  const { entry, home } = await twoHosts(t);
  const { socketPath } = await app(t, (_asked, response) => response.end('moved on'));
  const reply = call(entry.port, '/', { headers: SHOP });
  await until(() => entry.hosts.peers.get('home')!.upstream.active === 1, 'it waits at the home');
  entry.add(APP, backendOf(socketPath));
  home.homes.moved(APP, 'entry');
  assert.equal((await reply).body, 'moved on');
});

test('a request for an app that was deleted is refused as soon as its home knows that', async (t) => {
  const { entry, home } = await twoHosts(t);
  const forget = () =>
    home.homes.take({
      hosts: [entry.known, home.known],
      revision: 2,
      whole: false,
      routes: [],
      deleted: [APP],
    });
  home.hosts.askNow = async () => forget();
  const waits = call(entry.port, '/', { headers: SHOP });
  await until(() => entry.hosts.peers.get('home')!.upstream.active === 1, 'it waits at the home');
  forget();
  assert.equal((await waits).status, 404);
  assert.equal((await call(entry.port, '/', { headers: SHOP })).status, 404);
});

test('an unknown preview of an app of this host is not found, and does not wait', (t) => {
  const homes = new Homes('self', 'test');
  const app = backendOf('/nowhere');
  const here = (_appId: string, previewHost: string | null) => (previewHost === null ? app : undefined);
  const hosts = new Hosts({ homes, baseDomain: 'test', clusterKey: CLUSTER_KEY, here });
  t.after(() => hosts.close());
  homes.take({ hosts: [], revision: 1, whole: true, routes: [routeOf('self')], deleted: [] });
  assert.equal(hosts.resolve('branch--shop.test'), null);
});

test('before a host has heard where apps run, requests wait', async (t) => {
  const host = new TestHost('entry');
  t.after(() => host.close());
  await host.start('127.0.0.1');
  let looked = 0;
  const resolve = host.homes.resolve.bind(host.homes);
  host.homes.resolve = (name) => {
    looked++;
    return resolve(name);
  };
  const [shop, other] = ['shop', 'other'].map((slug) =>
    call(host.port, '/', { headers: { host: `${slug}.test` } }),
  );
  const { socketPath } = await app(t, (_asked, response) => response.end('here'));
  host.add(APP, backendOf(socketPath));
  await until(() => looked >= 2, 'both have arrived');
  host.homes.take({ hosts: [host.known], revision: 1, whole: true, routes: [routeOf('entry')], deleted: [] });
  assert.equal((await shop!).body, 'here');
  assert.equal((await other!).status, 404);
});

test('an unknown name is asked for, and then found or refused', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  const { socketPath } = await app(t, (_asked, response) => response.end('new'));
  home.add('b'.repeat(16), backendOf(socketPath));
  let asked = 0;
  entry.hosts.askNow = async () => {
    asked++;
    learn([routeOf('home'), routeOf('home', { id: 'b'.repeat(16), slug: 'new' })]);
  };
  const replies = await Promise.all(
    ['new', 'other', 'new'].map((slug) => call(entry.port, '/', { headers: { host: `${slug}.test` } })),
  );
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 404, 200],
  );
  assert.ok(asked <= 2, 'requests that come at the same time share the question');
});
