// Which copies of code are removed when the disk has too many.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import type { DeployFact, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { AppCode } from '../../../runtime/bucket/code/app-code.ts';
import { CodeCache } from '../../../runtime/bucket/code/code-cache.ts';
import { closeTransfers } from '../../../runtime/bucket/code/code-folder.ts';
import { layout } from '../../../runtime/disk/data-directory.ts';
import { runGit } from '../../../runtime/git/git.ts';
import { ClosableGate } from '../../../runtime/queues/closable-gate.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

after(closeTransfers);

const MB = 2 ** 20;

/** Makes a host with apps in the bucket. No process runs: plain objects stand for the apps and their fleets. */
function start(t: TestContext, bucket: MemoryStore) {
  const paths = layout(join(temporaryDirectory(t), 'data'));
  mkdirSync(paths.builds);
  const store = openHostStore(paths.database);
  t.after(() => store.close());
  const made = new Map<string, ReturnType<typeof makeApp>>();
  const codeOf = (appId: string) =>
    new AppCode({
      ...{
        place: bucket.place('of/cellar/'),
        appId,
        owner: () => appId,
        paths,
        isDeleted: () => false,
        floorMb: 0,
      },
      ready: async () => new AbortController().signal,
    });
  const makeApp = (id: string, live: string) => ({
    wanted: { id, slug: id },
    code: codeOf(id),
    liveDeployId: live,
    fleet: { isAtRest: true, liveDeployId: live, lastRequestAt: null as number | null },
    changes: new ClosableGate('it is moved'),
  });
  /** Adds an app with releases of 1 MiB, the last of which is live. No release has been used since the host's start. */
  const add = async (id: string, releases: string[]) => {
    store.apps.want({ id, slug: id, generation: 1, desired_state: 'running' } as unknown as WantedApp);
    const app = makeApp(id, releases.at(-1)!);
    made.set(id, app);
    for (const deployId of releases) {
      mkdirSync(paths.release(id, deployId), { recursive: true });
      writeFileSync(join(paths.release(id, deployId), 'release.json'), randomBytes(MB));
      await app.code.releases.store(deployId);
      save(id, { id: deployId, status: 'replaced', can_roll_back: true });
    }
    return app;
  };
  const save = (app_id: string, fact: Partial<DeployFact>) =>
    store.deploys.save({
      ...{ app_id, sha: '', ref: 'refs/heads/main', trigger: 'push', created_at: new Date().toISOString() },
      ...{
        started_at: null,
        finished_at: null,
        error: null,
        steps: [],
        warnings: [],
        message: '',
        author: '',
      },
      ...fact,
    } as unknown as DeployFact);
  const apps = {
    memories: () => [...made.values()].map(({ wanted }) => ({ ...wanted, memory_bytes: null })),
    get: (id: string) => made.get(id),
    originOf: (id: string) => id,
  };
  const cache = (maxMb: number) =>
    new CodeCache({ store, paths, apps, bucket: { code: codeOf }, maxMb } as unknown as ConstructorParameters<
      typeof CodeCache
    >[0]);
  const has = (id: string, ...releases: string[]) =>
    releases.filter((deployId) => existsSync(paths.release(id, deployId)));
  const leave = (id: string) => made.delete(id);
  return { paths, add, leave, save, cache, has };
}

test('what was not used for the longest time goes first, until the rest is within the limit', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, cache, has } = start(t, bucket);
  await add('a', ['a1', 'a2', 'a3']);
  const visited = await add('b', ['b1', 'b2']);
  visited.fleet.lastRequestAt = Date.now() + 60_000;
  const large = cache(100);
  assert.equal(large.bytes, null);
  await large.trim();
  assert.equal(has('a', 'a1', 'a2', 'a3').length, 3);
  assert.ok(large.bytes! > 5 * MB && large.bytes! < 6 * MB, String(large.bytes));
  const small = cache(3);
  await small.trim();
  assert.deepEqual([has('a', 'a1', 'a2', 'a3'), has('b', 'b1', 'b2')], [[], ['b1', 'b2']]);
  assert.ok(small.bytes! < 3 * MB, String(small.bytes));
  await cache(1.5).trim();
  assert.deepEqual(has('b', 'b1', 'b2'), ['b2']);
});

test('what a process runs stays, and what was asked for lately, is deployed or moved', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, save, cache, has } = start(t, bucket);
  const awake = await add('awake', ['w1', 'w2']);
  awake.fleet.isAtRest = false;
  const asked = await add('asked', ['q1', 'q2']);
  await asked.code.releases.load('q1');
  await add('deployed', ['d1']);
  save('deployed', { id: 'd2', status: 'building' });
  const moved = await add('moved', ['m1']);
  const moving = Promise.withResolvers<void>();
  const closed = moved.changes.closed(() => moving.promise);
  await cache(0).trim();
  assert.deepEqual(has('awake', 'w1', 'w2'), ['w2']);
  assert.deepEqual(has('asked', 'q1', 'q2'), ['q1']);
  assert.deepEqual([has('deployed', 'd1'), has('moved', 'm1')], [['d1'], ['m1']]);
  moving.resolve();
  await closed;
  awake.fleet.isAtRest = true;
  await cache(0).trim();
  assert.deepEqual([has('awake', 'w2'), has('moved', 'm1')], [[], []]);
});

test('a short disk gets room at once, but no more than it needs, and a bucket that is away ends the round', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, cache, has } = start(t, bucket);
  await add('a', ['a1', 'a2', 'a3']);
  let looks = 0;
  await cache(100).makeRoom(async () => ++looks > 2);
  assert.equal(has('a', 'a1', 'a2', 'a3').length, 1);
  bucket.faults = { isBusy: true };
  await cache(100).makeRoom(async () => false);
  assert.equal(has('a', 'a1', 'a2', 'a3').length, 1);
});

test('code of an app that has left for another host goes too, once the bucket has it', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, leave, cache, has } = start(t, bucket);
  await add('gone', ['g1', 'g2']);
  leave('gone');
  bucket.objects.delete('of/cellar/apps/gone/releases/g1.tar.gz');
  await cache(0).trim();
  assert.deepEqual(has('gone', 'g1', 'g2'), ['g1']);
});

/** Commits to an app's repository, in the bucket and on the disk. @returns the commit, which `ref` then names */
async function push({ code }: { code: AppCode }, path: string, ref: string): Promise<string> {
  const sha = await code.repository.during(async () => {
    const commit = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', 'commit-tree', '-m', ref];
    const tree = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
    await runGit(path, ['hash-object', '-t', 'tree', '-w', '--stdin'], { input: '' });
    const { output } = await runGit(path, [...commit, tree]);
    const made = output.toString('latin1').trim();
    await code.repository.store([{ ref, before: '0'.repeat(40), after: made }]);
    await runGit(path, ['update-ref', ref, made]);
    return made;
  });
  await code.repository.reading(async () => {});
  return sha;
}

test('a repository stays until main is deployed', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, save, paths, cache } = start(t, bucket);
  const sha = await push(await add('a', ['a1']), paths.repository('a'), 'refs/heads/main');
  await cache(0).trim();
  assert.ok(existsSync(paths.repository('a')));
  save('a', { id: 'a2', sha, status: 'failed', error: 'it does not build' });
  await cache(0).trim();
  assert.ok(!existsSync(paths.repository('a')));
});

test('a repository of an app that deploys tags stays until the highest tag is deployed', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, save, paths, cache } = start(t, bucket);
  const app = await add('a', ['a1']);
  Object.assign(app.wanted, { deploy_on: 'tags' });
  const [first, second] = ['refs/tags/v1', 'refs/tags/v2'];
  const path = paths.repository('a');
  save('a', { id: 'a2', sha: await push(app, path, first!), ref: first, status: 'replaced' });
  const sha = await push(app, path, second!);
  await cache(0).trim();
  assert.ok(existsSync(path));
  save('a', { id: 'a3', sha, ref: second, status: 'failed', error: 'it does not build' });
  // A push to main is not deployed.
  await push(app, path, 'refs/heads/main');
  await cache(0).trim();
  assert.ok(!existsSync(path));
});

test('a repository whose tags were never deployed does not stay for an uploaded release', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, paths, cache } = start(t, bucket);
  const app = await add('a', ['a1']);
  Object.assign(app.wanted, { deploy_on: 'tags' });
  Object.assign(app, { liveDeployId: 'a1' });
  await push(app, paths.repository('a'), 'refs/tags/v1');
  await cache(0).trim();
  assert.ok(!existsSync(paths.repository('a')));
});

test('a repository of an app that deploys no pushes does not stay', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { add, paths, cache } = start(t, bucket);
  const app = await add('a', ['a1']);
  Object.assign(app.wanted, { deploy_on: 'manual' });
  await push(app, paths.repository('a'), 'refs/heads/main');
  await cache(0).trim();
  assert.ok(!existsSync(paths.repository('a')));
});
