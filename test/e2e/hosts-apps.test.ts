// Apps of several hosts: requests at any host, moves, and the end of a host.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Receiver } from '../support/alerts/receiver.ts';
import { COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';

const APP = {
  'wrangler.toml': COUNTER_CONFIG,
  'index.js': `${COUNTER_CLASS}
export default {
  async fetch(request, { COUNTER }) { return new Response(String(await COUNTER.getByName('one').add())); },
};`,
};

interface ListedHost {
  id: string;
  address: string;
}

/** Deploys an app. Returns its id, its home (the host that runs it) and the other host. `idOf` returns a host's id. */
async function deploy(
  hosts: Hosts,
): Promise<{ id: string; home: TestHost; other: TestHost; idOf: (host: TestHost) => string }> {
  const [one] = hosts.all as [TestHost];
  const { items } = (await rpcOf(one)('hosts.list', {})) as { items: ListedHost[] };
  const idOf = (host: TestHost) => items.find(({ address }) => address === host.address)!.id;
  const { id, home } = await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  await one.deployAgain('shop', 'hello', APP);
  const [at, other] = hosts.all.toSorted((host) => (idOf(host) === home.id ? -1 : 1)) as [TestHost, TestHost];
  return { id, home: at, other, idOf };
}

test('each host answers for each app, also while the app moves', async () => {
  await using hosts = await Hosts.start(2);
  const { id, home, other, idOf } = await deploy(hosts);
  assert.equal((await home.get('shop')).text, '1');
  assert.equal((await other.get('shop')).text, '2');
  let isOver = false;
  let acknowledged = 2;
  const failures: string[] = [];
  const load = (async () => {
    for (let n = 0; !isOver; n++) {
      const { status, text } = await hosts.all[n % 2]!.get('shop');
      if (status === 200) acknowledged = Math.max(acknowledged, Number(text));
      else failures.push(`${status} ${text}`);
    }
  })();
  const moved = await rpcOf(home)('apps.move', { id, host: idOf(other) });
  isOver = true;
  await load;
  assert.equal(moved.code, undefined, moved.detail);
  assert.deepEqual(failures, []);
  assert.equal((await rpcOf(home)('apps.get', { id })).home.id, idOf(other));
  for (const host of hosts.all) assert.equal((await host.get('shop')).text, String(++acknowledged));
});

test('a host that is stopped hands its apps over before it ends', async () => {
  await using hosts = await Hosts.start(2);
  const { home, other } = await deploy(hosts);
  assert.equal((await home.get('shop')).text, '1');
  await home.stop();
  assert.match(home.output, /an app was handed over to another host app=shop/);
  assert.equal((await other.get('shop')).text, '2');
});

test('the apps of a host that is lost are back at the other, with all that was acknowledged, and report it', async () => {
  await using receiver = await Receiver.start();
  await using hosts = await Hosts.start(2, { RUNNER_EGRESS_ALLOW: '127.0.0.1' });
  const { id, home, other, idOf } = await deploy(hosts);
  await rpcOf(home)('alerts.set', { id, url: receiver.url, on: ['host'] });
  assert.equal((await home.get('shop')).text, '1');
  await home.stop('SIGKILL');
  await eventually(async () => (await other.get('shop')).text === '2', 'it is back', 40_000);
  const { body } = await receiver.first(({ body }) => body.type === 'host.silent');
  assert.deepEqual([body.data.host.id, body.data.app.id], [idOf(home), id]);
  await home.start();
  await receiver.first(({ body }) => body.type === 'host.back');
  assert.equal(receiver.distinct.length, 2);
});
