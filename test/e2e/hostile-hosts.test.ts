// Attacks on the ports between hosts, without the hosts' key: by a stranger on the private network, an app, a build and
// another account. The app `neighbour` serves meanwhile.
// Runs as root too.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import { operationsByName } from '../../handlers/contract/index.ts';
import { hostsKey } from '../../runtime/hosts/hosts-key.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { NEEDS_SANDBOX } from '../support/sandbox.ts';
import { NEEDS_USERS } from '../support/users.ts';

const CLUSTER_KEY = 'c'.repeat(64);
const KEY = hostsKey(CLUSTER_KEY);
const ANSWER_MS = 20_000;
const IDLE_CONNECTIONS = 300;
const WORKER = `export default {
  fetch: ({ headers }) => Response.json([...headers.keys()].filter((name) => name.startsWith('x-cellar-'))),
};`;

let hosts: Hosts;
let [home, other]: TestHost[] = [];
let neighbour = '';
let homeId = '';
let otherId = '';

before(async () => {
  hosts = await Hosts.start(2, { RUNNER_STORAGE: 'bucket', RUNNER_CLUSTER_KEY: CLUSTER_KEY });
  const [one] = hosts.all as [TestHost];
  const { items } = await rpcOf(one)('hosts.list', {});
  const created = await rpcOf(one)('apps.create', { slug: 'neighbour', storage: 'bucket' });
  neighbour = created.id;
  homeId = created.home.id;
  const { address } = items.find(({ id }: { id: string }) => id === homeId);
  otherId = items.find(({ id }: { id: string }) => id !== homeId).id;
  home = hosts.all.find((host) => host.address === address)!;
  other = hosts.all.find((host) => host !== home)!;
  await one.deployAgain('neighbour', 'hello', { 'index.js': WORKER });
});
afterEach(async () => {
  for (const host of hosts.all) assert.equal((await host.get('neighbour')).status, 200);
});
after(() => hosts[Symbol.asyncDispose]());

/** Addresses and ports between the hosts: of requests, and of the control plane's processes. */
function places(): { host: string; port: number; ofRequests: boolean }[] {
  return hosts.all.flatMap(({ address }) => {
    const [host, port] = address.split(':') as [string, string];
    return [
      { host, port: Number(port), ofRequests: true },
      { host, port: Number(port) + 1, ofRequests: false },
    ];
  });
}

/** Sends bytes to an address. Resolves with the answer when the other side ends, or with its part after `waitMs` of silence. */
function send(place: { host: string; port: number }, bytes: string, waitMs = ANSWER_MS): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(place, () => socket.write(bytes));
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    socket.setTimeout(waitMs, () => socket.destroy());
    socket.on('error', (error) =>
      (error as NodeJS.ErrnoException).code === 'ECONNRESET' ? null : reject(error),
    );
    socket.on('close', () => resolve(text));
  });
}

const head = (path: string, headers: Record<string, string>) =>
  [`GET ${path} HTTP/1.1`, 'host: neighbour.localhost', 'connection: close']
    .concat(Object.entries(headers).map(([name, value]) => `${name}: ${value}`))
    .join('\r\n')
    .concat('\r\n\r\n');

test('a stranger without the key sees nothing at the ports between hosts, whatever it asks for', async () => {
  const wrong = [
    KEY.slice(1),
    `${KEY.slice(0, -1)}g`,
    KEY.toUpperCase(),
    CLUSTER_KEY,
    `${KEY}, ${KEY}`,
    '',
    '\u00ff',
  ];
  const keys = [undefined, ...wrong];
  const asked = ['app', 'preview', 'call', 'wake', 'host', 'ping', '__proto__', undefined];
  for (const { ofRequests, ...place } of places())
    for (const key of ofRequests ? keys : [undefined])
      for (const to of ofRequests ? asked : ['host']) {
        const answer = await send(
          place,
          head('/apps', {
            ...(key !== undefined && { 'x-cellar-hosts-key': key }),
            ...(to !== undefined && { 'x-cellar-to': to }),
            ...{ 'x-cellar-app': neighbour, 'x-cellar-hops': '1', 'x-cellar-generation': '1' },
          }),
          ofRequests ? ANSWER_MS : 2_000,
        );
        if (!ofRequests) assert.doesNotMatch(answer, /neighbour|200/);
        else assert.match(answer, /^HTTP\/1\.1 (404|400) /, `${key} ${to}: ${answer}`);
        assert.ok(!answer.includes(neighbour) && !answer.includes('hello'), answer);
      }
  const { host, port } = places()[0]!;
  // The same port answers a request with the key, so the refusals do not come from a wrong port.
  const known = head('/', { 'x-cellar-hosts-key': KEY, 'x-cellar-to': 'ping', 'x-cellar-hops': '1' });
  assert.match(await send({ host, port }, known), /^HTTP\/1\.1 200 /);
  const twice = `x-cellar-hosts-key: x\r\nx-cellar-hosts-key: ${KEY}`;
  const answer = await send(
    { host, port },
    head('/', { 'x-cellar-to': 'ping' }).replace('x-cellar-to', `${twice}\r\nx-cellar-to`),
  );
  assert.match(answer, /^HTTP\/1\.1 (404|400) /, answer);
});

test('the headers between hosts mean nothing at the edge, even with the key', async () => {
  for (const host of hosts.all)
    for (const to of ['host', 'ping', 'wake', 'app', 'call']) {
      const headers = { 'x-cellar-hosts-key': KEY, 'x-cellar-to': to, 'x-cellar-app': neighbour };
      const { status, text } = await host.get('neighbour', '/apps', {
        headers: { ...headers, 'x-cellar-hops': '1', 'x-cellar-passed': '1', 'x-cellar-call': '{}' },
      });
      assert.equal(status, 200, text);
      assert.deepEqual(JSON.parse(text), []);
    }
});

test('junk and idle connections at the ports between hosts do not keep hosts from each other', async () => {
  const sockets: Socket[] = [];
  const open = (place: { host: string; port: number }) =>
    new Promise<void>((resolve) => {
      const socket = connect(place, resolve);
      socket.on('error', () => resolve());
      sockets.push(socket);
    });
  try {
    for (const { host, port } of places())
      await Promise.all(Array.from({ length: IDLE_CONNECTIONS }, () => open({ host, port })));
    for (const [n, socket] of sockets.entries()) {
      if (n % 3 === 0) socket.write('\x00\x00\x00\x00\xff\xff\xff\x7f'.repeat(100));
      if (n % 3 === 1) socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9999999999\r\n\r\nx');
    }
    for (const host of hosts.all) assert.equal((await host.get('neighbour')).status, 200);
    assert.equal((await rpcOf(other!)('apps.get', { id: neighbour })).slug, 'neighbour');
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

test('an app reaches no port between hosts, by its fetch or by a socket', async (t) => {
  const config = JSON.parse(readFileSync(new URL('../apps/hostile/wrangler.jsonc', import.meta.url), 'utf8'));
  await home!.create('greedy');
  await home!.deployAgain('greedy', 'hostile', {
    'wrangler.jsonc': JSON.stringify({ ...config, services: [] }),
  });
  const names = [
    'localhost',
    '0.0.0.0',
    '127.0.0.1',
    '127.0.0.2',
    '[::1]',
    '[::ffff:127.0.0.2]',
    '2130706434',
  ];
  const targets = places().flatMap(({ port }) => names.map((name) => `${name}:${port}`));
  const query = new URLSearchParams(targets.map((place) => ['to', place]));
  const { status, text } = await other!.get('greedy', `/out?${query}`);
  assert.equal(status, 200, text);
  const { tried, reached, said } = JSON.parse(text);
  t.diagnostic(`${tried} ways`);
  assert.deepEqual(reached, []);
  for (const key of [KEY, CLUSTER_KEY]) assert.ok(!said.join().includes(key));
});

test('a build reaches no port between hosts, and learns no key', NEEDS_SANDBOX, async () => {
  const targets = places().map(({ host, port }) => `${host}:${port}`);
  const look = `for (const place of ${JSON.stringify(targets)}) {
  const headers = { 'x-cellar-hosts-key': 'x'.repeat(64), 'x-cellar-to': 'host', 'x-cellar-hops': '1' };
  const signal = AbortSignal.timeout(5_000);
  console.log('asked ' + place + ': ' + (await fetch('http://' + place + '/apps', { headers, signal }).then(
    async (answer) => answer.status + ' ' + (await answer.text()).length,
    () => 'failed',
  )));
}
console.log(JSON.stringify(process.env));`;
  const id = await other!.create('builder');
  await other!.deployAgain('builder', 'hello', {
    'look.mjs': look,
    'package.json': JSON.stringify({ scripts: { build: 'node look.mjs' } }),
  });
  const { items } = (await other!.call('GET', `/v1/apps/${id}/deploys`)).body;
  const { log } = (await other!.call('GET', `/v1/apps/${id}/deploys/${items[0].id}/log`)).body;
  const answers = [...String(log).matchAll(/asked \S+: (.+)/g)].map(([, answer]) => answer);
  assert.equal(answers.length, targets.length, log);
  // Without root the network of a build is not closed, and workerd answers "Not Found".
  const allowed = NEEDS_USERS.skip === undefined ? /^failed$/ : /^(failed|404 [09])$/;
  for (const answer of answers) assert.match(answer!, allowed, log);
  for (const key of [KEY, CLUSTER_KEY]) assert.ok(!log.includes(key));
});

test('an account reaches no host, and moves no app of another account to one', async () => {
  const { id: account } = await rpcOf(other!)('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await rpcOf(other!)('keys.create', { account });
  const ask = (host: TestHost, method: string, params: object) => rpcOf(host)(method, params, { key });
  const named = [...operationsByName.values()]
    .filter(({ input }) => 'host' in input.shape)
    .map(({ name }) => name);
  assert.deepEqual(named.sort(), ['apps.list', 'apps.move', 'hosts.drain', 'hosts.remove']);
  for (const host of hosts.all) {
    assert.equal((await ask(host, 'hosts.list', {})).code, 'forbidden');
    for (const method of ['hosts.drain', 'hosts.remove'])
      assert.equal((await ask(host, method, { host: homeId })).code, 'forbidden', method);
    assert.deepEqual((await ask(host, 'apps.list', { host: homeId })).items, []);
    for (const to of [homeId, otherId, 'x', '__proto__']) {
      assert.equal((await ask(host, 'apps.move', { id: neighbour, host: to })).code, 'forbidden');
      assert.equal(
        (await ask(host, 'apps.move', { id: 'neighbour', host: to, dry_run: true })).code,
        'forbidden',
      );
    }
  }
  assert.equal((await rpcOf(home!)('apps.get', { id: neighbour })).home.id, homeId);
});

test('nothing that the hosts printed has a key in it', () => {
  for (const host of hosts.all) for (const key of [KEY, CLUSTER_KEY]) assert.ok(!host.output.includes(key));
});
