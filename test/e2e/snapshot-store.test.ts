// The snapshot store: damaged, interrupted and foreign snapshots, S3, and removal of old ones.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { startS3 } from '../support/bucket/s3.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { restore, rpc, snapshot } from '../support/e2e/snapshots.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';
import { descendants, eventually, processes } from '../support/processes.ts';

const KEPT = 3;
const cellar = new Cellar({ RUNNER_SNAPSHOT_EVERY_H: '0', RUNNER_SNAPSHOT_KEEP: String(KEPT) });
const directory = join(cellar.data, 'snapshots');
let id = '';
before(async () => {
  await cellar.start();
  id = await cellar.deploy('safe', 'hello', STORAGE_APP);
  await storeData(cellar, 'safe', 1);
});
after(() => cellar[Symbol.asyncDispose]());

test('a snapshot that is damaged, foreign or newer is refused, and nothing changes', async () => {
  const { key } = await snapshot(cellar);
  await storeData(cellar, 'safe', 2);
  const manifest = join(directory, 'snapshots', key);
  const packs = readdirSync(join(directory, 'packs')).map((name) => join(directory, 'packs', name));
  const refused = async (expected: RegExp) => {
    const { code, detail } = await rpc(cellar, 'admin.restore', { snapshot: key, app: id });
    assert.equal(code, 'snapshot_unusable');
    assert.match(detail!, expected);
    assert.deepEqual(await readData(cellar, 'safe'), expectedData(1, 2));
    const empty = join(cellar.directory, 'empty');
    mkdirSync(empty);
    const whole = restore(key, empty, { RUNNER_SNAPSHOT_URL: directory });
    assert.equal(whole.status, 1);
    assert.deepEqual(readdirSync(empty), []);
    rmSync(empty, { recursive: true });
  };
  const changed = async (path: string, change: (bytes: Buffer) => Buffer, expected: RegExp) => {
    const bytes = readFileSync(path);
    writeFileSync(path, change(Buffer.from(bytes)));
    await refused(expected);
    writeFileSync(path, bytes);
  };
  const flip = (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; at += 4096) bytes[at]! ^= 1;
    return bytes;
  };
  for (const pack of packs) await changed(pack, flip, /is damaged/);
  for (const pack of packs) await changed(pack, (bytes) => bytes.subarray(0, bytes.length / 2), /is damaged/);
  await changed(manifest, (bytes) => bytes.subarray(0, bytes.length - 9), /checksum is wrong/);
  const head = (change: (head: Record<string, unknown>) => void) => (bytes: Buffer) => {
    const end = bytes.indexOf('\n');
    const said = JSON.parse(bytes.toString('utf8', 0, end));
    change(said);
    return Buffer.concat([Buffer.from(JSON.stringify(said)), bytes.subarray(end)]);
  };
  const newer = head((said) => {
    said.format = 2;
    delete said.checksum;
  });
  await changed(manifest, newer, /written by a newer Cellar \(format 2/);
  await changed(
    manifest,
    head((said) => (said.bytes = 5)),
    /checksum is wrong/,
  );
  renameSync(packs[0]!, `${packs[0]!}-aside`);
  await refused(/is missing/);
  renameSync(`${packs[0]!}-aside`, packs[0]!);
});

test('the API and the figures name an unusable snapshot store and the reason', async () => {
  const aside = `${directory}-aside`;
  renameSync(directory, aside);
  writeFileSync(directory, '');
  for (const method of ['admin.snapshot', 'snapshots.list', 'snapshots.verify']) {
    const { code, detail } = await rpc(cellar, method, {});
    assert.equal(code, 'snapshot_failed', method);
    assert.match(detail!, /^ENOTDIR: .*\/snapshots\//, method);
  }
  const { problem } = (await cellar.call('GET', '/v1/admin/stats')).body.host.snapshots;
  assert.match(problem, /ENOTDIR: .*\/snapshots\//);
  rmSync(directory);
  renameSync(aside, directory);
  await snapshot(cellar);
});

test('a snapshot of another Cellar is refused, and its store is not changed', async () => {
  const { key } = await snapshot(cellar);
  await using other = await new Cellar({
    RUNNER_SNAPSHOT_URL: directory,
    RUNNER_SNAPSHOT_EVERY_H: '0',
  }).start();
  const mine = await other.create('mine');
  const refused = await other.call('POST', '/v1/admin/snapshot');
  assert.deepEqual([refused.status, refused.body.code], [422, 'snapshot_unusable']);
  assert.match(refused.body.detail, /snapshots of another Cellar/);
  const restored = await rpc(other, 'admin.restore', { snapshot: key, app: mine });
  assert.equal(restored.code, 'snapshot_unusable');
  assert.match(restored.detail!, /of another Cellar/);
});

test('a whole Cellar is restored only into an empty directory', async () => {
  const settings = { RUNNER_SNAPSHOT_URL: directory };
  const { key } = await snapshot(cellar);
  const inUse = restore(key, cellar.data, settings);
  assert.match(inUse.stderr, /belongs to another Cellar/);
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

test('a host that is killed during a snapshot keeps the earlier ones, and takes the next', async () => {
  const had = await readData(cellar, 'safe');
  const { key } = await snapshot(cellar);
  const mark = join(directory, 'unfinished', 'mark');
  await storeData(cellar, 'safe', 3);
  const cut = snapshot(cellar).catch(() => null);
  await eventually(() => existsSync(mark), 'the snapshot has begun');
  const taking = descendants(cellar.pid).map(({ pid }) => pid);
  await cellar.stop('SIGKILL');
  await cut;
  await eventually(() => !processes().some(({ pid }) => taking.includes(pid)), 'its processes have gone');
  await cellar.start();
  const { items } = (await rpc(cellar, 'snapshots.list', {})) as unknown as { items: { key: string }[] };
  assert.ok(items.some((item) => item.key === key));
  await snapshot(cellar);
  await rpc(cellar, 'admin.restore', { snapshot: key, app: id });
  assert.deepEqual(await readData(cellar, 'safe'), had);
});

test('snapshots are stored in S3, and restored from there', async () => {
  await using store = await startS3();
  const settings = { ...store.settings, RUNNER_SNAPSHOT_EVERY_H: '0' };
  await using before = await new Cellar(settings).start();
  const id = await before.deploy('far', 'hello', STORAGE_APP);
  await storeData(before, 'far', 1);
  const { key } = await snapshot(before);
  await storeData(before, 'far', 2);
  await snapshot(before);
  const names = await store.names();
  assert.ok(names.every((name) => name.startsWith('of/cellar/')));
  assert.ok(names.includes(`of/cellar/snapshots/${key}`));
  await rpc(before, 'admin.restore', { snapshot: key, app: id });
  assert.deepEqual(await readData(before, 'far'), expectedData(1));
  assert.ok(!before.output.includes(settings.RUNNER_SNAPSHOT_SECRET_KEY));
  await before.stop();

  await using after = new Cellar(settings);
  const wrong = restore('latest', after.data, { ...settings, RUNNER_SNAPSHOT_SECRET_KEY: 'another' });
  assert.match(wrong.stderr, /GET http:\/\/\S+\/snapshots: answered 403: SignatureDoesNotMatch/);
  // The newest snapshot is the one that the restore took before it changed anything.
  assert.equal(restore('latest', after.data, settings).status, 0);
  await after.start();
  assert.deepEqual(await readData(after, 'far'), expectedData(1, 2));
});

test('old snapshots are deleted with their unshared packs, and files of interrupted snapshots are removed', async () => {
  const id = await cellar.deploy('kept', 'hello', STORAGE_APP);
  const packs = () => readdirSync(join(directory, 'packs'));
  const keys: string[] = [];
  for (const n of [1, 2, 3, 4]) {
    await storeData(cellar, 'kept', n);
    keys.push((await snapshot(cellar)).key);
  }
  await eventually(
    () => isDeepStrictEqual(readdirSync(join(directory, 'snapshots')), keys.slice(-KEPT)),
    'older snapshots go',
  );
  const { body } = await cellar.call('GET', '/v1/admin/stats');
  assert.equal(body.host.snapshots.problem, null);

  // Leaves files as a host does that is killed during a snapshot.
  await cellar.stop('SIGKILL');
  const orphan = 'a'.repeat(64);
  writeFileSync(join(directory, 'packs', orphan), 'half');
  mkdirSync(join(directory, 'unfinished'), { recursive: true });
  writeFileSync(join(directory, 'unfinished', 'mark'), '');
  await cellar.start();
  await storeData(cellar, 'kept', 5);
  await snapshot(cellar);
  await eventually(
    () =>
      !packs().includes(orphan) &&
      readdirSync(join(directory, 'unfinished')).length === 0 &&
      !readdirSync(cellar.data).some((name) => /snapshotting|restoring/.test(name)),
    'what was cut is swept',
  );
  await rpc(cellar, 'admin.restore', { snapshot: keys[3]!, app: id });
  assert.deepEqual(await readData(cellar, 'kept'), expectedData(1, 2, 3, 4));
});
