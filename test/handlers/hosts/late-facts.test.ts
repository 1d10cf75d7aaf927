// Reports of a lost host that comes back after its apps have moved to other hosts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import { TestControl } from '../../support/handlers/control.ts';
import { reportOf } from '../../support/handlers/hosts.ts';

const at = '2026-01-01T00:00:00.000Z';

function deployOf(app_id: string, id: string, status: DeployFact['status']): DeployFact {
  const about = {
    sha: 'a'.repeat(40),
    ref: 'refs/heads/main',
    message: '',
    author: '',
    trigger: 'push',
  } as const;
  const rest = { can_roll_back: false, steps: [], error: null, created_at: at, started_at: null };
  return { id: id.padStart(16, '0'), app_id, ...about, ...rest, status, finished_at: null };
}

/** Starts the control plane of host `a`, and an app whose home (the host that runs it) is `a`. */
async function start() {
  const control = await TestControl.start({ HOST_ID: 'a', HAS_BUCKET: 'true', RUNNER_STORAGE: 'bucket' });
  for (const id of ['a', 'b']) await control.internal('/internal/hosts/report', reportOf(id));
  const { id } = await control.create('shop');
  const database = await control.database();
  return {
    control,
    id,
    moveTo: (home: string) =>
      database.prepare('UPDATE apps SET home = ?2 WHERE id = ?1').bind(id, home).run(),
    tell: async (outbox: string, seq: number, deploy: DeployFact) => {
      const event = { seq, at, type: 'deploy', deploy };
      const { status, text } = await control.internal('/internal/host-events', { outbox, events: [event] });
      assert.equal(status, 204, text);
    },
    statuses: async () => {
      const { items } = (await control.api('GET', `/v1/apps/${id}/deploys`)).body;
      return items.map(({ status }: DeployFact) => status);
    },
  };
}

test('a host that comes back does not change how a deploy ended at the next home', async (t) => {
  const { control, id, moveTo, tell, statuses } = await start();
  t.after(() => control.stop());
  await moveTo('b');
  await tell('outbox of a', 1, deployOf(id, '1', 'building'));
  // This control plane takes events only as host `a`, so `a` is the app's home while the events of `b` arrive.
  await moveTo('a');
  await tell('outbox of b', 1, deployOf(id, '1', 'failed'));
  await tell('outbox of b', 2, deployOf(id, '2', 'live'));
  await moveTo('b');
  await tell('outbox of a', 2, deployOf(id, '1', 'live'));
  await tell('outbox of a', 3, deployOf(id, '2', 'failed'));
  assert.deepEqual(await statuses(), ['live', 'failed']);
});

test('the last home completes a deploy that it has reported itself', async (t) => {
  const { control, id, moveTo, tell, statuses } = await start();
  t.after(() => control.stop());
  await tell('outbox of a', 1, deployOf(id, '1', 'building'));
  await moveTo('b');
  await tell('outbox of a', 2, deployOf(id, '1', 'failed'));
  assert.deepEqual(await statuses(), ['failed']);
});

test('a deploy that the next home does not know stays failed', async (t) => {
  const { control, id, moveTo, tell, statuses } = await start();
  t.after(() => control.stop());
  await tell('outbox of b', 1, deployOf(id, '1', 'building'));
  assert.equal((await control.internal('/internal/reconcile', {})).status, 200);
  assert.deepEqual(await statuses(), ['failed']);
  await moveTo('b');
  await tell('outbox of b', 2, deployOf(id, '1', 'live'));
  assert.deepEqual(await statuses(), ['failed']);
});
