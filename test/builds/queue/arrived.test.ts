// An app has moved here from another host: a push that was missed or interrupted there is deployed here, once.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { DeployFact, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { INTERRUPTED } from '../../../runtime/builds/deploy/deploy.ts';
import { MissedDeploys, type MissedDeploysOptions } from '../../../runtime/builds/queue/missed-pushes.ts';
import { layout } from '../../../runtime/disk/data-directory.ts';
import { BranchChanges } from '../../../runtime/git/branch-changes.ts';
import { ClosableGate } from '../../../runtime/queues/closable-gate.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const SHA = 'f'.repeat(40);

/** Opens a host with an app whose repository is only in the bucket, with main at `SHA`. */
function open(t: TestContext) {
  const paths = layout(temporaryDirectory(t));
  const store = openHostStore(paths.database);
  t.after(() => store.close());
  store.apps.want({ id: 'shop', slug: 'shop', generation: 1 } as WantedApp);
  const deployed: string[] = [];
  const state = { isAway: false, asked: 0 };
  const find = async () => {
    state.asked++;
    if (state.isAway) throw new Error('the bucket is away');
    return SHA;
  };
  const wanted = { deploy_on: 'main' };
  const app = { wanted, changes: new ClosableGate('it moves'), code: { repository: { find } } };
  const missed = new MissedDeploys({
    ...{ store, paths, changes: new BranchChanges(), paused: () => false, hasRoom: () => true, everyMs: 20 },
    apps: { get: () => app, repository: async () => '' },
    requests: {
      commit: async ({ sha }: { sha: string }) => void deployed.push(sha),
      rollback: (_: string, id: string) => void deployed.push(id),
    },
  } as unknown as MissedDeploysOptions);
  t.after(() => missed.stop());
  const save = (id: string, rest: Partial<DeployFact>, releaseOf: string | null = null) =>
    store.deploys.save({ id, app_id: 'shop', sha: SHA, trigger: 'push', ...rest } as DeployFact, releaseOf);
  return { missed, deployed, state, app, save };
}

test('a push that was missed or cut is deployed where the app arrives', async (t) => {
  for (const isCut of [false, true]) {
    const { missed, deployed, save } = open(t);
    if (isCut) save('d1', { status: 'failed', error: INTERRUPTED });
    missed.arrived('shop');
    await eventually(() => deployed.length > 0, 'it is deployed');
    assert.deepEqual(deployed, [SHA]);
  }
});

test('a cut rollback is made where the app arrives', async (t) => {
  const { missed, deployed, save } = open(t);
  save('d1', { status: 'replaced', can_roll_back: true });
  save('d2', { status: 'live', can_roll_back: true });
  save('d3', { status: 'failed', trigger: 'rollback', error: INTERRUPTED }, 'd1');
  missed.arrived('shop');
  await eventually(() => deployed.length > 0, 'it is made');
  assert.deepEqual(deployed, ['d1']);
});

test('the bucket is asked for an app that has arrived only, and again after a failure', async (t) => {
  const { missed, deployed, state, save } = open(t);
  save('d1', { status: 'live' });
  missed.start();
  state.isAway = true;
  missed.arrived('shop');
  await eventually(() => state.asked >= 2, 'it is asked again');
  state.isAway = false;
  const { asked } = state;
  await eventually(() => state.asked > asked, 'it has answered');
  await missed.stop();
  assert.deepEqual(deployed, []);
});

test('nothing is deployed of an app that leaves', async (t) => {
  const { missed, deployed, state, app } = open(t);
  const left = Promise.withResolvers<void>();
  const leaving = app.changes.closed(() => left.promise);
  missed.arrived('shop');
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([deployed, state.asked], [[], 0]);
  left.resolve();
  await leaving;
});
