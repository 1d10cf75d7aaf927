// An app without a process that moves between hosts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Hosts } from '../support/hosts/hosts.ts';
import { cells, eventually } from '../support/processes.ts';

test('a resting app that moves is not started by the next start of its new host', async () => {
  await using hosts = await Hosts.start(2, { RUNNER_STORAGE: 'bucket', RUNNER_FLEET_IDLE_EVICT_S: '1' });
  const [first, second] = hosts.all;
  const rpc = rpcOf(first!);
  const id = await first!.deploy('rests', 'hello');
  await eventually(() => cells(id).length === 0, 'its process ends');
  const { home } = await rpc('apps.get', { id });
  const { items } = await rpc('hosts.list', {});
  const [from, to] = home.id === items[0].id ? items : [items[1], items[0]];
  const target = [first!, second!].find(({ address }) => address === to.address)!;
  const moved = async () => (await rpc('apps.move', { id, host: to.id })).code === undefined;
  await eventually(moved, `the app moves from ${from.id}`);
  await target.stop('SIGKILL');
  // A starting host starts a process for each app that is not recorded as resting.
  const store = openHostStore(layout(target.data).database);
  try {
    assert.equal(store.activity.all().get(id)?.resting, true);
  } finally {
    store.close();
  }
});
