// The deploy queue alone, with real stores, repositories and builds, and without the rest of a host.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, type TestContext, test } from 'node:test';
import type { DeployFact, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { newId } from '../../../handlers/contract/id.ts';
import { DEPLOYS_LIMIT } from '../../../handlers/contract/sizes.ts';
import { Apps } from '../../../runtime/apps/apps.ts';
import { OutwardServices } from '../../../runtime/apps/outward-services.ts';
import { Secrets } from '../../../runtime/apps/secrets.ts';
import { type Deploy, isInterrupted } from '../../../runtime/builds/deploy/deploy.ts';
import { MissedDeploys } from '../../../runtime/builds/queue/missed-pushes.ts';
import { DeployQueue } from '../../../runtime/builds/queue/queue.ts';
import { DeployRequests } from '../../../runtime/builds/queue/requests.ts';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import { removeOldReleases } from '../../../runtime/builds/release/old-releases.ts';
import { Outbox } from '../../../runtime/control/outbox.ts';
import { pushes } from '../../../runtime/control/pushes.ts';
import { claim, keptSecret, layout } from '../../../runtime/disk/data-directory.ts';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../../runtime/fleets/admission/slots.ts';
import { WakeFigures } from '../../../runtime/fleets/admission/wake-figures.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { BranchChanges } from '../../../runtime/git/branch-changes.ts';
import { DEPLOY_REF } from '../../../runtime/git/repository.ts';
import { Isolation } from '../../../runtime/isolation/isolation.ts';
import { Previews } from '../../../runtime/previews/previews.ts';
import { Splits } from '../../../runtime/previews/splits.ts';
import { Buckets } from '../../../runtime/storage/r2/buckets.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import type { PreviewRow } from '../../../sqlite/host/previews.ts';
import { commit } from '../../support/builds/projects.ts';
import { workerd } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = 'a'.repeat(16);

after(closeBundler);

/**
 * Makes a deploy queue with one app for each owner. Each app's repository has one commit, with these files. `push`
 * pushes it to the first app.
 */
async function makeQueue(
  t: TestContext,
  files: Record<string, string>,
  owners: string[] = ['ada'],
  snapshot: () => Promise<string> = () => Promise.reject(new Error('nobody takes snapshots here')),
) {
  const directory = temporaryDirectory(t);
  const paths = layout(`${directory}/data`);
  const release = claim(paths);
  const store = openHostStore(paths.database);
  const secrets = new Secrets(store, keptSecret(paths.secretsKey));
  const shared = {
    store,
    paths,
    secrets,
    users: () => ({ build: null, cell: null }),
    onFacts: () => {},
    say: () => {},
    snapshot,
  };
  const apps = new Apps({
    bucket: null,
    onUsage: () => {},
    onNamed: () => {},
    onDeleted: () => {},
    onRestored: () => {},
    ...shared,
    workerd,
    uiUrl: () => null,
    onFailure: () => {},
    baseDomain: 'localhost',
    idleMs: 0,
    slots: new Slots(4, 10_000),
    memoryMb: 512,
    cacheMb: 0,
    memory: new MemoryGauge(0, 512),
    buckets: new Buckets({ ...shared, service: { maxMb: 0, floorMb: 0 } }),
    services: () => ({ hasOutbound: false, socket: '/dev/null/none', open: async () => {} }),
    egress: [],
    outward: new OutwardServices({ ...shared, ai: null, mail: null }),
    wakes: new WakeFigures(),
    output: () => lineSink(() => {}),
  });
  const { repository, sha } = commit(directory, files);
  const ids = owners.map((_, n) => String.fromCharCode(97 + n).repeat(16));
  for (const [n, id] of ids.entries()) {
    cpSync(repository, paths.repository(id), { recursive: true });
    await apps.apply({
      id,
      slug: `app-${n}`,
      owner: owners[n]!,
      generation: n + 1,
      desired_state: 'running',
      hostnames: [],
      limits: { clientRpm: null, appRpm: null },
      env: { GATE: `${directory}/gate` },
    });
  }
  const limits = { stepTimeoutMs: 600_000, worktreeMb: 500, cacheMb: 512, floorMb: 256, memoryMb: 2048 };
  const queue = new DeployQueue({
    ...{ ...shared, apps, limits, isolation: new Isolation('cellar-unused') },
    urlOf: () => null,
    copyIntoPreview: async () => {},
    certificateOf: () => () => assert.fail('no certificate was asked for'),
    cpuMaxS: 300,
    hasContainers: false,
  });
  const requests = new DeployRequests(queue, { store, paths, apps });
  t.after(async () => {
    await queue.close();
    await apps.close();
    store.close();
    release();
  });
  const pushTo = (appId: string, commit = sha) =>
    requests.commit({ appId, sha: commit, ref: DEPLOY_REF, trigger: 'push' });
  return { directory, paths, store, queue, requests, apps, ids, sha, pushTo, push: () => pushTo(APP) };
}

/** Waits for the end of a deploy and returns it. */
async function ended(deploy: Deploy): Promise<Readonly<DeployFact>> {
  const output = new PassThrough();
  deploy.follow(output, async () => '');
  output.resume();
  await once(output, 'end', { signal: AbortSignal.timeout(60_000) });
  return deploy.fact;
}

const WORKER = 'export default { fetch() { return new Response("ok") } }';

test('pushes enter the queue in order of arrival, before their content is read', async (t) => {
  const { store, push, sha } = await makeQueue(t, { 'index.js': WORKER });
  const asked = [push(), push(), push()];
  const rows = store.deploys.newest(APP, 10).reverse();
  assert.deepEqual(
    rows.map(({ status }) => status),
    ['building', 'superseded', 'queued'],
  );
  const deploys = await Promise.all(asked);
  assert.deepEqual(
    deploys.map(({ fact }) => fact.id),
    rows.map(({ id }) => id),
  );
  const facts = await Promise.all(deploys.map(ended));
  assert.deepEqual(
    facts.map(({ status }) => status),
    ['live', 'superseded', 'live'],
  );
  for (const { id } of facts) {
    const { message, author, ...row } = store.deploys.find(APP, id)!;
    assert.deepEqual([row.sha, message, author], [sha, 'A commit', 'Ada <ada@example.com>']);
  }
});

test('a deploy wakes its sleeping app first, and the app cannot be put to sleep meanwhile', async (t) => {
  const { apps, push, store } = await makeQueue(t, { 'index.js': WORKER });
  await assert.rejects(apps.sleep(APP), /Nothing has been deployed yet/);
  assert.equal((await ended(await push())).status, 'live');
  const { asleep_since } = await apps.sleep(APP);
  assert.ok(asleep_since !== null);
  const deploy = await push();
  await assert.rejects(apps.sleep(APP), /A deploy is under way/);
  assert.equal((await ended(deploy)).status, 'live');
  const app = apps.observe(APP)!;
  assert.equal(app.asleep_since, null);
  assert.ok(
    app.woke_at! > asleep_since && app.woke_at! <= store.deploys.find(APP, deploy.fact.id)!.started_at!,
  );
});

test('a closed queue interrupts running and waiting deploys and accepts no more', async (t) => {
  const files = { 'index.js': WORKER, 'package.json': '{"scripts": {"build": "echo begun; sleep 1000"}}' };
  const { store, queue, push } = await makeQueue(t, files);
  const building = await push();
  const waiting = await push();
  const output = new PassThrough();
  building.follow(output, async () => '');
  for await (const text of output) if (/^begun$/m.test(String(text))) break;
  await queue.close();
  for (const { fact } of [building, waiting]) {
    const { status, error, finished_at } = store.deploys.find(APP, fact.id)!;
    assert.equal(status, 'failed');
    assert.match(error!, /^interrupted: the host was stopped/);
    assert.ok(finished_at);
  }
  assert.deepEqual(store.deploys.unfinished(), []);
  await assert.rejects(push(), /Cellar is stopping/);
});

test('a deploy whose build fails ends before its many files are removed', async (t) => {
  const files = { 'index.js': WORKER, 'package.json': '{"scripts": {"build": "exit 1"}}' };
  const { store, paths, push } = await makeQueue(t, files);
  const deploy = await push();
  const output = new PassThrough();
  // `follow` calls this function when the deploy has ended.
  deploy.follow(output, async () => String(existsSync(join(paths.build(APP), 'project', 'index.js'))));
  assert.match(await text(output), /`npm run build` failed with exit code 1\n.*true/s);
  assert.equal(store.deploys.find(APP, deploy.fact.id)!.status, 'failed');
  await eventually(() => !existsSync(paths.build(APP)), 'the files are removed');
});

test('a user can cancel a waiting or building deploy, and the next one starts', async (t) => {
  const build = 'echo begun; while [ -e "$GATE" ]; do sleep 0.05; done';
  const files = { 'index.js': WORKER, 'package.json': JSON.stringify({ scripts: { build } }) };
  const { directory, store, queue, push } = await makeQueue(t, files);
  writeFileSync(`${directory}/gate`, '');
  const building = await push();
  const output = new PassThrough();
  building.follow(output, async () => '');
  for await (const text of output) if (/^begun$/m.test(String(text))) break;
  const waiting = await push();
  const byAda = async ({ fact }: Deploy) => {
    const cancelling = queue.cancel(APP, fact.id, 'Ada');
    if (fact.status === 'building')
      await assert.rejects(queue.cancel(APP, fact.id, 'Ada'), /is already being cancelled$/);
    const { status, error, finished_at } = await cancelling;
    assert.deepEqual([status, error], ['cancelled', 'cancelled by Ada']);
    assert.ok(finished_at);
    assert.equal(store.deploys.find(APP, fact.id)!.status, 'cancelled');
    assert.match(store.deploys.log(APP, fact.id)!, /^deploy cancelled by Ada$/m);
    await assert.rejects(queue.cancel(APP, fact.id, 'Ada'), { code: 'transition_conflict' });
  };
  await byAda(waiting);
  await byAda(building);
  rmSync(`${directory}/gate`);
  const last = await ended(await push());
  assert.equal(last.status, 'live');
  await assert.rejects(queue.cancel(APP, last.id, 'Ada'), { code: 'transition_conflict' });
  await assert.rejects(queue.cancel(APP, 'z'.repeat(16), 'Ada'), { code: 'deploy_not_found' });
});

test('redeploys of the tip of main and of an earlier commit do not change the last pushed commit', async (t) => {
  const { store, requests, push, sha } = await makeQueue(t, { 'index.js': WORKER });
  const first = await ended(await push());
  const tip = await ended(await requests.again(APP, null));
  const again = await ended(await requests.again(APP, first.id, 'Ada'));
  assert.deepEqual(
    [first, tip, again].map(({ requested_by }) => requested_by),
    [undefined, undefined, 'Ada'],
  );
  for (const fact of [tip, again])
    assert.deepEqual([fact.status, fact.trigger, fact.sha], ['live', 'redeploy', sha]);
  assert.deepEqual(
    store.deploys.newest(APP, 5).map(({ id }) => id),
    [first.id],
  );
  await assert.rejects(requests.again(APP, 'z'.repeat(16)), { code: 'deploy_not_found' });
});

test('a redeploy of the live release with other triggers counts neither as a push nor as a rollback', async (t) => {
  const { store, requests, push } = await makeQueue(t, {
    'index.js': 'export default { fetch() { return new Response("ok") }, scheduled() {} }',
  });
  const first = await ended(await push());
  const changed = await ended(
    requests.retrigger(APP, { crons: ['30 4 * * *'] }, { message: 'crons', author: 'Ada' }),
  );
  assert.deepEqual([changed.error, changed.trigger, changed.sha], [null, 'upload', '']);
  assert.deepEqual(
    store.deploys.newest(APP, 5).map(({ id }) => id),
    [first.id],
  );
  assert.equal(store.deploys.last(APP, 1)[0]!.releaseOf, null);
  await assert.rejects(requests.again(APP, changed.id), /was uploaded, so there is no commit/);
});

test('a rollback to a release that is being removed is refused', async (t) => {
  const { store, requests, push } = await makeQueue(t, { 'index.js': WORKER });
  const first = await ended(await push());
  await ended(await push());
  // The state while a release is removed: the database knows it, and the files are still there.
  store.deploys.save({ ...store.deploys.find(APP, first.id)!, can_roll_back: false });
  assert.throws(() => requests.rollback(APP, first.id), { code: 'release_unavailable' });
});

test('a release is removed only after the store has synced that it cannot be rolled back to', async (t) => {
  const { store, paths, apps, queue, push } = await makeQueue(t, { 'index.html': 'hello' });
  const fact = await ended(await push());
  await queue.close();
  const old = { ...fact, id: newId(), status: 'failed' as const, can_roll_back: true };
  store.deploys.save(old);
  mkdirSync(paths.release(APP, old.id));
  const remove = () => removeOldReleases({ store, paths, apps, onFacts: () => {} }, APP, null);
  const sync = t.mock.method(store, 'synced', () => Promise.reject(new Error('EIO: i/o error')));
  await assert.rejects(remove(), /EIO/);
  assert.ok(existsSync(paths.release(APP, old.id)));
  sync.mock.restore();
  await remove();
  assert.equal(store.deploys.find(APP, old.id)!.can_roll_back, false);
  assert.ok(!existsSync(paths.release(APP, old.id)));
  assert.ok(existsSync(paths.release(APP, fact.id)));
});

test('an app that never served also keeps at most the limit of deploys and logs', async (t) => {
  const { store, paths, apps, queue, push } = await makeQueue(t, { 'README.md': 'nothing to deploy' });
  const fact = await ended(await push());
  assert.equal(fact.status, 'failed');
  await queue.close();
  for (let n = 0; n < DEPLOYS_LIMIT; n++) store.deploys.save({ ...fact, id: newId() });
  await removeOldReleases({ store, paths, apps, onFacts: () => {} }, APP, null);
  assert.equal(store.deploys.last(APP, 2 * DEPLOYS_LIMIT).length, DEPLOYS_LIMIT);
  assert.equal(store.deploys.find(APP, fact.id), undefined);
});

test('the last push counts as deployed after any number of uploads and rollbacks', async (t) => {
  const { store, paths, apps, requests, push } = await makeQueue(t, { 'index.html': 'hello' });
  const pushed = await ended(await push());
  assert.equal((await ended(requests.rollback(APP, pushed.id))).status, 'live');
  for (let n = 0; n < 2 * DEPLOYS_LIMIT; n++)
    store.deploys.save({
      ...pushed,
      id: newId(),
      trigger: n % 2 ? 'upload' : 'rollback',
      status: 'replaced',
    });
  await removeOldReleases({ store, paths, apps, onFacts: () => {} }, APP, null);
  const [last] = store.deploys.last(APP, 1);
  let looks = 0;
  const missed = new MissedDeploys({
    ...{ store, paths, apps, requests, everyMs: 10, hasRoom: () => true, changes: new BranchChanges() },
    paused: () => ++looks > 2,
  });
  missed.start();
  await eventually(() => looks > 2, 'it has looked twice');
  await missed.stop();
  assert.deepEqual(store.deploys.last(APP, 1), [last]);
});

test("long builds delay neither another account's build nor a rollback", async (t) => {
  const build = 'echo begun; while [ -e "$GATE" ]; do sleep 0.05; done';
  const files = { 'index.js': WORKER, 'package.json': JSON.stringify({ scripts: { build } }) };
  const owners = ['ada', 'ada', 'ada', 'grace', 'joan'];
  const { directory, store, requests, ids, push, pushTo } = await makeQueue(t, files, owners);
  const [, second, third, others, deployed] = ids as [string, string, string, string, string];
  const first = await ended(await pushTo(deployed));
  assert.equal(first.status, 'live');
  writeFileSync(`${directory}/gate`, '');
  const ours = [await push(), await pushTo(second), await pushTo(third)];
  const theirs = await pushTo(others);
  assert.deepEqual(
    [...ours, theirs].map(({ fact }) => fact.status),
    ['building', 'building', 'queued', 'building'],
  );
  const back = await ended(requests.rollback(deployed, first.id));
  assert.equal(back.status, 'live');
  assert.equal(store.deploys.find(third, ours[2]!.fact.id)!.status, 'queued');
  rmSync(`${directory}/gate`);
  for (const deploy of [...ours, theirs]) assert.equal((await ended(deploy)).status, 'live');
});

test("a deploy does not wait for the previous deploy's snapshot, and completes what that one left undone", async (t) => {
  const config = `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
[[migrations]]
tag = "v2"
deleted_classes = ["Counter"]
`;
  const asked = Promise.withResolvers<void>();
  let snapshots = 0;
  const snapshot = () => {
    asked.resolve();
    return ++snapshots === 1 ? new Promise<string>(() => {}) : Promise.resolve('KEY');
  };
  const files = { 'index.js': WORKER, 'wrangler.toml': config };
  const { directory, store, push } = await makeQueue(t, files, ['ada'], snapshot);
  assert.equal((await ended(await push())).status, 'live');
  const { deletedClasses } = store.apps.storageNames(APP) as { deletedClasses: object };
  const kept = `${layout(`${directory}/data`).data(APP)}/do/${Object.keys(deletedClasses)[0]}`;
  mkdirSync(kept, { recursive: true });
  const second = await ended(await push());
  await asked.promise;
  const third = await ended(await push());
  assert.deepEqual([second.status, third.status], ['live', 'live']);
  const said = /\(Counter\): snapshot KEY has it/;
  await eventually(() => said.test(store.deploys.log(APP, third.id)!), 'the data is moved');
  assert.match(
    store.deploys.log(APP, second.id)!,
    /could not be removed; the next deploy tries again: a newer deploy/,
  );
  const [queued] = /^▸ queued: .*$/m.exec(store.deploys.log(APP, third.id)!)!;
  assert.equal(queued, `▸ queued: until the files of deploy ${second.id} are removed`);
  assert.ok(!existsSync(kept));
});

test('a deleted app keeps no deploys', async (t) => {
  const { store, queue, apps, push } = await makeQueue(t, { 'index.js': WORKER });
  const { id } = await ended(await push());
  assert.ok(store.deploys.log(APP, id)!.length > 0);
  await apps.deletions.delete(APP, 9);
  await queue.forget(APP);
  assert.equal(store.deploys.find(APP, id), undefined);
});

/** Makes a deploy queue with one app. `push` takes the ref updates of a git push, also those for previews. */
async function makePushes(t: TestContext) {
  const made = await makeQueue(t, { 'index.html': 'hello' });
  const { store, apps, requests } = made;
  const previews = new Previews(made);
  const outbox = new Outbox(store, async () => {});
  return {
    ...made,
    previews,
    push: pushes({ store, apps, requests, previews, outbox, urlOf: (slug) => slug }),
  };
}

/** Turns on previews of branches, so that later pushes to other branches make previews. */
async function previewBranches(apps: Apps): Promise<void> {
  await apps.apply({ ...apps.get(APP)!.wanted, generation: 9, previews: { branches: true } } as WantedApp);
}

test('a push that cannot be recorded while its other branches are processed is refused, and the host keeps running', async (t) => {
  const { apps, previews, push, queue, sha } = await makePushes(t);
  const ref = 'refs/heads/topic';
  await previews.push(APP, ref, sha);
  await queue.close();
  const output = new PassThrough();
  const updates = [
    { before: sha, after: sha, ref: DEPLOY_REF },
    { before: sha, after: '0'.repeat(40), ref },
  ];
  push(APP, updates, output);
  assert.match(await text(output), /^main was not deployed: Cellar is stopping/);
  await eventually(() => apps.previews(APP).length === 0, 'the preview of the deleted branch goes');
});

test("a preview's address is published only after the preview is on disk", async (t) => {
  const { apps, push, sha, store } = await makePushes(t);
  await previewBranches(apps);
  const updates = [{ before: '0'.repeat(40), after: sha, ref: 'refs/heads/topic' }];
  const sync = t.mock.method(store, 'synced', () => Promise.reject(new Error('EIO: i/o error')));
  const refused = new PassThrough();
  push(APP, updates, refused);
  assert.equal(await text(refused), 'topic was not deployed: EIO: i/o error\n');
  sync.mock.restore();
  const output = new PassThrough();
  push(APP, updates, output);
  assert.match(await text(output), /\ntopic--app-0 shows this push\n$/);
});

test('a failed branch of a push is reported to the client, which then follows the deploy of main', async (t) => {
  const { apps, previews, push, sha } = await makePushes(t);
  await previewBranches(apps);
  const refs = [DEPLOY_REF, 'refs/heads/broken', 'refs/heads/topic'];
  const deploy = previews.push.bind(previews);
  t.mock.method(previews, 'push', async (...[appId, ref, at]: Parameters<typeof deploy>) => {
    if (ref === refs[1]) throw new Error('EIO: i/o error');
    return deploy(appId, ref, at);
  });
  const output = new PassThrough();
  push(
    APP,
    refs.map((ref) => ({ before: '0'.repeat(40), after: sha, ref })),
    output,
  );
  const said = await text(output);
  assert.match(said, /^broken was not deployed: EIO: i\/o error\n/);
  assert.match(said, /^▸ preview: topic--app-0, when it is built$/m);
  assert.match(said, /\napp-0 serves this push\n$/);
  assert.doesNotMatch(said, /This push was not deployed/);
});

test('a preview that gets a push while it expires is kept', async (t) => {
  const { apps, paths, queue, requests, sha, store } = await makeQueue(t, { 'index.html': 'hello' });
  const previews = new Previews({ store, paths, apps, requests, queue });
  await previews.push(APP, 'refs/heads/topic', sha);
  const [{ id, createdAt, expiresAt }] = apps.previews(APP) as [PreviewRow];
  await eventually(() => Date.now() > createdAt, 'a moment passes');
  const pushed = previews.push(APP, 'refs/heads/topic', sha);
  await previews.expire(expiresAt);
  await pushed;
  assert.deepEqual(
    apps.previews(APP).map((row) => row.id),
    [id],
  );
  const [renewed] = apps.previews(APP);
  await previews.expire(renewed!.expiresAt);
  assert.deepEqual(apps.previews(APP), []);
});

test('the check for missed deploys runs again after a failure', async (t) => {
  const { apps, paths, requests, store } = await makeQueue(t, { 'index.html': 'hello' });
  let looks = 0;
  const missed = new MissedDeploys({
    ...{ store, paths, apps, requests, everyMs: 10, hasRoom: () => true, changes: new BranchChanges() },
    paused: () => {
      if (++looks === 1) throw new Error('the disk cannot be read');
      return false;
    },
  });
  missed.start();
  await eventually(() => store.deploys.newest(APP, 1).length > 0, 'the commit of main is deployed');
  await missed.stop();
});

test('deploys of an app that leaves are ended as interrupted, running and waiting ones', async (t) => {
  const { queue, push, store } = await makeQueue(t, { 'index.js': WORKER });
  const deploys = [await push(), await push()];
  await queue.interrupt(APP);
  for (const { fact } of deploys) {
    const stored = store.deploys.find(APP, fact.id)!;
    assert.ok(isInterrupted(stored) || stored.status === 'superseded', stored.status);
  }
  assert.ok(isInterrupted(deploys[1]!.fact));
  assert.equal(queue.isRunning(APP), false);
});

test('deploys that another host could not end are interrupted, of the app that has arrived only', async (t) => {
  const { queue, store, ids } = await makeQueue(t, { 'index.js': WORKER }, ['ada', 'bob']);
  const save = (app_id: string) =>
    store.deploys.save({
      id: `of ${app_id}`,
      app_id,
      status: 'building',
      steps: [],
    } as unknown as DeployFact);
  for (const id of ids) save(id);
  queue.interruptUnfinishedOf(ids[0]!);
  assert.deepEqual(
    ids.map((id) => isInterrupted(store.deploys.find(id, `of ${id}`)!)),
    [true, false],
  );
});

test('missed pushes of tags are deployed, and no tag that is older than what serves', async (t) => {
  const { store, paths, apps, requests, push } = await makeQueue(t, { 'index.html': 'hello' });
  const git = (...words: string[]) =>
    execFileSync('git', ['-C', paths.repository(APP), ...words], { encoding: 'utf8' }).trim();
  const tag = (name: string) => {
    const who = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
    const sha = git(...who, 'commit-tree', 'main^{tree}', '-m', name);
    git('tag', name, sha);
    return { appId: APP, sha, ref: `refs/tags/${name}`, trigger: 'push' as const };
  };
  const look = async () => {
    let looks = 0;
    const missed = new MissedDeploys({
      ...{ store, paths, apps, requests, everyMs: 10, hasRoom: () => true, changes: new BranchChanges() },
      paused: () => ++looks > 2,
    });
    missed.start();
    await eventually(() => looks > 2, 'it has looked twice');
    await missed.stop();
    return store.deploys.newest(APP, 1)[0]!.ref;
  };
  const first = tag('v1');
  await ended(await push());
  await apps.apply({ ...apps.get(APP)!.wanted, generation: 9, deploy_on: 'tags' });
  assert.equal(await look(), DEPLOY_REF, 'a change of the setting deploys no earlier tag');
  const { id } = await ended(await requests.commit(first));
  assert.equal((await ended(await requests.again(APP, id))).ref, first.ref);
  tag('v2');
  assert.equal(await look(), 'refs/tags/v2');
  git('tag', '--delete', 'v2');
  assert.equal(await look(), 'refs/tags/v2', 'a deleted tag deploys no earlier one');
});

test('a split is refused beside another version than the caller checked, and while the app moves', async (t) => {
  const made = await makeQueue(t, { 'index.js': WORKER });
  const { apps, push } = made;
  const splits = new Splits({ ...made, previews: new Previews(made) });
  const one = await ended(await push());
  const two = await ended(await push());
  const set = (beside: string) =>
    splits.set(APP, { deployId: one.id }, { beside, share: 10, author: 'Ada', message: '' });
  await assert.rejects(set(one.id), { code: 'transition_conflict' });
  assert.deepEqual(apps.previews(APP), []);
  assert.equal((await set(two.id))!.status, 'live');
  assert.deepEqual(
    splits.get(APP)!.versions.map(({ id, percentage }) => [id, percentage]),
    [
      [two.id, 90],
      [one.id, 10],
    ],
  );
  await apps.get(APP)!.changes.closed(async () => {
    await assert.rejects(set(two.id), { code: 'host_unavailable' });
    await assert.rejects(splits.end(APP), { code: 'host_unavailable' });
  });
  await splits.end(APP);
  assert.equal(splits.get(APP), null);
});
