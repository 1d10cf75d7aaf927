// Several hosts behind a load balancer with TLS: Caddy, configured as in `docs/proxies.md`.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Agent, fetch } from 'undici';
import { startCaddyOfHost, startCaddyOfHosts } from '../support/e2e/proxies.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { startPebble } from '../support/edge/pebble.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';

const skip = spawnSync('caddy', ['version']).error ? 'Caddy is not installed: apt-get install caddy' : false;
const SHOP = {
  'index.js': `export default {
  fetch: ({ url, headers }) => Response.json([new URL(url).protocol, headers.get('cf-connecting-ip')]),
};`,
};

let hosts: Hosts;
before(async () => {
  hosts = await Hosts.start(2, { RUNNER_TRUSTED_PROXIES: '127.0.0.1' });
  const [one] = hosts.all as [TestHost];
  await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  await one.deployAgain('shop', 'hello', SHOP);
});
after(() => hosts[Symbol.asyncDispose]());

/** Asks a host about a name, as a proxy does. @returns the statuses of the wake hop and of the question about certificates */
async function statuses(host: TestHost, name: string): Promise<number[]> {
  const wake = await fetch(`${host.api}/v1/edge/wake`, { headers: { 'x-forwarded-host': name } });
  const ask = await fetch(`${host.api}/v1/edge/tls-ask?domain=${name}`);
  await Promise.all([wake.text(), ask.text()]);
  return [wake.status, ask.status];
}

test('each host says the same of a name: of its own apps, of those of others, of new and of unknown ones', async () => {
  const [one, two] = hosts.all as [TestHost, TestHost];
  for (const host of hosts.all) {
    assert.deepEqual(await statuses(host, 'shop.localhost'), [200, 200]);
    assert.deepEqual(await statuses(host, 'api.localhost'), [200, 200]);
    assert.deepEqual(await statuses(host, 'nobody.localhost'), [404, 404]);
  }
  for (const [created, slug] of [
    [one, 'cafe'],
    [two, 'bar'],
  ] as const) {
    await rpcOf(created)('apps.create', { slug, storage: 'bucket' });
    const answers = await Promise.all(hosts.all.map((host) => statuses(host, `${slug}.localhost`)));
    assert.deepEqual(answers[0], answers[1]);
    assert.equal(answers[0]![0], 200);
  }
});

test('a Caddy of its own on each host, with shared storage, wakes apps, and makes one order for both', {
  skip:
    skip || (spawnSync('pebble', ['-h']).error ? 'Pebble is not installed: apt-get install pebble' : false),
}, async () => {
  await using stack = new AsyncDisposableStack();
  const [one, two] = hosts.all as [TestHost, TestHost];
  const directory = one.directory;
  const ports = hosts.all.map((): [number, number] => [ownPort(), ownPort()]);
  const [tlsPort, httpPort] = ports[1]!;
  const pebble = stack.use(await startPebble(directory, { tlsPort, httpPort }));
  pebble.names.set('shop.example', { A: ['127.0.0.1'] });
  const shared = {
    ...{ authority: pebble.directory, authorityRoot: pebble.root },
    storage: join(directory, 'certificates'),
  };
  for (const [n, { api, edgePort }] of hosts.all.entries()) {
    const behind = { apiPort: Number(new URL(api).port), edgePort, directory };
    stack.use(await startCaddyOfHost(behind, shared, ports[n]!));
  }
  const { state } = await rpcOf(two)('domains.add', { id: 'shop', hostname: 'shop.example' });
  assert.equal(state, 'active');
  const dispatcher = new Agent({
    connect: {
      ca: await pebble.issuerRoot(),
      lookup: (_name, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]),
    },
  });
  stack.defer(() => dispatcher.close());
  const ask = async (name: string, port: number) => {
    const signal = AbortSignal.timeout(120_000);
    const answer = await fetch(`https://${name}:${port}/`, { dispatcher, signal });
    return [answer.status, await answer.json()];
  };
  for (const [port] of ports) {
    const { body } = await one.call('POST', '/v1/apps/shop/sleep');
    assert.equal(body.status, 'sleeping', body.detail);
    assert.deepEqual(await ask('shop.example', port), [200, ['https:', '127.0.0.1']]);
    await assert.rejects(ask('nobody.example', port), (error: Error) =>
      /alert|SSL|TLS/i.test(String(error.cause)),
    );
  }
  assert.equal(pebble.log().match(/Added order "/g)?.length, 1);
});

test('Caddy in front gets certificates for the names of apps, and sends requests to the hosts that are ready', {
  skip,
}, async () => {
  const ports = hosts.all.map(({ edgePort }) => edgePort);
  await using caddy = await startCaddyOfHosts(ports, hosts.all[0]!.directory);
  await using stack = new AsyncDisposableStack();
  const dispatcher = new Agent({
    connect: {
      ca: readFileSync(caddy.rootCertificate),
      lookup: (_name, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]),
    },
  });
  stack.defer(() => dispatcher.close());
  const ask = async (name: string) => {
    const answer = await fetch(`https://${name}.localhost:${caddy.port}/`, {
      dispatcher,
      signal: AbortSignal.timeout(120_000),
    });
    return { status: answer.status, text: await answer.text() };
  };
  await eventually(
    async () => (await ask('shop').catch(() => null))?.status === 200,
    'Caddy knows the hosts',
  );
  assert.deepEqual(JSON.parse((await ask('shop')).text), ['https:', '127.0.0.1']);
  await assert.rejects(ask('nobody'), (error: Error) => /alert|SSL|TLS/i.test(String(error.cause)));
  const [one] = hosts.all as [TestHost];
  let isOver = false;
  const failures: string[] = [];
  const load = (async () => {
    while (!isOver) {
      const { status, text } = await ask('shop').catch((error: Error) => ({
        status: 0,
        text: String(error.cause),
      }));
      if (status !== 200) failures.push(`${status} ${text}`);
    }
  })();
  await one.stop();
  isOver = true;
  await load;
  assert.deepEqual(failures, []);
  assert.equal((await ask('shop')).status, 200);
});
