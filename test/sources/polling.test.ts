// When connected repositories are fetched: at an interval, and again after failures.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
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
function connections(t: TestContext, fetch: (sha: string) => Promise<{ sha: string; knownHosts: string[] }>) {
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
        work({ fetch: () => fetch(sha) }),
    },
    previews: { ofSource: () => null },
    urlOf: () => null,
  } as unknown as SourcesOptions);
  const next = () => {
    const at = sources.get(SHOP).next_fetch_at;
    return at === null ? null : Date.parse(at);
  };
  return { sources, next };
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
  const push = { digest: 'd', delivery: '', event: 'push', ref: 'refs/heads/main', pull: null };
  assert.deepEqual(sources.delivered(SHOP, [push, push]), ['queued', 'repeated']);
  sources.tick();
  await eventually(() => isAbout((next() ?? 0) - Date.now(), 10_000), 'it is tried again soon', WAIT_MS);
  await sources.stop();
});
