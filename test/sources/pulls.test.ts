// Pull requests of a connected repository whose Git host Cellar cannot reach.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { PullEvent } from '../../handlers/contract/source/pulls.ts';
import { INTERRUPTED } from '../../runtime/builds/deploy/deploy.ts';
import { BranchChanges } from '../../runtime/git/branch-changes.ts';
import { Refusal } from '../../runtime/refusal.ts';
import { Sources, type SourcesOptions } from '../../runtime/sources/sources.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { commit } from '../support/builds/projects.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const WAIT_MS = 20_000;
const HOUR_MS = 3_600_000;
const SETTINGS = {
  url: 'https://127.0.0.1/ada/shop',
  branch: 'main',
  deploy_on: 'manual',
  poll_minutes: null,
  secret: null,
  token: 'a-token',
} as const;

/** Makes the sources of apps whose Git host cannot be reached. @param fetch stands for git in the sandbox */
function open(
  t: TestContext,
  fetch = async (sha: string, _signal: AbortSignal): Promise<{ sha: string; knownHosts: string[] }> => ({
    sha,
    knownHosts: [],
  }),
) {
  const directory = temporaryDirectory(t);
  const store = openHostStore(join(directory, 'host.sqlite'));
  const { repository, sha } = commit(directory, { 'index.html': 'x' });
  const previews = new Map<
    string,
    { slug: string; serves: boolean; deploy: { status: string; error?: string } }
  >();
  const sources = new Sources({
    store,
    paths: { repository: () => repository },
    apps: {
      get: (id: string) => ({
        wanted: { id, slug: id },
        changes: { during: <T>(work: () => T) => work() },
        code: null,
      }),
      ownerOf: () => 'ada',
    },
    disk: { shortage: null },
    secrets: {
      seal: (_app: string, _name: string, text: string) => Buffer.from(text),
      open: (_app: string, _name: string, sealed: Buffer) => sealed.toString(),
    },
    changes: new BranchChanges(),
    imports: {
      inTurn: (_owner: string, signal: AbortSignal, work: (turn: object) => Promise<unknown>) =>
        work({ fetch: () => fetch(sha, signal) }),
    },
    previews: {
      ofSource: (app: string, ref: string) => previews.get(`${app} ${ref}`) ?? null,
      push: async (app: string, ref: string) => {
        previews.set(`${app} ${ref}`, { slug: 'pull', serves: true, deploy: { status: 'live' } });
      },
      branchDeleted: async (app: string, ref: string) => void previews.delete(`${app} ${ref}`),
    },
    urlOf: (slug: string) => `https://${slug}.example`,
    reachable: { has: () => false },
  } as unknown as SourcesOptions);
  t.after(async () => {
    await sources.stop();
    store.close();
  });
  const connect = (app: string) => {
    store.apps.want({ id: app, slug: app, generation: 1 } as WantedApp);
    return sources.connect(app, SETTINGS);
  };
  let deliveries = 0;
  const deliver = (app: string, event: Partial<PullEvent>) =>
    sources.delivered(app, [
      {
        ...{ digest: String(deliveries++), delivery: '', event: 'pull_request', ref: null, after: null },
        pull: {
          ...{ host: 'gitea', repository: 'ada/shop', number: 5, title: 'A change', author: 'grace', sha },
          ...{ is_open: true, is_inside: true, is_member: true, changed_at: deliveries },
          ...event,
        },
      },
    ])[0];
  /** Lets all waits pass until a pull request is in a state, and nothing is due. */
  const settles = (app: string, state: string, number = 5) =>
    eventually(
      () => {
        sources.tick(Date.now() + HOUR_MS);
        const row = store.pulls.find(app, number);
        return row?.pull.state === state && row.dueAt === null;
      },
      `pull request ${number} is ${state}`,
      WAIT_MS,
    );
  const pull = (app: string, number = 5) => sources.get(app).pulls.find((each) => each.number === number)!;
  return { sources, store, previews, connect, deliver, settles, pull, sha };
}

test('a preview is live although the Git host cannot be told', async (t) => {
  const { connect, deliver, settles, pull } = open(t);
  await connect('shop');
  deliver('shop', {});
  await settles('shop', 'live');
  assert.equal(pull('shop').url, 'https://pull.example');
  assert.match(pull('shop').error!, /public address/);
});

test('a preview whose deploy a stop of the host interrupted has not failed: it is deployed again', async (t) => {
  const { connect, deliver, previews, settles, sources, pull, store } = open(t);
  await connect('shop');
  deliver('shop', {});
  const isBuilding = () => store.pulls.find('shop', 5)?.pull.state === 'building';
  const ticks = () => {
    sources.tick();
    return isBuilding();
  };
  await eventually(ticks, 'the preview is pushed', WAIT_MS);
  const [preview] = previews.values();
  preview!.deploy = { status: 'failed', error: INTERRUPTED };
  const saved = new Promise<void>((resolve) => {
    const { save } = store.pulls;
    t.mock.method(store.pulls, 'save', (...values: Parameters<typeof save>) => {
      save(...values);
      resolve();
    });
  });
  sources.tick(Date.now() + HOUR_MS);
  await saved;
  assert.equal(pull('shop').state, 'building');
  preview!.deploy = { status: 'live' };
  await settles('shop', 'live');
});

test('a pull request from outside waits although the Git host cannot be told', async (t) => {
  const { connect, deliver, settles } = open(t);
  await connect('shop');
  deliver('shop', { is_inside: false });
  await settles('shop', 'waiting');
  // With `is_member: null` it is unknown whether the author is a member.
  deliver('shop', { number: 6, is_member: null });
  await settles('shop', 'waiting', 6);
});

test('a pull request that cannot be fetched has failed, and the Git host is told why', async (t) => {
  const { connect, deliver, settles, pull, store } = open(t, () => Promise.reject(new Error('away')));
  await connect('shop');
  deliver('shop', {});
  const save = t.mock.method(store.pulls, 'save');
  await settles('shop', 'failed');
  assert.equal(pull('shop').error, 'away');
  const told = save.mock.calls.filter(
    ({ arguments: [, { state }, at] }) => state === 'failed' && at !== null,
  );
  assert.notEqual(told.length, 0);
});

test('refusals of this machine do not end a pull request, except after a day', async (t) => {
  let refusals = 0;
  const refuse = () => {
    refusals++;
    return Promise.reject(new Refusal(429, 'rate_limited', 'too many imports wait'));
  };
  const fetches: ((sha: string) => Promise<{ sha: string; knownHosts: string[] }>)[] = [];
  const { connect, deliver, settles, sources, pull, store } = open(t, (sha) =>
    (fetches.shift() ?? refuse)(sha),
  );
  await connect('shop');
  deliver('shop', {});
  const row = () => store.pulls.find('shop', 5)!;
  let at = Date.now();
  while (refusals < 6) {
    const before = row().dueAt;
    const from = Date.now();
    sources.tick(at);
    await eventually(() => row().dueAt !== before && row().pull.error !== null, 'it is refused', WAIT_MS);
    const wait = row().dueAt! - from;
    assert.ok(wait >= 60_000 && row().dueAt! <= Date.now() + 60_000, `the next is in ${wait} ms`);
    assert.deepEqual([row().pull.attempts, pull('shop').state], [0, 'queued']);
    at = row().dueAt! + 1;
  }
  fetches.push(async (sha) => ({ sha, knownHosts: [] }));
  await settles('shop', 'live');

  deliver('shop', { number: 6 });
  const old = new Date(Date.now() - 25 * HOUR_MS).toISOString();
  store.pulls.save('shop', { ...store.pulls.find('shop', 6)!.pull, updated_at: old }, Date.now());
  await settles('shop', 'failed', 6);
  assert.equal(pull('shop', 6).error, 'too many imports wait');
});

test('the end of a pull request removes its preview also when nothing is known of it', async (t) => {
  const { connect, deliver, settles, previews } = open(t);
  await connect('shop');
  assert.equal(deliver('shop', { is_open: false }), 'ignored');
  previews.set('shop refs/pull/5/head', { slug: 'pull', serves: true, deploy: { status: 'live' } });
  assert.equal(deliver('shop', { is_open: false }), 'queued');
  await settles('shop', 'closed');
  assert.equal(previews.size, 0);
});

test('an app that is connected elsewhere forgets its pull requests at once, also while one is fetched', async (t) => {
  const begun = Promise.withResolvers<void>();
  const { connect, deliver, sources, previews, store } = open(t, (_sha, signal) => {
    begun.resolve();
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  await connect('shop');
  deliver('shop', { number: 4, is_inside: false });
  deliver('shop', {});
  previews.set('shop refs/pull/4/head', { slug: 'pull', serves: true, deploy: { status: 'live' } });
  sources.tick();
  await eventually(() => store.pulls.find('shop', 4)!.pull.error !== null, 'the first has its turn', WAIT_MS);
  sources.tick();
  await begun.promise;
  await sources.connect('shop', SETTINGS);
  assert.equal(store.pulls.list('shop', 10).length, 2);
  await sources.connect('shop', { ...SETTINGS, url: 'https://127.0.0.1/ada/other' });
  assert.deepEqual([store.pulls.list('shop', 10), previews.size], [[], 0]);
});

test('many pull requests of an app do not keep those of others waiting, and only the newest are kept', async (t) => {
  const stopped = Promise.withResolvers<never>();
  const { connect, deliver, settles, store } = open(t, () => stopped.promise);
  for (const app of ['many', 'other']) await connect(app);
  for (let number = 1; number <= 510; number++) deliver('many', { number });
  assert.equal(store.pulls.list('many', 1000).length, 500);
  deliver('other', { is_inside: false });
  await settles('other', 'waiting');
  stopped.reject(new Error('the test has ended'));
});
