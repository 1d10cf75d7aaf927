// The repositories and releases of apps in the bucket, through a real host.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { createInBucket, deploys, log, loseCode, names, PREFIX, page } from '../support/e2e/bucket-apps.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { rpc, snapshot, snapshotDirectory } from '../support/e2e/snapshots.ts';
import { eventually } from '../support/processes.ts';

/** Shared by tests that need no other settings and leave the bucket reachable. */
const store = new MemoryStore();
let cellar: Cellar;
before(async () => {
  await store.start();
  cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
});
after(async () => {
  await cellar?.[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
});

/** Runs `npm run restore`, while this process serves the store. */
async function restored(key: string, { data }: Cellar, settings: Record<string, string>): Promise<void> {
  const env = { PATH: process.env.PATH ?? '', RUNNER_DATA_DIR: data, ...COMPILE_CACHE_ENV, ...settings };
  await promisify(execFile)(process.execPath, ['scripts/restore.ts', key], { env, timeout: 60_000 });
}

test('a push during an outage is refused with the reason, and afterwards all is as before', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await createInBucket(cellar, 'away');
  await cellar.deployAgain('away', 'hello', page('one'));
  const tip = await log(cellar, 'away');
  const work = await cellar.checkout('hello');
  store.cut();
  const pushed = await cellar.push(work, 'away', '--force');
  assert.notEqual(pushed.code, 0);
  assert.match(pushed.stderr, /^remote: .*bucket/m);
  // Without its bucket, workerd later ends the control plane. Then the gateway refuses the push.
  await eventually(async () => {
    const { code, stderr } = await cellar.push(work, 'away', '--force');
    assert.notEqual(code, 0);
    return /^remote: The bucket that has the data of the API does not answer\. Try again/m.test(stderr);
  }, 'the gateway refuses it with the reason');
  store.faults = {};
  const ready = async () => (await (await fetch(`${cellar.api}/ready`)).json()) as { warnings?: string[] };
  await eventually(async () => (await ready()).warnings === undefined, 'the bucket answers');
  await eventually(async () => (await cellar.get('away')).text === 'one', 'it serves again');
  await eventually(async () => (await log(cellar, 'away')) === tip, 'the branch is where it was');
  await cellar.deployAgain('away', 'hello', page('two'));
  assert.equal((await cellar.get('away')).text, 'two');
  assert.equal((await deploys(cellar, id)).length, 2);
});

test('releases of before are stored at the next start, also those that do not serve', async () => {
  const id = await createInBucket(cellar, 'before');
  for (const text of ['one', 'two']) await cellar.deployAgain('before', 'hello', page(text));
  await cellar.stop();
  const releases = names(store, id, 'releases').sort();
  assert.equal(releases.length, 2);
  for (const name of releases) store.objects.delete(`${PREFIX}apps/${id}/releases/${name}`);
  await cellar.start();
  await eventually(() => names(store, id, 'releases').length === 2, 'they are stored');
  assert.deepEqual(names(store, id, 'releases').sort(), releases);
});

test('a release that the bucket does not take is not live, and the one before serves', async () => {
  const id = await createInBucket(cellar, 'kept');
  await cellar.deployAgain('kept', 'hello', page('one'));
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), page('two')['index.js']);
  await cellar.commit(work, 'two');
  store.refuses = (key) => key.includes('/releases/');
  const { stderr } = await cellar.push(work, 'kept', '--force');
  store.refuses = () => false;
  assert.match(stderr, /deploy failed: the bucket did not take the release/);
  assert.equal((await cellar.get('kept')).text, 'one');
  const [failed] = await deploys(cellar, id);
  assert.equal(failed!.status, 'failed');
  assert.ok(!readdirSync(join(cellar.data, 'releases', id)).includes(failed!.id));
});

test('a push whose host was killed before git moved the branch is there, and is deployed', async () => {
  await createInBucket(cellar, 'killed');
  await cellar.deployAgain('killed', 'hello', page('one'));
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), page('two')['index.js']);
  await cellar.commit(work, 'two');
  const { stdout } = await cellar.git(work, 'rev-parse', 'HEAD');
  // The answer to the write of the refs comes only after the kill.
  store.faults = { hangsAfter: '/refs.json' };
  const pushed = cellar.push(work, 'killed', '--force');
  await eventually(() => store.hanging > 0, 'the bucket has the refs');
  await cellar.stop('SIGKILL');
  assert.notEqual((await pushed).code, 0);
  store.faults = {};
  await cellar.start();
  assert.equal(await log(cellar, 'killed'), stdout.trim());
  await eventually(async () => (await cellar.get('killed')).text === 'two', 'it is deployed');
});

test('after a machine is lost, another one has and deploys what was pushed since the snapshot', async () => {
  await using store = await new MemoryStore().start();
  const settings = bucketSettings(store.place(PREFIX));
  await using lost = await new Cellar(settings).start();
  await createInBucket(lost, 'moved');
  await lost.deployAgain('moved', 'hello', page('one'));
  const { key } = await snapshot(lost);
  await lost.deployAgain('moved', 'hello', page('two'));
  const tip = await log(lost, 'moved');
  await lost.stop('SIGKILL');
  await using next = new Cellar(settings);
  await restored(key, next, settings);
  await next.start();
  await eventually(async () => (await next.get('moved')).text === 'two', 'the newer push is deployed');
  assert.equal(await log(next, 'moved'), tip);
});

test('previews keep their releases in the bucket, and one that only the bucket has can be promoted', async () => {
  const id = await createInBucket(cellar, 'parent');
  await cellar.deployAgain('parent', 'hello', page('one'));
  await rpc(cellar, 'previews.set', { id, branches: true });
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), page('of the branch')['index.js']);
  await cellar.commit(work, 'of the branch');
  const { stderr } = await cellar.git(work, 'push', cellar.remote('parent'), 'HEAD:refs/heads/side');
  assert.match(stderr, /shows this push/);
  await cellar.stop();
  loseCode(cellar, 'repos', 'releases');
  await cellar.start();
  await rpc(cellar, 'previews.promote', { id, preview: 'side' });
  await eventually(async () => (await cellar.get('parent')).text === 'of the branch', 'it is promoted');
  assert.equal((await cellar.get('side--parent')).text, 'of the branch');
  const folders = () =>
    new Set([...store.objects.keys()].flatMap((name) => /\/apps\/(\w+)\//.exec(name)?.[1] ?? []));
  const before = folders().size;
  await rpcOf(cellar)('previews.delete', { id, preview: 'side' });
  await eventually(() => folders().size < before, 'the folder of the preview is removed');
});

test('a snapshot has code that only the bucket had, and a restore puts it into an empty bucket', async () => {
  await using store = await new MemoryStore().start();
  using snapshots = snapshotDirectory();
  const settings = (prefix: string) => ({
    ...bucketSettings(store.place(prefix)),
    RUNNER_SNAPSHOT_URL: snapshots.path,
  });
  await using cellar = await new Cellar(settings(PREFIX)).start();
  const id = await createInBucket(cellar, 'shot');
  await createInBucket(cellar, 'empty');
  await cellar.deployAgain('shot', 'hello', page('one'));
  const tip = await log(cellar, 'shot');
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).status, 200);
  await cellar.stop();
  loseCode(cellar, 'repos', 'releases');
  await cellar.start();
  const { key } = await snapshot(cellar);
  assert.ok(!existsSync(join(cellar.data, 'repos', `${id}.git`)), 'nothing is downloaded for it');
  await cellar.stop();
  const restoredSettings = settings('of/another/');
  await using next = new Cellar(restoredSettings);
  store.refuses = (name) => name.endsWith('.pack');
  await assert.rejects(restored(key, next, restoredSettings), /the bucket did not take the code of apps/);
  store.refuses = () => false;
  await restored(key, next, restoredSettings);
  assert.ok(!existsSync(join(next.data, 'code')));
  await next.start();
  assert.equal((await next.get('shot')).text, 'one');
  assert.equal(await log(next, 'shot'), tip);
  assert.equal(await log(next, 'empty'), '');
});

test('copies of code over the limit are removed, and come back with a request, a clone, a push or a rollback', async () => {
  await using store = await new MemoryStore().start();
  const settings = { ...bucketSettings(store.place(PREFIX)), RUNNER_BUCKET_CACHE_MB: '0' };
  await using cellar = await new Cellar(settings).start();
  const ids: Record<string, string> = {};
  for (const slug of ['asleep', 'awake']) {
    ids[slug] = await createInBucket(cellar, slug);
    for (const text of ['one', 'two']) await cellar.deployAgain(slug, 'hello', page(text));
  }
  const tip = await log(cellar, 'asleep');
  const onDisk = (slug: string) => {
    const path = join(cellar.data, 'releases', ids[slug]!);
    return readdirSync(path).toSorted();
  };
  const [asleep, awake] = [await deploys(cellar, ids.asleep!), await deploys(cellar, ids.awake!)];
  assert.equal((await cellar.call('POST', `/v1/apps/${ids.asleep}/sleep`)).status, 200);
  await cellar.stop('SIGKILL');
  await cellar.start();
  await eventually(() => onDisk('asleep').length === 0 && onDisk('awake').length === 1, 'they are removed');
  assert.deepEqual(onDisk('awake'), [awake[0]!.id], 'what runs stays');
  await eventually(() => readdirSync(join(cellar.data, 'repos')).length === 0, 'so are the repositories');
  const { host } = (await cellar.call('GET', '/v1/admin/stats')).body;
  assert.equal(typeof host.bucket.code_bytes, 'number');

  assert.equal((await cellar.get('awake')).text, 'two');
  assert.equal((await cellar.get('asleep')).text, 'two');
  assert.deepEqual(onDisk('asleep'), [asleep[0]!.id]);
  const clone = join(cellar.directory, 'clone');
  const { code, stderr } = await cellar.git(cellar.directory, 'clone', cellar.remote('asleep'), clone);
  assert.equal(code, 0, stderr);
  assert.equal((await cellar.git(clone, 'rev-parse', 'HEAD')).stdout.trim(), tip);
  writeFileSync(join(clone, 'index.js'), page('three')['index.js']);
  await cellar.commit(clone, 'three');
  const pushed = await cellar.push(clone, 'asleep');
  assert.match(pushed.stderr, /serves this push/);
  assert.equal((await cellar.get('asleep')).text, 'three');
  const back = await cellar.call('POST', `/v1/apps/${ids.asleep}/rollback`, { deploy_id: asleep[1]!.id });
  assert.equal(back.status, 202, JSON.stringify(back.body));
  await eventually(async () => (await cellar.get('asleep')).text === 'one', 'the earlier release serves');
});

test('a deleted app leaves no code', async () => {
  const id = await createInBucket(cellar, 'deleted');
  await cellar.deployAgain('deleted', 'hello', page('one'));
  const deleted = await cellar.call('DELETE', `/v1/apps/${id}`);
  assert.equal(deleted.status, 204);
  const other = await createInBucket(cellar, 'deleted');
  assert.equal(await log(cellar, 'deleted'), '');
  assert.deepEqual(names(store, other, 'repository'), []);
});
