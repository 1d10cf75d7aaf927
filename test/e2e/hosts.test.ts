// Several hosts of one Cellar.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts, hostAddress, hostOf } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';

interface ListedHost {
  id: string;
  address: string;
  state: string;
}

test('two hosts that start at once are one Cellar: both answer the API, and both know both', async () => {
  await using hosts = await Hosts.start(2);
  const [one, two] = hosts.all as [Hosts['all'][0], Hosts['all'][0]];
  assert.deepEqual([two.token, two.key], [one.token, one.key], 'they have the same secrets');
  await eventually(async () => {
    const lists = await Promise.all(hosts.all.map((host) => rpcOf(host)('hosts.list', {})));
    return lists.every(({ items }) => items?.length === 2);
  }, 'both list both');
  for (const host of hosts.all) {
    const { items } = (await rpcOf(host)('hosts.list', {})) as { items: ListedHost[] };
    assert.deepEqual(
      items.map(({ address }) => address).sort(),
      hosts.all.map(({ address }) => address).sort(),
    );
    assert.deepEqual(
      items.map(({ state }) => state),
      ['active', 'active'],
    );
  }
  const { id } = await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  assert.equal((await rpcOf(two)('apps.get', { id })).slug, 'shop');
  const created = await rpcOf(two)('apps.create', { slug: 'cafe', storage: 'bucket' });
  assert.equal((await rpcOf(one)('apps.get', { id: created.id })).slug, 'cafe');
});

test('the API answers on the other host when one is killed, and the killed one comes back', async () => {
  await using hosts = await Hosts.start(2);
  const [one, two] = hosts.all as [Hosts['all'][0], Hosts['all'][0]];
  const { id } = await rpcOf(one)('apps.create', { slug: 'shop', storage: 'bucket' });
  await one.stop('SIGKILL');
  await eventually(
    async () => (await two.call('GET', `/v1/apps/${id}`)).status === 200,
    'the other host has taken the control plane over',
  );
  await one.start();
  assert.equal((await rpcOf(one)('apps.get', { id })).slug, 'shop');
});

test('a Cellar of one host becomes the first of several, and keeps its apps', async () => {
  await using store = await new MemoryStore().start();
  const settings: Record<string, string> = bucketSettings(store.place('of/cellar/'));
  await using first = await new Cellar(settings).start();
  const id = await first.create('shop');
  const moved = await rpcOf(first)('apps.move', { id, to: 'bucket' });
  assert.equal(moved.code, undefined, moved.detail);
  await first.deployAgain('shop', 'hello');
  const { text } = await first.get('shop');
  await first.stop();
  settings.RUNNER_ADDRESS = hostAddress(1);
  await first.start();
  assert.equal((await first.get('shop')).text, text);
  await using second = await hostOf(store, 2).start();
  const { items } = await rpcOf(second)('hosts.list', {});
  const homeOf = async (cellar: Cellar) => (await rpcOf(cellar)('apps.get', { id })).home;
  const own = items.find(({ address }: ListedHost) => address === settings.RUNNER_ADDRESS);
  assert.equal((await homeOf(second)).id, own.id);
  await first.stop('SIGKILL');
  delete settings.RUNNER_ADDRESS;
  await assert.rejects(first.start(), /several hosts have this Cellar: set RUNNER_ADDRESS/);
});
