// The import of restored data into an app's folder in the bucket.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AppCluster } from '../../runtime/bucket/app-cluster.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const FOLDER = 'apps/app1/data/';

function clusterOf(t: TestContext, store: MemoryStore, ready: () => Promise<void> = async () => {}) {
  const importing = join(temporaryDirectory(t), 'importing', 'app1');
  const cluster = new AppCluster({
    place: store.place(),
    clusterKey: '0'.repeat(64),
    appId: 'app1',
    endpoint: () => store.endpoint,
    importing,
    isAway: () => false,
    ready,
    untilUsable: async () => {},
    warn: () => {},
  });
  const restore = (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(importing, name)), { recursive: true });
      writeFileSync(join(importing, name), text);
    }
  };
  return { cluster, importing, restore };
}

const write = (store: MemoryStore, name: string) =>
  store.objects.set(FOLDER + name, { body: Buffer.from(name), etag: '"x"', at: new Date().toISOString() });

test('restored data replaces what is in the bucket once, and newer writes stay', async (t) => {
  await using store = await new MemoryStore().start();
  write(store, 'v1/old');
  const { cluster, importing, restore } = clusterOf(t, store);
  restore({ 'v1/do/n/a': 'restored' });
  await Promise.all([cluster.finishImport(), cluster.finishImport()]);
  assert.deepEqual([...store.objects.keys()], [`${FOLDER}v1/do/n/a`]);
  write(store, 'v1/do/n/b');
  await cluster.finishImport();
  assert.equal(store.objects.size, 2);
  assert.deepEqual(readdirSync(dirname(importing)), []);
});

test('what a kill left of an imported directory is never imported again', async (t) => {
  await using store = await new MemoryStore().start();
  write(store, 'v1/do/n/written');
  const { cluster, importing } = clusterOf(t, store);
  // An imported directory is renamed before it is removed. A crash in between leaves part of it under this name.
  mkdirSync(`${importing}.done`, { recursive: true });
  writeFileSync(join(`${importing}.done`, 'half'), 'of it');
  await cluster.finishImport();
  assert.deepEqual([...store.objects.keys()], [`${FOLDER}v1/do/n/written`]);
});

test('a bucket that has not passed its checks is neither read nor written, and the import waits', async (t) => {
  await using store = await new MemoryStore().start();
  write(store, 'v1/old');
  const { cluster, importing, restore } = clusterOf(t, store, async () => {
    throw new Error('it is of another Cellar');
  });
  restore({ 'v1/do/n/a': 'restored' });
  await assert.rejects(cluster.finishImport(), /another Cellar/);
  await assert.rejects(cluster.objects({ key: 'all' }), /another Cellar/);
  assert.deepEqual([store.asked, existsSync(importing)], [[], true]);
});
