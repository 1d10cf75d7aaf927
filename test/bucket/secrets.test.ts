// The secrets of a Cellar in the bucket.
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fetchSecrets, storeSecrets } from '../../runtime/bucket/records/secrets.ts';
import { keptSecret, layout } from '../../runtime/disk/data-directory.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const KEY = 'a'.repeat(64);

function machine(t: TestContext) {
  return layout(join(temporaryDirectory(t), 'data'));
}

test('another machine with the cluster key gets the secrets, and keeps those that it has', async (t) => {
  await using store = await new MemoryStore().start();
  const first = machine(t);
  const made = [keptSecret(first.secretsKey), keptSecret(first.apiKey, 'cellar_'), keptSecret(first.token)];
  await storeSecrets(store.place(), first, KEY);
  const writes = () => store.asked.filter(({ method }) => method === 'PUT').length;
  const before = writes();
  await storeSecrets(store.place(), first, KEY);
  assert.equal(writes(), before, 'the same secrets are not written again');
  const [sealed] = [...store.objects.values()].map(({ body }) => body.toString('utf8'));
  for (const secret of made) assert.ok(!sealed!.includes(secret));

  const next = machine(t);
  writeFileSync(next.token, 'own\n');
  await fetchSecrets(store.place(), next, KEY);
  assert.deepEqual([keptSecret(next.secretsKey), keptSecret(next.apiKey)], made.slice(0, 2));
  assert.equal(readFileSync(next.token, 'utf8'), 'own\n');
});

test('another cluster key opens nothing, and a changed secret is stored', async (t) => {
  await using store = await new MemoryStore().start();
  const paths = machine(t);
  keptSecret(paths.secretsKey);
  await storeSecrets(store.place(), paths, KEY);
  await assert.rejects(
    fetchSecrets(store.place(), paths, 'b'.repeat(64)),
    /set RUNNER_CLUSTER_KEY as it was/,
  );
  rmSync(paths.secretsKey);
  const changed = keptSecret(paths.secretsKey);
  await storeSecrets(store.place(), paths, KEY);
  const next = machine(t);
  await fetchSecrets(store.place(), next, KEY);
  assert.equal(keptSecret(next.secretsKey), changed);
});
