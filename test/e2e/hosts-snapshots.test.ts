// Snapshots of several hosts, and restores from them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { restoreFrom, snapshot, snapshotDirectory } from '../support/e2e/snapshots.ts';
import { Hosts, hostOf, type TestHost } from '../support/hosts/hosts.ts';
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
  name: string;
  address: string;
}

test('a host takes and restores snapshots of apps in the bucket at any host, and names local ones', async () => {
  using snapshots = snapshotDirectory();
  const settings = { RUNNER_SNAPSHOT_URL: snapshots.path, RUNNER_SNAPSHOT_EVERY_H: '0' };
  let key = '';
  {
    await using hosts = await Hosts.start(2, settings);
    const [one] = hosts.all as [TestHost];
    const list = async (host: TestHost) =>
      ((await rpcOf(host)('hosts.list', {})) as { items?: ListedHost[] }).items ?? [];
    await eventually(async () => {
      const lists = await Promise.all(hosts.all.map(list));
      return lists.every(({ length }) => length === 2);
    }, 'both know both');
    const items = await list(one);
    const create = async (slug: string, storage: string) => {
      let created: Awaited<ReturnType<ReturnType<typeof rpcOf>>>;
      // The host may not have reached the other one yet.
      await eventually(async () => {
        created = await rpcOf(one)('apps.create', { slug, storage });
        return created.code === undefined;
      }, `${slug} is created`);
      return created;
    };
    const at = (home: { id: string }) => {
      const { address } = items.find(({ id }) => id === home.id)!;
      return hosts.all.find((host) => host.address === address)!;
    };
    const other = (host: TestHost) => hosts.all.find((each) => each !== host)!;
    const shop = await create('shop', 'bucket');
    const desk = await create('desk', 'local');
    await one.deployAgain('shop', 'hello', APP);
    await one.deployAgain('desk', 'hello', APP);
    const count = async (slug: string) => (await one.get(slug)).text;
    assert.deepEqual([await count('shop'), await count('shop'), await count('desk')], ['1', '2', '1']);

    const home = at(desk.home);
    const taken = (await snapshot(other(home))) as unknown as { key: string; left_out: object[] };
    assert.deepEqual(taken.left_out, [{ app: desk.id, slug: 'desk', host: desk.home.name }]);
    const own = (await snapshot(home)) as unknown as { key: string; left_out: object[] };
    assert.deepEqual(own.left_out, []);
    const listed = (await rpcOf(one)('snapshots.list', {})).items as { apps: number; failures: object[] }[];
    assert.deepEqual(
      listed.map(({ apps, failures }) => [apps, failures]),
      [
        [2, []],
        [1, []],
      ],
    );
    assert.deepEqual([await count('shop'), await count('desk')], ['3', '2']);
    const restored = await rpcOf(other(at(shop.home)))('admin.restore', { snapshot: taken.key, app: 'shop' });
    assert.equal(restored.code, undefined, restored.detail);
    assert.equal(await count('shop'), '3');
    const back = await rpcOf(other(home))('admin.restore', { snapshot: own.key, app: 'desk' });
    assert.equal(back.code, undefined, back.detail);
    assert.equal(await count('desk'), '2');
    ({ key } = own);
  }
  // The bucket and all machines are lost.
  await using store = await new MemoryStore().start();
  const after = hostOf(store, 1, settings);
  await restoreFrom(key, after.data, {
    ...bucketSettings(store.place('of/cellar/')),
    ...settings,
    RUNNER_ADDRESS: after.address,
  });
  try {
    await after.start();
    await eventually(
      async () => (await after.get('shop')).text === '3',
      'the app in the bucket serves',
      40_000,
    );
    await eventually(async () => (await after.get('desk')).text === '2', 'the local app serves', 40_000);
    const { items } = (await rpcOf(after)('hosts.list', {})) as { items: ListedHost[] };
    assert.deepEqual(
      items.map(({ address }) => address),
      [after.address],
    );
    const again = (await snapshot(after)) as unknown as { left_out: object[] };
    assert.deepEqual(again.left_out, []);
  } finally {
    await after[Symbol.asyncDispose]();
  }
});
