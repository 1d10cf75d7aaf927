// Sleep and wake in the API: the host decides, and the API shows what the host reported.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

const LIVE = '1'.padStart(16, '0');
const LONG_AGO = '2026-01-01T00:00:00.000Z';
let control: TestControl;
let seq = 0;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000' });
});
after(() => control.stop());

/** Creates an app whose release went live long ago. @returns its id */
async function deployed(slug: string): Promise<string> {
  const { id } = await control.create(slug);
  control.host.facts.set(id, { live_deploy_id: LIVE, deployed_at: LONG_AGO });
  await tell(control.host.observed(id));
  return id;
}

async function tell(app: object): Promise<void> {
  const events = [{ seq: ++seq, at: LONG_AGO, type: 'app', app }];
  control.host.asOf = { outbox: 'one', seq };
  const { status } = await control.internal('/internal/host-events', { outbox: 'one', events });
  assert.equal(status, 204);
}

const read = async (id: string) => (await control.api('GET', `/v1/apps/${id}`)).body;
const sleep = (id: string) => control.api('POST', `/v1/apps/${id}/sleep`);
const patch = (id: string, desired_state: string) =>
  control.api('PATCH', `/v1/apps/${id}`, { desired_state });

test('an app is put to sleep, reads as sleeping, and a start wakes it', async () => {
  const id = await deployed('parked');
  const { status, body } = await sleep(id);
  assert.deepEqual([status, body.status, body.desired_state], [200, 'sleeping', 'running']);
  assert.ok(body.asleep_since);
  assert.deepEqual(await read(id), body);
  const started = (await patch(id, 'running')).body;
  assert.deepEqual([started.asleep_since, started.status], [null, 'running']);
  assert.ok(started.woke_at >= body.asleep_since);
});

test('an app woken by a request reads as awake when the host reports it', async () => {
  const id = await deployed('called');
  await sleep(id);
  await tell(control.host.observed(id, false));
  const { asleep_since, woke_at, status } = await read(id);
  assert.deepEqual([asleep_since, status], [null, 'running']);
  assert.ok(woke_at);
});

test('a refusal by the host is a 409 with its reason', async (t) => {
  const id = await deployed('refused');
  control.host.refusal = 'The app is being woken';
  t.after(() => {
    control.host.refusal = null;
  });
  for (const answer of [await sleep(id), await patch(id, 'running')])
    assert.deepEqual(
      [answer.status, answer.body.code, answer.body.detail],
      [409, 'transition_conflict', 'The app is being woken.'],
    );
  assert.equal((await sleep('nobody')).status, 404);
});

test('stopping a sleeping app clears the marker, even while the host cannot be reached', async (t) => {
  const id = await deployed('switched');
  await sleep(id);
  const before = control.host.observed(id);
  control.host.failing = 500;
  t.after(() => {
    control.host.failing = null;
  });
  assert.equal((await patch(id, 'stopped')).body.code, 'host_unavailable');
  // A report from before the stop arrives late, and changes nothing.
  await tell(before);
  const app = await read(id);
  assert.deepEqual([app.asleep_since, app.status], [null, 'stopped']);
});

test('a wake that fails answers 503, and the app stays asleep as before', async () => {
  const id = await deployed('broken');
  const { asleep_since, woke_at } = (await sleep(id)).body;
  control.host.facts.set(id, {
    ...control.host.facts.get(id),
    process_state: 'crashed',
    last_error: 'it throws',
  });
  const { status, body, headers } = await patch(id, 'running');
  assert.deepEqual([status, body.code], [503, 'app_unavailable']);
  assert.match(body.detail, /it throws/);
  assert.ok(headers.get('retry-after'));
  const app = await read(id);
  assert.deepEqual([app.status, app.asleep_since, app.woke_at], ['sleeping', asleep_since, woke_at]);
});

test('facts of a host without sleep support do not change the wake time', async () => {
  const id = await deployed('older');
  await sleep(id);
  await patch(id, 'running');
  const { woke_at } = await read(id);
  assert.ok(woke_at);
  const { asleep_since: _, woke_at: __, ...older } = control.host.observed(id);
  await tell(older);
  assert.equal((await read(id)).woke_at, woke_at);
});
