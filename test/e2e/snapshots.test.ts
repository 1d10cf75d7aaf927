// Snapshots of a real Cellar, and what is restored from them.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { KEEPER, keep, keeps, kept } from '../support/e2e/keeper.ts';

/** A directory for snapshots, which is removed at the end. */
function place(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'cellar-snapshots-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

async function snapshot(cellar: Cellar): Promise<{ key: string; bytes: number }> {
  const { status, body } = await cellar.call('POST', '/v1/admin/snapshot');
  assert.equal(status, 201, JSON.stringify(body));
  return body;
}

/** Restores a whole Cellar, as its operator would. */
function restore(id: string, data: string, environment: Record<string, string>) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/restore.ts', id], {
    env: { PATH: process.env.PATH ?? '', RUNNER_DATA_DIR: data, ...environment },
    encoding: 'utf8',
    timeout: 120_000,
  });
  return { status, stdout, stderr };
}

test('a whole Cellar comes back from a snapshot that was taken while its apps served', async () => {
  using snapshots = place();
  const settings = { RUNNER_SNAPSHOT_URL: snapshots.path, RUNNER_SNAPSHOT_EVERY_H: '0' };
  await using before = await new Cellar(settings).start();
  const awake = await before.deploy('awake', 'hello', KEEPER);
  const asleep = await before.deploy('asleep', 'hello', KEEPER);
  for (const slug of ['awake', 'asleep']) await keep(before, slug, 1);
  await before.call('POST', `/v1/apps/${awake}/env`, { name: 'COLOUR', value: 'blue' });
  await before.call('POST', `/v1/apps/${asleep}/sleep`);
  await keep(before, 'awake', 2);
  const { key, bytes } = await snapshot(before);
  assert.ok(bytes > 0);
  assert.equal((await before.app(asleep)).status, 'sleeping');
  await keep(before, 'awake', 3);
  const work = await before.checkout('hello');
  await before.stop();

  await using after = new Cellar(settings);
  const restored = restore(key, after.data, settings);
  assert.equal(restored.status, 0, restored.stderr);
  await after.start();
  assert.equal((await after.app(asleep)).status, 'sleeping');
  assert.deepEqual(await kept(after, 'awake'), keeps(1, 2));
  assert.deepEqual(await kept(after, 'asleep'), keeps(1));
  assert.equal((await after.call('GET', `/v1/apps/${awake}/env`)).body.items[0].value, 'blue');
  const history = await after.git(work, 'fetch', after.remote('awake'), 'main');
  assert.equal(history.code, 0, history.stderr);
  // It goes on from there: deploys, and snapshots in the same place.
  await after.deployAgain('awake', 'hello', KEEPER);
  await keep(after, 'awake', 4);
  assert.deepEqual(await kept(after, 'awake'), keeps(1, 2, 4));
  const next = await snapshot(after);
  assert.ok(next.key > key);
});

test('a whole Cellar is restored into an empty directory only', async () => {
  using snapshots = place();
  const settings = { RUNNER_SNAPSHOT_URL: snapshots.path, RUNNER_SNAPSHOT_EVERY_H: '0' };
  await using cellar = await new Cellar(settings).start();
  const { key } = await snapshot(cellar);
  const inUse = restore(key, cellar.data, settings);
  assert.match(inUse.stderr, /belongs to another host/);
  await cellar.stop();
  const full = restore(key, cellar.data, settings);
  assert.match(full.stderr, /is not empty/);
  await cellar.start();
  assert.equal((await cellar.call('GET', '/v1/apps')).status, 200);
  const empty = join(cellar.directory, 'empty');
  mkdirSync(empty);
  assert.match(restore('2020-01-01T00-00-00-000Z', empty, settings).stderr, /there is no snapshot/);
  assert.equal(restore('latest', empty, settings).status, 0);
});
