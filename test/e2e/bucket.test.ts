// Starts of a Cellar whose bucket does not answer or cannot be used.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { snapshot } from '../support/e2e/snapshots.ts';
import { eventually } from '../support/processes.ts';

const settingsOf = (store: MemoryStore) => ({
  RUNNER_BUCKET: 's3://b/of/cellar',
  RUNNER_BUCKET_ENDPOINT: store.endpoint,
  RUNNER_BUCKET_REGION: 'auto',
  RUNNER_BUCKET_ACCESS_KEY: 'a',
  RUNNER_BUCKET_SECRET_KEY: 's',
  RUNNER_SNAPSHOT_EVERY_H: '0',
});

test('Cellar starts while its bucket is away, warns until it is back, and then stores snapshots in it', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(settingsOf(store)).start();
  await cellar.stop();
  store.cut();
  const starting = cellar.start();
  const ready = () =>
    fetch(`${cellar.api}/ready`).then(
      (response) => response.json() as Promise<{ status: string; warnings?: string[] }>,
      () => null,
    );
  await eventually(async () => (await ready())?.warnings !== undefined, 'it warns');
  assert.deepEqual(await ready(), { status: 'ready', warnings: ['bucket'] });
  store.faults = {};
  await starting;
  await eventually(async () => (await ready())?.warnings === undefined, 'the bucket is used');
  const { key } = await snapshot(cellar);
  assert.ok(store.objects.has(`of/cellar/snapshots/snapshots/${key}`), [...store.objects.keys()].join());
});

test('the first start needs the bucket: it may have the Cellar of a lost machine', async () => {
  await using store = await new MemoryStore().start();
  store.cut();
  await using cellar = new Cellar(settingsOf(store));
  await assert.rejects(cellar.start(), /could not start.*RUNNER_BUCKET: /);
});

test('Cellar does not start with a store that ignores conditions, and names the failed check', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { ignoresConditions: true };
  await using cellar = new Cellar(settingsOf(store));
  await assert.rejects(
    cellar.start(),
    /could not start.*the bucket failed the check \\?"create again if missing/,
  );
});
