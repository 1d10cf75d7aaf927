// Hosts of several versions in one Cellar.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { hostOf } from '../support/hosts/hosts.ts';
import { versionSettings } from '../support/hosts/versions.ts';

test('neighbouring versions run together; a host that is too old ends at its start, and names the versions', async () => {
  await using store = await new MemoryStore().start();
  await using newest = await hostOf(store, 1, versionSettings('3.0.0', 3)).start();
  await using older = await hostOf(store, 2, versionSettings('2.0.0', 2)).start();
  const { id } = await rpcOf(older)('apps.create', { slug: 'shop', storage: 'bucket' });
  assert.equal((await rpcOf(newest)('apps.get', { id })).slug, 'shop');
  const versions = async () =>
    (await rpcOf(newest)('hosts.list', {})).items.map(({ version }: { version: string }) => version);
  assert.deepEqual(await versions(), ['3.0.0', '2.0.0']);
  await using oldest = hostOf(store, 3, versionSettings('1.0.0', 1));
  await assert.rejects(
    oldest.start(),
    /the host ended \(1\)[\s\S]*could not start [^{\n]*Host \S+ runs Cellar 1\.0\.0, which cannot work with 3\.0\.0 of host \S+\. Upgrade the older one/,
  );
  assert.deepEqual(await versions(), ['3.0.0', '2.0.0'], 'it has not joined');
  for (const host of [newest, older])
    assert.equal((await rpcOf(host)('apps.get', { id })).slug, 'shop', 'the others serve on');
});
