// When connected repositories are fetched, with a fetch that the test controls.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { Secrets } from '../../runtime/apps/secrets.ts';
import { Imports, type ImportsOptions } from '../../runtime/builds/source/import.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { BranchChanges } from '../../runtime/git/branch-changes.ts';
import { ClosableGate } from '../../runtime/queues/closable-gate.ts';
import { Refusal } from '../../runtime/refusal.ts';
import { Sources, type SourcesOptions } from '../../runtime/sources/sources.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SETTINGS = {
  url: 'https://git.example.com/a.git',
  branch: 'main',
  deploy_on: 'main',
  poll_minutes: null,
  secret: null,
  token: null,
} as const;

/** Makes imports that need not wait for a turn. @param fetch answers for the remote repository */
const fetching = (fetch: () => Promise<{ sha: string; knownHosts: string[] }>) => ({
  inTurn: (_owner: string, _signal: AbortSignal, work: (turn: object) => Promise<unknown>) => work({ fetch }),
});

/** Opens a host with an app. */
function open(t: TestContext, imports: object) {
  const paths = layout(temporaryDirectory(t));
  const store = openHostStore(paths.database);
  store.apps.want({ id: 'shop', slug: 'shop', generation: 1 } as WantedApp);
  execFileSync('git', ['init', '--quiet', '--bare', paths.repository('shop')]);
  const app = { wanted: { slug: 'shop' }, changes: new ClosableGate('it moves'), code: null };
  const sources = new Sources({
    ...{ store, paths, changes: new BranchChanges(), disk: { shortage: null } },
    secrets: new Secrets(store, Buffer.alloc(32).toString('base64url')),
    apps: { get: () => app, ownerOf: () => 'owner' },
    imports,
  } as unknown as SourcesOptions);
  t.after(async () => {
    await sources.stop();
    store.close();
  });
  return { sources, app, find: () => store.sources.find('shop')! };
}

test('a refusal of this machine is no failed fetch: the push is deployed later', async (t) => {
  const refuse = async () => {
    throw new Refusal(429, 'rate_limited', 'too many wait');
  };
  const { sources, find } = open(t, fetching(refuse));
  await sources.connect('shop', SETTINGS);
  sources.tick();
  await eventually(() => find().lastFetch !== null && find().dueAt! > Date.now(), 'it is refused');
  assert.equal(find().attempts, 0);
});

test('a fetch that ends after the app was connected elsewhere changes nothing', async (t) => {
  const { sources, find } = open(
    t,
    fetching(async () => {
      await sources.connect('shop', { ...SETTINGS, url: 'ssh://git@git.example.com/b.git' });
      return { sha: '1'.repeat(40), knownHosts: ['other.example.com ssh-ed25519 AAAA'] };
    }),
  );
  await sources.connect('shop', SETTINGS);
  const late = sources.sync('shop', null, new AbortController().signal);
  await assert.rejects(late, { code: 'commit_conflict' });
  const { source, lastFetch } = find();
  assert.deepEqual([source.known_hosts, lastFetch], [[], null]);
});

test('a fetch that waits for its turn does not keep its app from moving', async (t) => {
  const imports = new Imports({} as ImportsOptions);
  const { sources, app } = open(t, imports);
  const { signal } = new AbortController();
  const other = Promise.withResolvers<void>();
  const running = imports.inTurn('owner', signal, () => other.promise);
  await sources.connect('shop', SETTINGS);
  const ending = new AbortController();
  const waiting = sources.sync('shop', null, ending.signal);
  const late = AbortSignal.timeout(10_000);
  const tooLate = new Promise<void>((_, reject) => late.addEventListener('abort', () => reject(late.reason)));
  await Promise.race([app.changes.closed(async () => {}), tooLate]);
  ending.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  other.resolve();
  await running;
});
