// Calls from app to app, and messages to queues, across hosts; and the access log of both hosts.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request } from 'node:http';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { slugOfScript } from '../../handlers/contract/apps/slug.ts';
import type { StoreSecret } from '../../handlers/contract/host/store-secrets.ts';
import type { KnownApps } from '../../runtime/apps/known/known-apps.ts';
import { Services } from '../../runtime/apps/services.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { asciiJson } from '../../runtime/edge/http/body/ascii-json.ts';
import { accessLines } from '../../runtime/edge/log/access-line.ts';
import { AccessLog } from '../../runtime/edge/log/access-log.ts';
import type { Backend } from '../../runtime/edge/upstream/backend.ts';
import { Upstream } from '../../runtime/edge/upstream/upstream.ts';
import { APP, backendOf, routeOf, startHosts, type TestHost, twoHosts } from '../support/edge/hosts.ts';
import { call, until } from '../support/edge/peers.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const CALLER = 'c'.repeat(16);

/** Starts a listening socket of an app's process, which answers with its name and keeps the requests that it got. */
async function socket(t: TestContext, name: string) {
  const socketPath = join(temporaryDirectory(t), `${name}.sock`);
  const started = { socketPath, got: [] as IncomingMessage[], onRequest: (_asked: IncomingMessage) => {} };
  const server = createServer((asked, response) => {
    started.got.push(asked);
    started.onRequest(asked);
    response.end(name);
  });
  await once(server.listen(socketPath), 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return started;
}

/**
 * Starts two hosts. `caller` at the first host has bindings to the app `shop` at the second, and to its queue.
 * @param hosts default: two hosts that know each other
 */
async function bound(
  t: TestContext,
  owner = 'o',
  here: { app?: Backend } = {},
  stored: (asked: StoreSecret) => string | null = () => null,
  hosts: Awaited<ReturnType<typeof twoHosts>> | null = null,
) {
  hosts ??= await twoHosts(t);
  const [main, exports, queues] = [
    await socket(t, 'main'),
    await socket(t, 'exports'),
    await socket(t, 'queues'),
  ];
  const upstream = new Upstream({ socketPath: main.socketPath }, undefined, {
    exports: { socketPath: exports.socketPath },
    queues: { socketPath: queues.socketPath },
  });
  hosts.home.queues = [{ app: APP, owner: 'o', queues: ['orders'] }];
  hosts.home.add(APP, { site: APP, admit: () => ({ kind: 'forward', upstream }) });
  const paths = layout(temporaryDirectory(t));
  mkdirSync(dirname(paths.run(CALLER)), { recursive: true });
  mkdirSync(paths.run(CALLER));
  const { entry } = hosts;
  const apps = {
    resolve: () => undefined,
    originOf: (id: string) => id,
    slugOf: (id: string) => (id === CALLER ? 'caller' : undefined),
    get: (id: string) => (id === CALLER ? { wanted: { owner } } : here.app && { fleet: here.app }),
    consumersOf: (_id: string, queue: string) => entry.hosts.consumersOf(owner, queue),
  } as unknown as KnownApps;
  const services = new Services({
    ...{ paths, baseDomain: 'test', gateway: () => entry.edge, users: () => ({ build: null, cell: null }) },
    ...{ apps: () => apps, hosts: entry.hosts, depths: entry.depths },
    store: { outbound: () => null, setOutbound: () => {} },
    storeSecrets: { get: async (asked) => stored(asked) },
  });
  t.after(() => services.forget(CALLER));
  const access = services.access(CALLER);
  const plain = { binding: 'SHOP', service: 'shop' };
  const named = { binding: 'ADMIN', service: 'shop', entrypoint: 'Admin' };
  const objects = { binding: 'ROOM', service: 'shop', className: 'Room' };
  await access.open({
    services: [plain, named, objects],
    queues: ['orders'],
    namespaces: [
      { binding: 'DISPATCHER', namespace: 'customers' },
      { binding: 'WATCHED', namespace: 'customers', outbound: { service: 'shop', parameters: [] } },
    ],
    secrets: [{ binding: 'KEY', store: 's', secret: 'key' }],
    tails: ['shop'],
  });
  const ask = async (calling: string, headers: Record<string, string> = {}) => {
    const sent = request({
      socketPath: access.socket,
      headers: { host: 'inner.example', 'x-cellar-calling': calling, ...headers },
      agent: false,
    }).end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    const missing = answer.headers['x-cellar-no-script'] ?? answer.headers['cf-queues-error-cause'];
    const body = (await answer.toArray()).join('');
    return { status: answer.statusCode!, body, ...(missing !== undefined && { missing }) };
  };
  return { ...hosts, main, exports, queues, ask };
}

test('a call reaches the app at its home, with what the calling Worker set', async (t) => {
  const { ask, main, home, entry } = await bound(t);
  const forged = { 'x-cellar-hosts-key': 'no', 'x-cellar-to': 'host', 'x-cellar-app': 'd'.repeat(16) };
  const headers = { 'x-real-ip': '6.6.6.6', 'x-own': 'kept', 'x-cellar-proto': 'https', ...forged };
  assert.deepEqual(await ask('fetch 0', headers), { status: 200, body: 'main' });
  const seen = main.got[0]!.headers;
  assert.equal(seen.host, 'inner.example');
  assert.equal(seen['x-own'], 'kept');
  assert.equal(seen['x-real-ip'], '6.6.6.6');
  assert.equal(seen['x-cellar-proto'], 'https');
  assert.deepEqual(
    Object.keys(seen).filter((name) => /^x-cellar-(?!proto|cf)/.test(name)),
    [],
  );
  await until(() => home.records.length === 1 && entry.records.length === 1, 'both hosts have a record');
  assert.equal(home.records[0]!.clientInfo.clientNetwork, '127.0.0.0', 'an app names no client');
  assert.equal(home.records[0]!.traceId, entry.records[0]!.traceId);
});

test('a home knows how deep a call is in its chain, and refuses one that is too deep', async (t) => {
  const { ask, main, home, entry } = await bound(t);
  const id = '1'.repeat(32);
  const ended = entry.depths.begin('2'.repeat(16), 15);
  const deepest = { traceparent: `00-${id}-${'2'.repeat(16)}-00` };
  let depth = 0;
  main.onRequest = ({ headers }) => {
    depth = home.depths.next(String(headers.traceparent).split('-')[2]!);
  };
  assert.equal((await ask('fetch 0', deepest)).status, 200);
  assert.equal(depth, 17, 'the next call of the called app is too deep');
  ended();
  entry.depths.begin('3'.repeat(16), 16);
  assert.equal((await ask('fetch 0', { traceparent: `00-${id}-${'3'.repeat(16)}-00` })).status, 508);
});

test('an app gets only the secrets of stores that it binds, as its own account', async (t) => {
  const asked: StoreSecret[] = [];
  let answer: () => string | null = () => 'välue';
  const { ask } = await bound(t, 'o', {}, (secret) => {
    asked.push(secret);
    return answer();
  });
  const forged = { 'x-cellar-script': 'other', host: 'other', owner: 'another' };
  assert.deepEqual(await ask('secret 0', forged), { status: 200, body: 'välue' });
  answer = () => null;
  assert.deepEqual(await ask('secret 0'), { status: 404, body: '' });
  answer = () => assert.fail('a reason for the log only');
  const { status, body } = await ask('secret 0');
  assert.equal(status, 503);
  assert.doesNotMatch(body, /a reason/);
  assert.deepEqual(asked, Array(3).fill({ owner: 'o', store: 's', name: 'key' }));
  for (const other of ['secret 1', 'secret -1', 'secret none', 'secret length'])
    assert.equal((await ask(other)).status, 403, other);
});

test('a script of a dispatch namespace is called at its home, and only by its own account', async (t) => {
  const { ask, main, entry, learn } = await bound(t);
  const slug = slugOfScript(createHash('sha256').update('o/customers/alice').digest('hex'));
  learn([routeOf('home', { slug })]);
  assert.deepEqual(await ask('dispatch 0', { 'x-cellar-script': 'alice call' }), {
    status: 200,
    body: 'main',
  });
  assert.equal(main.got[0]!.headers['x-cellar-script'], undefined);
  for (const name of ['bob', '../alice', 'x'.repeat(64)])
    assert.deepEqual(
      await ask('dispatch 0', { 'x-cellar-script': `${name} call` }),
      { status: 404, body: '', missing: 'call' },
      name,
    );
  assert.deepEqual(await ask('dispatch 0'), { status: 404, body: '', missing: '' });
  assert.equal((await ask('dispatch 2', { 'x-cellar-script': 'alice' })).status, 403);
  assert.equal(entry.homes.resolve(`${slug}.test`), undefined);
  learn([routeOf('home', { slug, owner: 'another' })]);
  assert.equal((await ask('dispatch 0', { 'x-cellar-script': 'alice' })).status, 404);
});

test('a script at another host is not called without its outbound Worker', async (t) => {
  const { ask, main, learn } = await bound(t);
  const slug = slugOfScript(createHash('sha256').update('o/customers/alice').digest('hex'));
  learn([routeOf('home', { slug })]);
  const { status, body } = await ask('dispatch 1', { 'x-cellar-script': 'alice call' });
  assert.equal(status, 501);
  assert.match(body, /outbound_elsewhere/);
  assert.equal(main.got.length, 0);
});

test('an object is called at the home of its app, and the home says which classes the app has', async (t) => {
  const { ask, exports, entry, home } = await bound(t);
  home.classes = { Room: 'key of Room' };
  const id = '0'.repeat(63);
  const object = { id: `${id}a`, name: 'käse' };
  const headers = { 'x-cellar-object': asciiJson(object) };
  assert.deepEqual(await ask('rpc 2', headers), { status: 200, body: 'exports' });
  const { headers: seen } = exports.got[0]!;
  assert.deepEqual(JSON.parse(String(seen['x-cellar-call'])), {
    kind: 'rpc',
    object: { className: 'Room', ...object },
  });
  assert.equal(seen['x-cellar-object'], undefined);
  const long = { id: `${id}b`, name: 'ä'.repeat(513) };
  await ask('fetch 2', { 'x-cellar-object': asciiJson(long) });
  assert.deepEqual(JSON.parse(String(exports.got[1]!.headers['x-cellar-call'])).object, {
    className: 'Room',
    id: long.id,
  });
  assert.deepEqual(await entry.hosts.classesOf(APP), { Room: 'key of Room' });
  assert.deepEqual([entry.hosts.idOf('o', 'shop'), entry.hosts.idOf('other', 'shop')], [APP, null]);
  await assert.rejects(entry.hosts.classesOf('d'.repeat(16)), /its host is unknown/);
  home.apps.delete(APP);
  await assert.rejects(entry.hosts.classesOf(APP), /the host home did not answer/);
  await home.fromHosts.close(0);
  await assert.rejects(entry.hosts.classesOf(APP));
});

test('an entrypoint and a queue have sockets of their own at the home', async (t) => {
  const { ask, exports, queues, entry } = await bound(t);
  assert.deepEqual(await ask('fetch 1'), { status: 200, body: 'exports' });
  assert.deepEqual(JSON.parse(String(exports.got[0]!.headers['x-cellar-call'])), {
    kind: 'fetch',
    entrypoint: 'Admin',
  });
  await until(
    () => entry.hosts.consumersOf('o', 'orders').length === 1,
    'the home has said who consumes the queue',
  );
  assert.deepEqual(await ask('queue 0'), { status: 200, body: 'queues' });
  assert.deepEqual(JSON.parse(String(queues.got[0]!.headers['x-cellar-call'])), { queue: 'orders' });
});

test('events reach the tail Worker at the home of its app', async (t) => {
  const { ask, exports } = await bound(t);
  assert.deepEqual(await ask('tail 0'), { status: 200, body: 'exports' });
  const call = { kind: 'tail', from: 'caller' };
  assert.deepEqual(JSON.parse(String(exports.got[0]!.headers['x-cellar-call'])), call);
  assert.equal((await ask('tail 1')).status, 403);
});

test('a send to a queue with many consumers is refused, and names a few of them', async (t) => {
  const { ask, home, entry } = await bound(t);
  home.queues = Array.from({ length: 500 }, (_, n) => ({ app: `app-${n}`, owner: 'o', queues: ['orders'] }));
  await until(
    () => entry.hosts.consumersOf('o', 'orders').length === 500,
    'the home has named its consumers',
  );
  const { status, missing } = await ask('queue 0');
  assert.equal(status, 409);
  assert.equal(
    missing,
    'Several apps consume the queue "orders": app-0, app-1, app-2, app-3, app-4 and 495 more. Let only one consume it.',
  );
});

test('a message that waits while the app moves to another host reaches its queue there', async (t) => {
  const here: { app?: Backend } = {};
  const { ask, main, queues, entry } = await bound(t, 'o', here);
  await until(
    () => entry.hosts.consumersOf('o', 'orders').length === 1,
    'the home has said who consumes the queue',
  );
  here.app = entry.hosts.app(APP);
  assert.deepEqual(await ask('queue 0'), { status: 200, body: 'queues' });
  assert.deepEqual(JSON.parse(String(queues.got[0]!.headers['x-cellar-call'])), { queue: 'orders' });
  assert.equal(main.got.length, 0);
});

test('a queue has one consumer after its host is lost, also while the lost host is known', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'lost', 'next']);
  const [entry, lost, next] = started as [TestHost, TestHost, TestHost];
  const consumers = () => entry.hosts.consumersOf('o', 'orders');
  const orders = [{ app: APP, owner: 'o', queues: ['orders'] }];
  lost.queues = orders;
  learn([routeOf('lost')]);
  await until(() => consumers().length === 1, 'the first home has said who consumes the queue');
  await lost.fromHosts.close(0);
  await until(() => entry.hosts.peers.get('lost')!.lost.aborted, 'the host counts as lost');
  assert.deepEqual(consumers(), [APP], 'a message waits for the new home');
  next.queues = [...orders, { app: 'b'.repeat(16), owner: 'o', queues: ['bills'] }];
  learn(
    [routeOf('next'), routeOf('next', { id: 'b'.repeat(16), slug: 'bills' })],
    started.map(({ known, name }) => ({ ...known, ...(name === 'lost' && { state: 'silent' }) })),
  );
  await until(() => entry.hosts.consumersOf('o', 'bills').length === 1, 'the new home has reported');
  assert.deepEqual(consumers(), [APP]);
  next.queues = next.queues.slice(1);
  await until(() => consumers().length === 0, 'only the new home knows whether the app still consumes it');
});

test('a queue has one consumer while its app moves, although both hosts report it', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'old', 'new']);
  for (const host of started.slice(1)) host.queues = [{ app: APP, owner: 'o', queues: ['orders'] }];
  learn([routeOf('new')]);
  const { peers } = started[0]!.hosts;
  await until(() => ['old', 'new'].every((id) => peers.get(id)?.queues.length === 1), 'both have reported');
  assert.deepEqual(peers.consumersOf('o', 'orders'), [APP]);
});

test('calls and messages wait until a host knows the homes, and what their apps consume', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'home']);
  const [entry, home] = started as [TestHost, TestHost];
  const slug = slugOfScript(createHash('sha256').update('o/customers/alice').digest('hex'));
  const { ask } = await bound(t, 'o', {}, undefined, { entry, home, learn });
  home.add('b'.repeat(16), home.apps.get(APP)!);
  const begun = t.mock.method(entry.depths, 'begin').mock;
  const answers = [
    ask('fetch 0'),
    ask('fetch 1'),
    ask('queue 0'),
    ask('tail 0'),
    ask('dispatch 0', { 'x-cellar-script': 'alice call' }),
  ];
  const unknown = ask('dispatch 0', { 'x-cellar-script': 'bob call' });
  await until(() => begun.callCount() === 6, 'all wait');
  learn([routeOf('home'), routeOf('home', { id: 'b'.repeat(16), slug })]);
  const bodies = (await Promise.all(answers)).map(({ body }) => body);
  assert.deepEqual(bodies, ['main', 'exports', 'queues', 'exports', 'main']);
  const { status, missing } = await unknown;
  assert.deepEqual([status, missing], [404, 'call']);
});

test('calls of one app that wait for the homes leave room for visitors and other apps', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'home']);
  const [entry, home] = started as [TestHost, TestHost];
  const { ask } = await bound(t, 'o', {}, undefined, { entry, home, learn });
  const begun = t.mock.method(entry.depths, 'begin').mock;
  // As many as the maximum of concurrent calls of an app, and of waiting requests of a site.
  const calls = Array.from({ length: 1_000 }, () => ask('fetch 1'));
  await until(() => begun.callCount() === calls.length, 'all wait');
  const routed = t.mock.method(entry.hosts, 'unknown').mock;
  const visitor = call(entry.port, '/', { headers: { host: 'unknown.test' } });
  await until(() => routed.callCount() === 1, 'the visitor waits too');
  learn([]);
  assert.equal((await visitor).status, 404);
  for (const { status } of await Promise.all(calls)) assert.equal(status, 404);
});

test('a message waits for the consumer of its queue, which has just moved', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'home']);
  const [entry, home] = started as [TestHost, TestHost];
  const { ask } = await bound(t, 'o', {}, undefined, { entry, home, learn });
  const { queues } = home;
  home.queues = [];
  learn([routeOf('entry')]);
  const { status, missing } = await ask('queue 0');
  assert.deepEqual([status, missing], [404, 'No app of the same owner consumes the queue "orders".']);
  entry.hosts.askNow = async () => {
    learn([routeOf('home')]);
    setImmediate(() => {
      home.queues = queues;
    });
  };
  assert.deepEqual(await ask('queue 0'), { status: 200, body: 'queues' });
});

test('only hosts with apps of an account can have an unknown consumer of its queues', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'silent']);
  const [entry, silent] = started as [TestHost, TestHost];
  const { peers } = entry.hosts;
  assert.notEqual(peers.unreported('other'), null, 'the homes are unknown');
  await silent.fromHosts.close(0);
  learn([routeOf('silent')]);
  await until(() => peers.get('silent') !== undefined, 'the host is known');
  assert.notEqual(peers.unreported('o'), null);
  assert.equal(peers.unreported('other'), null);
});

test('a send does not wait for apps on the disk of a silent host that has never reported', async (t) => {
  const { started, learn } = await startHosts(t, ['entry', 'home', 'silent']);
  const [entry, home, silent] = started as [TestHost, TestHost, TestHost];
  await silent.fromHosts.close(0);
  const { ask } = await bound(t, 'o', {}, undefined, { entry, home, learn });
  home.queues = [];
  const { peers } = entry.hosts;
  const hosts = [entry.known, home.known, { ...silent.known, state: 'silent' as const }];
  learn([routeOf('home'), routeOf('silent', { id: 'b'.repeat(16), slug: 'other' })], hosts);
  await until(() => peers.get('home')?.hasReported === true, 'the home has named its consumers');
  assert.notEqual(peers.unreported('o'), null, 'an app in the bucket moves to another host soon');
  learn([routeOf('home'), routeOf('silent', { id: 'b'.repeat(16), slug: 'other', storage: 'local' })], hosts);
  assert.equal((await ask('queue 0')).status, 404);
});

test('an app with endless queues hides neither its host nor the queues of other apps', async (t) => {
  const { home, entry } = await twoHosts(t);
  const endless = Array.from({ length: 300_000 }, (_, n) => `queue number ${n}`);
  home.queues = [
    { app: 'e'.repeat(16), owner: 'o', queues: endless },
    { app: APP, owner: 'o', queues: ['orders'] },
  ];
  await until(() => entry.hosts.consumersOf('o', 'orders').length === 1, 'the other app is known');
  assert.deepEqual(entry.hosts.peers.unanswered, []);
});

test('an app of another owner is not reached', async (t) => {
  const { ask, main, entry } = await bound(t, 'stranger');
  await until(
    () => entry.hosts.consumersOf('o', 'orders').length === 1,
    'the home has said who consumes the queue',
  );
  assert.equal((await ask('fetch 0')).status, 404);
  assert.equal((await ask('queue 0')).status, 404);
  assert.equal((await ask('tail 0')).status, 404);
  assert.equal(main.got.length, 0);
});

test('the access logs of both hosts name them, under one trace', async (t) => {
  const { entry, home } = await twoHosts(t);
  home.add(APP, backendOf((await socket(t, 'main')).socketPath));
  const directory = temporaryDirectory(t);
  const logs = [entry, home].map((host) => {
    const log = new AccessLog(join(directory, host.name), accessLines(host.name));
    for (const gateway of [host.edge, host.fromHosts])
      gateway.onEnd((record) => record.site !== '' && log.write(record));
    return log;
  });
  await call(entry.port, '/', { headers: { host: 'shop.test' } });
  await until(() => home.records.length === 1 && entry.records.length === 1, 'both hosts have a record');
  await Promise.all(logs.map((log) => log.close()));
  const [there, here] = [home, entry].map(({ name }) =>
    JSON.parse(readFileSync(join(directory, name), 'utf8')),
  );
  assert.deepEqual([here.host, here.home, there.host, there.home], ['entry', 'home', 'home', undefined]);
  assert.equal(here.trace_id, there.trace_id);
  assert.equal(here.site, APP);
  assert.equal(there.site, APP);
});

test('an app that is not on this host is awoken at its home', async (t) => {
  const { entry, home, learn } = await twoHosts(t);
  learn([routeOf('home')]);
  home.add(APP, backendOf('/nowhere'));
  const admission = entry.hosts.waking(APP).admit();
  assert.equal(admission.kind, 'forward');
  assert.match(admission.kind === 'forward' ? admission.hop!.lines(false) : '', /x-cellar-to: wake/);
});
