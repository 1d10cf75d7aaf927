// When connected repositories are fetched: at an interval, and again after failures.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { FetchFrom } from '../../runtime/builds/source/import.ts';
import { BranchChanges } from '../../runtime/git/branch-changes.ts';
import { Sources, type SourcesOptions } from '../../runtime/sources/sources.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { commit } from '../support/builds/projects.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SHOP = 'shop'.padEnd(16, '0');
const WAIT_MS = 20_000;
const MINUTE_MS = 60_000;
const SETTINGS = { url: 'https://git.invalid/ada/shop', branch: 'main', secret: null, token: null } as const;

/** Makes the sources of one app. `fetch` stands for git in the sandbox, and gets the commit of the branch main. */
function connections(
  t: TestContext,
  fetch: (sha: string, asked: FetchFrom) => Promise<{ sha: string; knownHosts: string[] }>,
) {
  const directory = temporaryDirectory(t);
  const store = openHostStore(join(directory, 'host.sqlite'));
  t.after(() => store.close());
  const wanted = { id: SHOP, slug: 'shop', generation: 1, env: {}, hostnames: [] } as unknown as WantedApp;
  store.apps.want(wanted);
  const { repository, sha } = commit(directory, { 'index.html': 'x' });
  const app = { wanted, changes: { during: <T>(work: () => T) => work() } };
  const sources = new Sources({
    store,
    paths: { repository: () => repository },
    apps: { get: () => app, ownerOf: () => 'ada', previews: () => [] },
    disk: { shortage: null },
    secrets: {
      seal: (_app: string, _name: string, text: string) => Buffer.from(text),
      open: (_app: string, _name: string, sealed: Buffer) => sealed.toString(),
    },
    changes: new BranchChanges(),
    imports: {
      inTurn: (_owner: string, _signal: AbortSignal, work: (turn: object) => Promise<unknown>) =>
        work({ fetch: (_repository: string, asked: FetchFrom) => fetch(sha, asked) }),
    },
    previews: { ofSource: () => null },
    requests: { commit: () => Promise.resolve({ fact: { id: 'deploy' } }) },
    urlOf: () => null,
  } as unknown as SourcesOptions);
  const next = () => {
    const at = sources.get(SHOP).next_fetch_at;
    return at === null ? null : Date.parse(at);
  };
  return { sources, next, repository };
}

/** Whether a time is less than 10 s before the expected one, and not after it. */
function isAbout(found: number | null, expectedMs: number): boolean {
  return found !== null && found <= expectedMs && found > expectedMs - 10_000;
}

test('a repository is looked at again after its interval, and not before', async (t) => {
  let fetches = 0;
  const { sources, next } = connections(t, async (sha) => {
    fetches++;
    return { sha, knownHosts: [] };
  });
  await sources.connect(SHOP, { ...SETTINGS, deploy_on: 'main', poll_minutes: 5 });
  sources.tick();
  await eventually(() => isAbout((next() ?? 0) - Date.now(), 5 * MINUTE_MS), 'the next look is set', WAIT_MS);
  assert.equal(fetches, 1);
  sources.tick(Date.now() + 4.5 * MINUTE_MS);
  assert.equal(fetches, 1);
  sources.tick(Date.now() + 5 * MINUTE_MS + 1);
  await eventually(() => fetches === 2, 'it is looked at again', WAIT_MS);
  await sources.stop();
});

test('a failed fetch is tried again soon, and then at the interval', async (t) => {
  const { sources, next } = connections(t, () => Promise.reject(new Error('away')));
  await sources.connect(SHOP, { ...SETTINGS, deploy_on: 'main', poll_minutes: 5 });
  let at = Date.now();
  for (const wait of [10_000, MINUTE_MS, 5 * MINUTE_MS, 5 * MINUTE_MS]) {
    sources.tick(at);
    await eventually(() => isAbout((next() ?? 0) - Date.now(), wait), `the next is in ${wait} ms`, WAIT_MS);
    assert.equal(sources.get(SHOP).last_fetch!.error, 'away');
    at = next()! + 1;
  }
  await sources.stop();
});

test('without an interval a failed fetch is given up at last, and a delivery starts anew', async (t) => {
  const { sources, next } = connections(t, () => Promise.reject(new Error('away')));
  await sources.connect(SHOP, { ...SETTINGS, deploy_on: 'main', poll_minutes: null });
  let at = Date.now();
  for (const wait of [10_000, MINUTE_MS, 10 * MINUTE_MS]) {
    sources.tick(at);
    await eventually(() => isAbout((next() ?? 0) - Date.now(), wait), `the next is in ${wait} ms`, WAIT_MS);
    at = next()! + 1;
  }
  sources.tick(at);
  await eventually(() => next() === null, 'it is given up', WAIT_MS);
  const push = { digest: 'd', delivery: '', event: 'push', ref: 'refs/heads/main', after: null, pull: null };
  assert.deepEqual(sources.delivered(SHOP, [push, push]), ['queued', 'repeated']);
  sources.tick();
  await eventually(() => isAbout((next() ?? 0) - Date.now(), 10_000), 'it is tried again soon', WAIT_MS);
  await sources.stop();
});

test('a commit that a delivery announces too early is fetched as soon as the Git host has it, or given up', async (t) => {
  let found: string | null = null;
  const { sources, next, repository } = connections(t, async (sha) => ({
    sha: found ?? sha,
    knownHosts: [],
  }));
  await sources.connect(SHOP, { ...SETTINGS, deploy_on: 'main', poll_minutes: null });
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  const words = ['-C', repository, ...identity, 'commit-tree', '-p', 'main', '-m', 'A push', 'main^{tree}'];
  const pushed = execFileSync('git', words, { encoding: 'utf8' }).trim();
  const deliver = (after: string) =>
    sources.delivered(SHOP, [
      { digest: after, delivery: '', event: 'push', ref: 'refs/heads/main', after, pull: null },
    ]);
  let at = Date.now() + 1000;
  const fetchAgain = async (wait: number | null) => {
    sources.tick(at);
    await eventually(
      () => (wait === null ? next() === null : isAbout((next() ?? 0) - Date.now(), wait)),
      `the next is in ${wait} ms`,
      WAIT_MS,
    );
    assert.equal(sources.get(SHOP).last_fetch!.error, null);
    at = (next() ?? Date.now()) + 1000;
  };
  deliver(pushed);
  await fetchAgain(10_000);
  await fetchAgain(MINUTE_MS);
  found = pushed;
  await fetchAgain(null);
  assert.equal(sources.get(SHOP).last_fetch!.sha, pushed);

  // Another push has replaced it meanwhile.
  deliver('c'.repeat(40));
  for (const wait of [10_000, MINUTE_MS, 10 * MINUTE_MS, null]) await fetchAgain(wait);
  await sources.stop();
});

test('a synced commit stays until the branch has another one, and a sync without a name deploys the branch', async (t) => {
  const hosted: Record<string, string> = {};
  const asked: FetchFrom[] = [];
  const { sources, next, repository } = connections(t, async (_, from) => {
    asked.push(from);
    return { sha: hosted[from.refs[0]!]!, knownHosts: [] };
  });
  const git = (...words: string[]) =>
    execFileSync(
      'git',
      ['-C', repository, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...words],
      {
        encoding: 'utf8',
      },
    ).trim();
  const [first, second, third] = ['1', '2', '3'].map((name) =>
    git('commit-tree', '-p', 'main', '-m', name, 'main^{tree}'),
  ) as [string, string, string];
  const main = () => git('rev-parse', 'main');
  Object.assign(hosted, { 'refs/heads/main': second, 'refs/tags/v1.4': first });
  const settings = { ...SETTINGS, deploy_on: 'main', poll_minutes: 1 } as const;
  await sources.connect(SHOP, settings);
  const poll = async () => {
    const [count, at] = [asked.length, next()! + 1];
    sources.tick(at);
    await eventually(() => asked.length > count && next() !== at - 1, 'it is looked at', WAIT_MS);
    assert.equal(sources.get(SHOP).last_fetch!.error, null);
  };
  const sync = (ref: string | null) => sources.sync(SHOP, ref, new AbortController().signal);
  await poll();
  assert.equal(main(), second);
  assert.deepEqual(await sync('v1.4'), { sha: first, deploy_id: 'deploy' });
  await poll();
  assert.equal(main(), first);
  assert.equal(asked.at(-1)!.have, second, 'no history is fetched again');
  await sources.connect(SHOP, { ...settings, poll_minutes: 2 });
  await poll();
  assert.equal(main(), first, 'other settings of the same branch change nothing');
  hosted['refs/heads/main'] = third;
  await poll();
  assert.equal(main(), third);
  await sync('v1.4');
  await sync(null);
  assert.equal(main(), third);
  await sources.stop();
});
