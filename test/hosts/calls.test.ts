// Calls of the handlers to the host, about apps of another host.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Alerts } from '../../runtime/alerts/alerts.ts';
import { HostServer } from '../../runtime/control/host-server.ts';
import { type HostServiceOptions, hostService } from '../../runtime/control/host-service.ts';
import { CallsElsewhere } from '../../runtime/hosts/calls-elsewhere.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { APP, backendOf, type TestHost, twoHosts } from '../support/edge/hosts.ts';
import { until } from '../support/edge/peers.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SECRET = 'the secret of all hosts';
const ALERT = { url: 'https://alerts.example/', on: ['crash'] };

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Starts two hosts that answer calls of the handlers. @param answer replaces the real answers of the app's home */
async function hosts(t: TestContext, answer?: Answer) {
  const directory = temporaryDirectory(t);
  const both = await twoHosts(t, { hostCalls: backendOf(join(directory, 'host.sock'), 'host') });
  both.home.add(APP, backendOf(join(directory, 'app.sock')));
  const stores = [open(t), open(t)] as const;
  const home = new HostServer(directory, answer ?? service(both.home, stores[1]));
  await home.listen();
  const server = createServer(service(both.entry, stores[0]));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    home.close();
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const send = (method: string, path: string) =>
    request({ port, method, path, headers: { authorization: `Bearer ${SECRET}` }, agent: false });
  const call = async (method: string, path: string, body?: unknown) => {
    const sent = send(method, path);
    sent.end(body === undefined ? '' : JSON.stringify(body));
    const [answered] = (await once(sent, 'response')) as [IncomingMessage];
    return { status: answered.statusCode!, body: (await answered.toArray()).join('') };
  };
  return { ...both, stores, send, call };
}

function open(t: TestContext) {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  store.apps.want({ id: APP, slug: 'shop', generation: 1 } as never);
  t.after(() => store.close());
  return store;
}

/** Returns the host's side of the HOST binding, with calls about alerts only. */
function service({ hosts }: TestHost, store: ReturnType<typeof openHostStore>): Answer {
  const describe = (id: string) => ({ id, slug: 'shop', url: null });
  const alerts = new Alerts({ store, key: 'a key of this machine', describe, deployUrl: () => null });
  const elsewhere = new CallsElsewhere(hosts);
  return hostService({ store, alerts, elsewhere, secret: SECRET } as unknown as HostServiceOptions);
}

test('a call goes to the home of its app, or to the host that it names', async (t) => {
  const { call, stores } = await hosts(t);
  assert.equal((await call('POST', `/apps/${APP}/alerts`, ALERT)).status, 200);
  assert.deepEqual(
    stores.map(({ alerts }) => alerts.all().length),
    [0, 1],
  );
  assert.equal((await call('POST', `/apps/${APP}/alerts?home=entry`, ALERT)).status, 200);
  assert.deepEqual(
    stores.map(({ alerts }) => alerts.all().length),
    [1, 1],
  );
  assert.equal((await call('POST', `/apps/${APP}/alerts?home=home`, ALERT)).status, 200);
  const listed = await call('GET', `/apps/${APP}/alerts`);
  assert.equal(JSON.parse(listed.body).length, 2);
  const unknown = await call('GET', `/apps/${APP}/alerts?home=other`);
  assert.equal(unknown.status, 503);
  assert.match(unknown.body, /there is no host other/);
});

test('a call to a host that has just joined waits until this one has heard of it', async (t) => {
  const { call, entry, home, learn, stores } = await hosts(t);
  learn([], [entry.known]);
  await until(() => entry.hosts.peers.get('home') === undefined, 'the host is not known');
  entry.hosts.askNow = async () => learn([], [entry.known, home.known]);
  assert.equal((await call('POST', `/apps/${APP}/alerts?home=home`, ALERT)).status, 200);
  assert.equal(stores[1].alerts.all().length, 1);
});

test('a call is passed on at most once, though the home says that the app is elsewhere', async (t) => {
  const { call, home, stores } = await hosts(t);
  home.homes.moved(APP, 'entry');
  assert.equal((await call('POST', `/apps/${APP}/alerts?home=home`, ALERT)).status, 200);
  assert.deepEqual(
    stores.map(({ alerts }) => alerts.all().length),
    [0, 1],
  );
});

test('bodies stream both ways, with headers of the call, and either side may end it', async (t) => {
  const calls: { request: IncomingMessage; response: ServerResponse }[] = [];
  const { send } = await hosts(t, (asked, response) => calls.push({ request: asked, response }));
  const path = `/git/${APP}/git-upload-pack`;
  const sent = send('POST', path);
  sent.setHeader('x-cellar-role', 'view');
  sent.write('first');
  await until(() => calls.length === 1, 'the call has arrived');
  const { request: asked, response } = calls[0]!;
  assert.equal(asked.headers['x-cellar-role'], 'view');
  assert.equal(asked.headers.authorization, `Bearer ${SECRET}`);
  assert.equal(asked.headers['x-cellar-hosts-key'], undefined);
  assert.equal(String((await once(asked, 'data'))[0]), 'first');
  response.writeHead(200, { 'content-type': 'text/x-own' }).write('early');
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  assert.equal(answer.headers['content-type'], 'text/x-own');
  assert.equal(String((await once(answer, 'data'))[0]), 'early');
  sent.write('second');
  assert.equal(String((await once(asked, 'data'))[0]), 'second');
  const broken = once(answer, 'error');
  response.destroy();
  await broken;

  const left = send('POST', path);
  left.on('error', () => {});
  left.end('all');
  await until(() => calls.length === 2, 'the second call has arrived');
  const closed = once(calls[1]!.response, 'close');
  left.destroy();
  await closed;
});

test('a call to a host that does not answer is refused with its name', async (t) => {
  const { call, home } = await hosts(t);
  await home.fromHosts.close(0);
  const refused = await call('GET', `/apps/${APP}/alerts`);
  assert.equal(refused.status, 503);
  assert.match(refused.body, /"code":"host_unavailable".*the host home, which runs the app, does not answer/);
});
