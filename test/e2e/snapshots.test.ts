// Snapshots of a real Cellar, and restores from them.
// Runs as root too.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { restore, rpc, snapshot, snapshotDirectory } from '../support/e2e/snapshots.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';

test('a whole Cellar is restored from a snapshot that was taken while its apps served', async () => {
  using snapshots = snapshotDirectory();
  const settings = { RUNNER_SNAPSHOT_URL: snapshots.path, RUNNER_SNAPSHOT_EVERY_H: '0' };
  await using before = await new Cellar(settings).start();
  // The build gives the app a build user.
  const built = { ...STORAGE_APP, 'package.json': '{"scripts": {"build": "true"}}' };
  const awake = await before.deploy('awake', 'hello', built);
  const asleep = await before.deploy('asleep', 'hello', STORAGE_APP);
  for (const slug of ['awake', 'asleep']) await storeData(before, slug, 1);
  await before.call('POST', `/v1/apps/${awake}/env`, { name: 'COLOUR', value: 'blue' });
  await before.call('POST', `/v1/apps/${asleep}/sleep`);
  await storeData(before, 'awake', 2);
  const { key, bytes } = await snapshot(before);
  assert.ok(bytes > 0);
  assert.equal((await before.app(asleep)).status, 'sleeping');
  await storeData(before, 'awake', 3);
  const work = await before.checkout('hello');
  await before.stop();

  await using after = new Cellar(settings);
  // A start that fails at its settings leaves this directory.
  mkdirSync(join(after.data, 'compiled'), { recursive: true, mode: 0o700 });
  const described = restore(key, after.data, settings, ['--dry-run']);
  assert.equal(described.status, 0, described.stderr);
  assert.match(described.stdout, /^awake: [1-9]\d* bytes$/m);
  assert.deepEqual(readdirSync(after.data), ['compiled']);
  const restored = restore(key, after.data, settings);
  assert.equal(restored.status, 0, restored.stderr);
  await after.start();
  assert.equal((await after.app(asleep)).status, 'sleeping');
  assert.deepEqual(await readData(after, 'awake'), expectedData(1, 2));
  assert.deepEqual(await readData(after, 'asleep'), expectedData(1));
  assert.equal((await after.call('GET', `/v1/apps/${awake}/env`)).body.items[0].value, 'blue');
  const history = await after.git(work, 'fetch', after.remote('awake'), 'main');
  assert.equal(history.code, 0, history.stderr);
  // The restored Cellar can deploy, and takes snapshots in the same store.
  await after.deployAgain('awake', 'hello', STORAGE_APP);
  await storeData(after, 'awake', 4);
  assert.deepEqual(await readData(after, 'awake'), expectedData(1, 2, 4));
  const next = await snapshot(after);
  assert.ok(next.key > key);
});

test("an app's storage, or one of its databases, is restored from a snapshot while other apps serve", async () => {
  await using cellar = await new Cellar({ RUNNER_SNAPSHOT_EVERY_H: '0' }).start();
  const id = await cellar.deploy('back', 'hello', STORAGE_APP);
  await cellar.deploy('other', 'hello', STORAGE_APP);
  for (const slug of ['back', 'other']) await storeData(cellar, slug, 1);
  const { key } = await snapshot(cellar);
  for (const slug of ['back', 'other']) await storeData(cellar, slug, 2);

  const before = await readData(cellar, 'back');
  const dry = await rpc(cellar, 'admin.restore', { snapshot: key, app: 'back', dry_run: true });
  const found = dry.changes as unknown as Record<string, string | number>[];
  const byName = Object.fromEntries(found.map((each) => [`${each.kind} ${each.name}`.trim(), each]));
  assert.deepEqual([dry.snapshot, dry.before, dry.problem], [key, null, null]);
  for (const name of ['database notes', 'namespace words', 'class Counter']) {
    const { replaced, removed, returned, lost_bytes } = byName[name] ?? {};
    assert.ok(Number(replaced) > 0 && Number(lost_bytes) > 0, `${name}: ${JSON.stringify(found)}`);
    assert.equal(returned, 0);
    assert.ok(name.startsWith('namespace') || removed === 0);
  }
  const database = await rpc(cellar, 'admin.restore', {
    snapshot: key,
    app: 'back',
    database: 'notes',
    dry_run: true,
  });
  assert.deepEqual(
    (database.changes as unknown as { kind: string }[]).map(({ kind }) => kind),
    ['database'],
  );
  // The dry runs have changed nothing.
  assert.deepEqual(await readData(cellar, 'back'), before);
  assert.equal(((await rpc(cellar, 'snapshots.list', {})).items as unknown as object[]).length, 1);
  const tooEarly = { at: '2020-01-01T00:00:00Z', app: 'back', dry_run: true };
  assert.equal((await rpc(cellar, 'admin.restore', tooEarly)).code, 'snapshot_not_found');
  for (const both of [{ app: 'back' }, { app: 'back', snapshot: key, at: new Date().toISOString() }])
    assert.equal((await rpc(cellar, 'admin.restore', both)).code, 'invalid_input');

  const now = new Date().toISOString();
  const whole = await rpc(cellar, 'admin.restore', { at: now, app: 'back' });
  assert.equal(whole.snapshot, key);
  assert.equal(whole.app, id, JSON.stringify(whole));
  assert.deepEqual(await readData(cellar, 'back'), expectedData(1));
  assert.deepEqual(await readData(cellar, 'other'), expectedData(1, 2));
  assert.equal((await cellar.app(id)).status, 'running');

  // The state before the restore is in a snapshot too. Restores only the database from that one.
  await rpc(cellar, 'admin.restore', { snapshot: whole.before!, app: id, database: 'notes' });
  const mixed = (await readData(cellar, 'back')) as { notes: string[]; values: string[]; count: number };
  assert.deepEqual(mixed.notes, ['note 1', 'note 2']);
  assert.deepEqual([mixed.values.length, mixed.count], [2, 1]);

  // Unreadable storage has no snapshot before the restore, but can be restored.
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  const databases = join(cellar.data, 'data', id, 'do/D1Database');
  const [damaged] = readdirSync(databases).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name));
  rmSync(join(databases, `${damaged}-wal`), { force: true });
  writeFileSync(join(databases, damaged!), 'no database any more '.repeat(500));
  const mended = await rpc(cellar, 'admin.restore', { snapshot: key, app: id, database: 'notes' });
  assert.deepEqual([mended.snapshot, mended.before], [key, null]);
  assert.deepEqual(((await readData(cellar, 'back')) as { notes: string[] }).notes, ['note 1']);

  // A sleeping app stays asleep.
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await rpc(cellar, 'admin.restore', { snapshot: whole.before!, app: id });
  assert.equal((await cellar.app(id)).status, 'sleeping');
  assert.deepEqual(await readData(cellar, 'back'), expectedData(1, 2));

  const { items } = (await rpc(cellar, 'snapshots.list', {})) as unknown as { items: { key: string }[] };
  assert.equal(items.length, 5);
  assert.equal(items.at(-1)!.key, key);
  for (const [params, code] of [
    [{ snapshot: '2020-01-01T00-00-00-000Z', app: id }, 'snapshot_not_found'],
    [{ snapshot: '../../token', app: id }, 'snapshot_not_found'],
    [{ snapshot: key, app: id, database: 'constructor' }, 'snapshot_not_found'],
    [{ snapshot: key, app: 'nobody' }, 'app_not_found'],
  ] as const)
    assert.equal((await rpc(cellar, 'admin.restore', params)).code, code);
  const { body } = await cellar.call('GET', '/v1/admin/stats');
  assert.equal(body.host.snapshots.problem, null);
  assert.equal(body.host.snapshots.last_at.length, 24);
});
