// Client certificates, stored secrets and crons with seconds, of an app that moves between hosts.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import type { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { snapshot, snapshotDirectory } from '../support/e2e/snapshots.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';

const FILES = join(import.meta.dirname, '../support/mtls');
const read = (name: string) => readFileSync(join(FILES, name), 'utf8');
const CODE = `
export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/runs') return Response.json((await env.KV.get('runs', 'json')) ?? []);
    const shown = await (await env.CERT.fetch(searchParams.get('url'))).text();
    return new Response(shown + ' ' + (await env.KEY.get()));
  },
  async scheduled({ scheduledTime }, env) {
    const runs = (await env.KV.get('runs', 'json')) ?? [];
    await env.KV.put('runs', JSON.stringify([...runs, scheduledTime]));
  },
};`;

test('an app keeps its certificate, its secrets and its crons over a move, a lost host and a restore', async () => {
  const pem = read('server.pem');
  const options = { key: pem, cert: pem, ca: read('authority.pem'), requestCert: true };
  const server = createServer({ rejectUnauthorized: true, ...options }, (request, response) =>
    response.end((request.socket as TLSSocket).getPeerCertificate().subject.CN),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  using snapshots = snapshotDirectory();
  const settings = {
    RUNNER_EGRESS_ALLOW: '127.0.0.1',
    NODE_EXTRA_CA_CERTS: join(FILES, 'authority.pem'),
    RUNNER_CRON_SECONDS: 'on',
    RUNNER_SNAPSHOT_URL: snapshots.path,
    RUNNER_SNAPSHOT_EVERY_H: '0',
  };
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const answer = async (host: Cellar) => (await host.get('shop', `/?url=${encodeURIComponent(url)}`)).text;
  const runsAt = async (host: Cellar): Promise<number[]> =>
    JSON.parse((await host.get('shop', '/runs')).text);
  const works = async (host: Cellar, when: string) => {
    await eventually(async () => (await answer(host)) === 'client the secret', `it answers ${when}`, 60_000);
    const { length } = await runsAt(host);
    await eventually(async () => (await runsAt(host)).length > length + 1, `crons run ${when}`, 30_000);
  };
  try {
    await using hosts = await Hosts.start(2, settings);
    const [one] = hosts.all as [TestHost];
    const rpc = rpcOf(one);
    const { items } = (await rpc('hosts.list', {})) as { items: { id: string; address: string }[] };
    const idOf = (host: TestHost) => items.find(({ address }) => address === host.address)!.id;
    const account = (await one.call('GET', '/client/v4/accounts')).body.result[0].id;
    const post = async (path: string, body: unknown) =>
      (await one.call('POST', `/client/v4/accounts/${account}/${path}`, body)).body.result;
    const body = { certificates: read('client.pem'), private_key: read('client-key.pem') };
    const certificate = await post('mtls_certificates', body);
    const store = await post('secrets_store/stores', { name: 'main' });
    const secret = { name: 'api-key', value: 'the secret', scopes: ['workers'] };
    await post(`secrets_store/stores/${store.id}/secrets`, [secret]);
    const config = {
      ...{ name: 'shop', main: 'index.js', compatibility_date: '2026-10-01' },
      triggers: { crons: ['*/2 * * * * *'] },
      kv_namespaces: [{ binding: 'KV' }],
      mtls_certificates: [{ binding: 'CERT', certificate_id: certificate.id }],
      secrets_store_secrets: [{ binding: 'KEY', store_id: store.id, secret_name: 'api-key' }],
    };
    const { id, home } = await rpc('apps.create', { slug: 'shop', storage: 'bucket' });
    await one.deployAgain('shop', 'hello', { 'wrangler.jsonc': JSON.stringify(config), 'index.js': CODE });
    const [at, other] = hosts.all.toSorted((host) => (idOf(host) === home.id ? -1 : 1)) as [
      TestHost,
      TestHost,
    ];
    await works(other, 'at first');
    const moved = await rpc('apps.move', { id, host: idOf(other) });
    assert.equal(moved.code, undefined, moved.detail);
    await works(at, 'after the move');
    const { status, body: slept } = await at.call('POST', `/v1/apps/${id}/sleep`);
    assert.ok(status < 300, JSON.stringify(slept));
    const { key } = await snapshot(at);
    const repeatedIn = (runs: number[]) => runs.filter((time, index) => runs.indexOf(time) !== index);
    assert.deepEqual(repeatedIn(await runsAt(at)), [], 'no time runs twice, also over a move');
    const lostAt = Date.now();
    await other.stop('SIGKILL');
    await works(at, 'after its host was lost');
    const runs = await runsAt(at);
    // The host may be lost after a run wrote to KV and before its schedule did. Then that time runs again.
    const lost = runs.findLast((time) => time <= lostAt);
    const repeated = repeatedIn(runs);
    assert.ok(
      repeated.length === 0 || (repeated.length === 1 && repeated[0] === lost),
      `${runs} at ${lostAt}`,
    );
    // The snapshot may have a run in KV and the schedule from before that run. Then that time runs again.
    const restored = await rpcOf(at)('admin.restore', { snapshot: key, app: 'shop' });
    assert.equal(restored.code, undefined, restored.detail);
    await works(at, 'after a restore');
    const local = await rpcOf(at)('apps.move', { id, to: 'local' });
    assert.equal(local.code, undefined, local.detail);
    await works(at, 'on the disk of the machine');
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
