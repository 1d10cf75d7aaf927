// The local copies of repositories and releases: they are removed only while nothing uses them.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { closeTransfers } from '../../../runtime/bucket/code/code-folder.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { openReleases } from '../../support/bucket/releases.ts';
import { bucketRemote, inBucket } from '../../support/bucket/repositories.ts';
import { gitIn } from '../../support/git/remote.ts';
import { eventually } from '../../support/processes.ts';

after(closeTransfers);

const PACKS = 'of/cellar/apps/app1/repository/packs/';
const ALWAYS = () => true;

/** Serves a repository with a pushed commit. */
async function pushed(t: TestContext, store: MemoryStore) {
  const host = await bucketRemote(t, store);
  const trash = join(host.directory, 'trash');
  const push = async (name: string) => {
    writeFileSync(join(host.work, name), `content of ${name}`);
    await host.git('add', '.');
    await host.git('commit', '--quiet', `--message=${name}`);
    const { code, printed } = await host.git('push', host.url, 'HEAD:main');
    assert.equal(code, 0, printed);
    const marker = join(host.repository, 'cellar-bucket.json');
    const noted = async () => JSON.parse(await readFile(marker, 'utf8').catch(() => '{}')).etag;
    await eventually(async () => (await noted()) === inBucket(store).etag, 'the push has ended');
  };
  await push('a');
  return { host, push, evict: (mayGo: () => boolean = ALWAYS) => host.stored.evict(trash, mayGo), trash };
}

test('a removed repository can be cloned and pushed to', async (t) => {
  await using store = await new MemoryStore().start();
  const { host, push, evict, trash } = await pushed(t, store);
  assert.equal(await evict(), true);
  assert.ok(!existsSync(host.repository));
  assert.deepEqual(readdirSync(trash), []);
  assert.equal(await evict(), false, 'there is nothing to remove');
  await push('b');
  assert.equal(await evict(), true);
  const { code, printed } = await host.git('clone', '--quiet', host.url, join(host.directory, 'clone'));
  assert.equal(code, 0, printed);
  assert.deepEqual(readdirSync(join(host.directory, 'clone')).sort(), ['.git', 'a', 'b']);
  assert.equal((await gitIn(host.repository)('fsck', '--strict')).code, 0);
});

test('a repository that is read or changed stays, also when that begins meanwhile', async (t) => {
  await using store = await new MemoryStore().start();
  const { host, evict } = await pushed(t, store);
  const used = async () => {
    assert.equal(await evict(), false);
    assert.ok(existsSync(host.repository));
  };
  await host.stored.reading(used);
  await host.stored.during(used);
  const held = Promise.withResolvers<void>();
  store.faults = { holds: held.promise };
  const before = store.asked.length;
  const evicting = evict();
  await eventually(() => store.asked.length > before, 'the bucket is asked');
  const ended = Promise.withResolvers<void>();
  const reading = host.stored.reading(() => ended.promise);
  held.resolve();
  assert.equal(await evicting, false);
  assert.ok(existsSync(host.repository));
  ended.resolve();
  await reading;
  assert.equal(await evict(() => false), false);
  assert.equal(await evict(), true);
});

test('a repository that the bucket does not have whole stays', async (t) => {
  await using store = await new MemoryStore().start();
  const { host, evict } = await pushed(t, store);
  const [pack] = [...store.objects.keys()].filter((name) => name.startsWith(PACKS));
  const kept = store.objects.get(pack!)!;
  store.objects.delete(pack!);
  assert.equal(await evict(), false, 'a pack is missing');
  store.objects.set(pack!, kept);
  const local = gitIn(host.repository);
  assert.equal((await local('update-ref', 'refs/heads/side', 'main')).code, 0);
  assert.equal(await evict(), false, 'a ref is only on the disk');
  assert.equal((await local('update-ref', '-d', 'refs/heads/side')).code, 0);
  store.objects.clear();
  assert.equal(await evict(), false, 'the bucket has nothing');
  assert.ok(existsSync(host.repository));
});

test('a release stays until the bucket has it, and comes back when it is asked for', async (t) => {
  await using store = await new MemoryStore().start();
  const { open, place, directory, trash } = openReleases(t, store);
  const releases = open();
  place('d1');
  assert.equal(await releases.evict('d1', trash, ALWAYS), false, 'it is not stored yet');
  await releases.store('d1');
  assert.equal(await releases.evict('d1', trash, () => false), false);
  assert.ok(existsSync(directory('d1')));
  assert.equal(await releases.evict('d1', trash, ALWAYS), true);
  assert.ok(!existsSync(directory('d1')));
  assert.equal(releases.usedAt('d1'), 0);
  releases.useAll();
  assert.ok(Date.now() - releases.usedAt('d2') < 60_000);
  const loading = releases.load('d1');
  assert.equal(await releases.evict('d1', trash, ALWAYS), false, 'it is on its way');
  await loading;
  assert.ok(existsSync(join(directory('d1'), 'release.json')));
  assert.ok(Date.now() - releases.usedAt('d1') < 60_000);
});
