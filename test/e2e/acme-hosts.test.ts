// Several hosts with a Caddy each, as in `docs/several-machines.md`. They share the storage of certificates. The certificate
// authority checks a name at one host, though another host asked for the certificate.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Agent, fetch } from 'undici';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { type Pebble, startPebble } from '../support/edge/pebble.ts';
import { hostOf, type TestHost } from '../support/hosts/hosts.ts';
import { ownPort } from '../support/ports.ts';

const missing = ['caddy', 'pebble', 'openssl'].filter((name) => spawnSync(name, ['-h']).error !== undefined);
const skip = missing.length > 0 && `not installed: apt-get install ${missing.join(' ')}`;
const BASE = 'apps.example';
const SHOP = `export default { fetch: () => new Response('the shop') };`;

const stack = new AsyncDisposableStack();
const directory = mkdtempSync(join(tmpdir(), 'cellar-acme-'));
let pebble: Pebble;
let store: MemoryStore;
let [one, two]: TestHost[] = [];
let agent: Agent;

before(async () => {
  if (skip) return;
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  const storage = join(directory, 'storage');
  mkdirSync(storage, { mode: 0o700 });
  const ports = [1, 2].map(() => ({ tlsPort: ownPort(), httpPort: ownPort() }));
  // The authority checks names at the second host, as if an A record led it there.
  pebble = stack.use(await startPebble(directory, ports[1]!));
  store = stack.use(await new MemoryStore().start());
  const hosts = ports.map(({ tlsPort, httpPort }, n) => {
    const apiPort = ownPort();
    const host = stack.use(
      hostOf(store, n + 2, {
        RUNNER_PORT: String(apiPort),
        RUNNER_EDGE: 'caddy',
        RUNNER_EDGE_PORT: String(tlsPort),
        RUNNER_EDGE_HTTP_PORT: String(httpPort),
        RUNNER_BASE_DOMAIN: BASE,
        RUNNER_DOMAIN_PROOF: 'off',
        RUNNER_TOKEN: 't'.repeat(32),
        NODE_OPTIONS: `--import=${new URL('../support/edge/own-authority.js', import.meta.url)}`,
        TEST_AUTHORITY: pebble.directory,
        TEST_AUTHORITY_ROOT: pebble.root,
      }),
    );
    mkdirSync(join(host.data, 'caddy'), { recursive: true, mode: 0o700 });
    symlinkSync(storage, join(host.data, 'caddy/storage'));
    return { host, apiPort };
  });
  [one, two] = await Promise.all(
    hosts.map(async ({ host, apiPort }) => {
      await host.start();
      // No resolver knows the host name of the API, so the test uses an address.
      return Object.assign(host, { api: `http://127.0.0.1:${apiPort}` });
    }),
  );
  for (const name of [`shop.${BASE}`, 'shop.example']) pebble.names.set(name, { A: ['127.0.0.1'] });
  agent = new Agent({
    connect: {
      ca: await pebble.issuerRoot(),
      lookup: (_name, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]),
    },
  });
  stack.defer(() => agent.close());
});
after(() => stack.disposeAsync());

/** Sends a request over TLS to a host. */
async function visit(host: TestHost, name: string) {
  const answer = await fetch(`https://${name}:${host.edgePort}/`, {
    dispatcher: agent,
    signal: AbortSignal.timeout(60_000),
  });
  return { status: answer.status, text: await answer.text() };
}

/** Sends a request over TLS to each host at the same time. Returns both answers. */
const visitBoth = (name: string) => Promise.all([one!, two!].map((host) => visit(host, name)));

const rpc = (host: TestHost, method: string, params: object) =>
  rpcOf(host)(method, params, { key: host.key });

/** Returns how many orders the authority has got. */
const orders = () => pebble.log().match(/Added order "/g)?.length ?? 0;

test('one order makes the certificate with which both hosts answer, though the authority asks one host only', {
  skip,
}, async () => {
  const { id } = await rpc(one!, 'apps.create', { slug: 'shop', storage: 'bucket' });
  const work = await one!.checkout('hello');
  writeFileSync(join(work, 'index.js'), SHOP);
  await one!.commit(work, 'shop');
  const remote = `${one!.api.replace('//', `//git:${one!.key}@`)}/v1/git/shop`;
  const { code, stderr } = await one!.git(work, 'push', remote, 'HEAD:main');
  assert.equal(code, 0, stderr);
  const served = { status: 200, text: 'the shop' };
  assert.deepEqual(await visit(one!, `shop.${BASE}`), served);
  assert.equal(orders(), 1);
  assert.deepEqual(await visit(two!, `shop.${BASE}`), served);
  assert.equal(orders(), 1);

  const { hostname, state } = await rpc(two!, 'domains.add', { id, hostname: 'shop.example' });
  assert.deepEqual([hostname, state], ['shop.example', 'active']);
  assert.deepEqual(await visitBoth('shop.example'), [served, served]);
  assert.equal(orders(), 2);
});

test('a name that no app has gets no certificate at either host, and no order', { skip }, async () => {
  const before = orders();
  for (const name of [`nobody.${BASE}`, 'nobody.example'])
    for (const host of [one!, two!])
      await assert.rejects(visit(host, name), (error: Error) => /alert|SSL|TLS/i.test(String(error.cause)));
  assert.equal(orders(), before);
});

test('each host wakes an app that sleeps', { skip }, async () => {
  for (const host of [one!, two!]) {
    const { body } = await host.call('POST', '/v1/apps/shop/sleep', undefined, host.key);
    assert.equal(body.status, 'sleeping', body.detail);
    assert.equal((await visit(host, `shop.${BASE}`)).text, 'the shop');
  }
});
