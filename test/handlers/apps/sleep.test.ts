// Sleep and wake as the control plane decides them, with a host that can be held up.
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

/** An app whose release has been live since long ago. */
async function deployed(slug: string): Promise<string> {
  const { id } = await control.create(slug);
  control.host.facts.set(id, { live_deploy_id: LIVE, deployed_at: LONG_AGO });
  await tell(id, 'app', control.host.observed(id));
  return id;
}

async function tell(id: string, type: string, fact: object): Promise<void> {
  const events = [{ seq: ++seq, at: LONG_AGO, type, [type]: fact }];
  control.host.asOf = { outbox: 'one', seq };
  const { status } = await control.internal('/internal/host-events', { outbox: 'one', events });
  assert.equal(status, 204, id);
}

const deployFact = (id: string, status: string) => ({
  id: `${id.slice(0, 15)}d`,
  app_id: id,
  sha: 'a'.repeat(40),
  ref: 'refs/heads/main',
  message: 'm',
  author: 'a',
  trigger: 'push',
  status,
  can_roll_back: false,
  steps: [],
  error: null,
  created_at: LONG_AGO,
  started_at: null,
  finished_at: null,
});

const read = async (id: string) => (await control.api('GET', `/v1/apps/${id}`)).body;
const sleep = (id: string) => control.api('POST', `/v1/apps/${id}/sleep`);
const patch = (id: string, desired_state: string) =>
  control.api('PATCH', `/v1/apps/${id}`, { desired_state });
const wake = (hostname: string) =>
  control.fetch('GET', '/v1/edge/wake', { headers: { 'x-forwarded-host': hostname } });
const sweep = async () => {
  const items = [...control.host.wanted.keys()].map((id) => control.host.listed(id));
  return (await control.internal('/internal/sweep', { items })).body;
};

/** Holds up the host's answers to wanted states until what it returns is called. */
function holdHost(): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  control.host.held = promise;
  return resolve;
}
/** Resolves when the host has been sent a state of the app that `holds`. */
async function sent(
  id: string,
  requestQueues: (wanted: { asleep: boolean; desired_state: string }) => boolean,
) {
  const end = Date.now() + 5_000;
  while (!requestQueues(control.host.wanted.get(id)!)) {
    assert.ok(Date.now() < end, 'the host was not sent the state');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('an app is put to sleep, reads as sleeping, and the next request wakes it', async () => {
  const id = await deployed('parked');
  const { status, body } = await sleep(id);
  assert.deepEqual([status, body.status, body.desired_state], [200, 'sleeping', 'running']);
  assert.ok(body.asleep_since);
  assert.equal(control.host.wanted.get(id)!.asleep, true);
  assert.equal((await sleep(id)).body.asleep_since, body.asleep_since, 'asleep already: as it is');
  const woken = await wake('PARKED.localhost:8787');
  assert.deepEqual([woken.status, woken.body], [200, { status: 'running' }]);
  const app = await read(id);
  assert.deepEqual([app.asleep_since, app.status], [null, 'running']);
  assert.ok(app.woke_at > body.asleep_since);
  assert.equal(control.host.wanted.get(id)!.asleep, false);
});

test('the host wakes an app by its id, with the marks of any wake', async () => {
  const id = await deployed('known');
  const { asleep_since } = (await sleep(id)).body;
  assert.equal((await control.internal('/internal/wake', { id })).status, 200);
  const app = await read(id);
  assert.deepEqual([app.asleep_since, app.status], [null, 'running']);
  assert.ok(app.woke_at > asleep_since);
  const nobody = await control.internal('/internal/wake', { id: '0'.repeat(16) });
  assert.deepEqual([nobody.status, nobody.body.code], [404, 'app_not_found']);
});

test('a custom domain wakes its app, an unknown host is not found', async () => {
  const id = await deployed('domained');
  await control.api('POST', `/v1/apps/${id}/domains`, { hostname: 'shop.example' });
  await sleep(id);
  assert.equal((await wake('shop.example')).status, 200);
  assert.equal((await read(id)).asleep_since, null);
  assert.deepEqual((await wake('nobody.example')).body.code, 'unknown_host');
  assert.deepEqual((await control.fetch('GET', '/v1/edge/wake')).body.code, 'unknown_host');
});

test('what cannot sleep is refused with 409 and the reason', async () => {
  const { id } = await control.create('empty');
  const never = await sleep(id);
  assert.deepEqual([never.status, never.body.code], [409, 'transition_conflict']);
  assert.match(never.body.detail, /deployed/);
  const stopped = await deployed('halted');
  await patch(stopped, 'stopped');
  assert.match((await sleep(stopped)).body.detail, /stopped/);
  assert.equal((await wake('halted.localhost')).status, 200, 'a stopped app is told so by its own answer');
  assert.equal((await read(stopped)).status, 'stopped');
  const building = await deployed('building');
  await tell(building, 'deploy', deployFact(building, 'building'));
  assert.match((await sleep(building)).body.detail, /deploy/);
  assert.equal((await sleep('nobody')).status, 404);
});

test('stopping a sleeping app clears the marker, and starting one wakes it', async () => {
  const id = await deployed('switched');
  await sleep(id);
  const stopped = (await patch(id, 'stopped')).body;
  assert.deepEqual([stopped.asleep_since, stopped.status], [null, 'stopped']);
  await patch(id, 'running');
  await sleep(id);
  const started = (await patch(id, 'running')).body;
  assert.deepEqual([started.asleep_since, started.status], [null, 'running']);
});

test('a wake that fails answers 503, and the app sleeps on as before', async () => {
  const id = await deployed('broken');
  const { asleep_since, woke_at } = (await sleep(id)).body;
  control.host.facts.set(id, { live_deploy_id: LIVE, process_state: 'crashed', last_error: 'it throws' });
  for (const attempt of [() => wake('broken.localhost'), () => patch(id, 'running')]) {
    const { status, body, headers } = await attempt();
    assert.deepEqual([status, body.code], [503, 'app_unavailable']);
    assert.match(body.detail, /it throws/);
    assert.ok(headers.get('retry-after'));
    const app = await read(id);
    assert.deepEqual([app.status, app.asleep_since, app.woke_at], ['sleeping', asleep_since, woke_at]);
    assert.equal(control.host.wanted.get(id)!.asleep, true);
  }
});

test('while an app is woken it cannot be put to sleep; more wakes and a start join the one under way', async () => {
  const id = await deployed('waking');
  await sleep(id);
  const before = control.host.calls('PUT', `/apps/${id}`).length;
  const release = holdHost();
  const wakes = [wake('waking.localhost'), wake('waking.localhost')];
  await sent(id, ({ asleep }) => !asleep);
  const start = patch(id, 'running');
  const refused = await sleep(id);
  assert.deepEqual([refused.status, refused.body.code], [409, 'transition_conflict']);
  release();
  for (const { status } of await Promise.all([...wakes, start])) assert.equal(status, 200);
  assert.equal(control.host.calls('PUT', `/apps/${id}`).length, before + 1);
});

test('while an app is put to sleep it cannot be started; a wake waits for it, and then wakes', async () => {
  const id = await deployed('drowsy');
  const release = holdHost();
  const sleeps = [sleep(id), sleep(id)];
  await sent(id, ({ asleep }) => asleep);
  const refused = await patch(id, 'running');
  assert.deepEqual([refused.status, refused.body.code], [409, 'transition_conflict']);
  const woken = wake('drowsy.localhost');
  release();
  for (const { status, body } of await Promise.all(sleeps)) {
    assert.deepEqual([status, body.status], [200, 'sleeping']);
  }
  assert.equal((await woken).status, 200);
  assert.equal((await read(id)).status, 'running');
});

test('a stop does not wait for the wake under way, and the wake does not undo it', async () => {
  const id = await deployed('cancelled');
  await sleep(id);
  const release = holdHost();
  const woken = wake('cancelled.localhost');
  await sent(id, ({ asleep }) => !asleep);
  const stopped = patch(id, 'stopped');
  await sent(id, ({ desired_state }) => desired_state === 'stopped');
  release();
  assert.equal((await stopped).body.status, 'stopped');
  assert.equal((await woken).status, 200, 'the app itself says that it is stopped');
  const app = await read(id);
  assert.deepEqual([app.status, app.asleep_since], ['stopped', null]);
});

test('a deploy wakes its app, whatever asked for it', async () => {
  const id = await deployed('redeployed');
  await sleep(id);
  await tell(id, 'deploy', deployFact(id, 'queued'));
  await sent(id, ({ asleep }) => !asleep);
  assert.equal((await read(id)).asleep_since, null);
});

test('the sweep puts to sleep what nobody has used, and nothing else', async () => {
  const recently = new Date(Date.now() - 3_600_000).toISOString();
  const ids: Record<string, string> = {};
  for (const slug of ['unused', 'called', 'streaming', 'woken', 'released', 'pushed', 'off']) {
    ids[slug] = await deployed(`sweep-${slug}`);
  }
  ids.new = (await control.create('sweep-new')).id;
  control.host.used.set(ids.called!, { last_activity_at: recently });
  control.host.used.set(ids.streaming!, { open_streams: 1 });
  await sleep(ids.woken!);
  await wake('sweep-woken.localhost');
  const release = { live_deploy_id: LIVE, deployed_at: recently };
  control.host.facts.set(ids.released!, release);
  await tell(ids.released!, 'app', control.host.observed(ids.released!));
  await tell(ids.pushed!, 'deploy', { ...deployFact(ids.pushed!, 'failed'), created_at: recently });
  await patch(ids.off!, 'stopped');
  await sweep();
  const asleep: string[] = [];
  for (const [slug, id] of Object.entries(ids)) if ((await read(id)).asleep_since !== null) asleep.push(slug);
  assert.deepEqual(asleep, ['unused']);
  assert.deepEqual(await sweep(), { parked: 0 });
});

test('an app that is used between the list and its turn is not put to sleep', async () => {
  const id = await deployed('late-call');
  const items = [control.host.listed(id)];
  control.host.used.set(id, { open_streams: 1 });
  assert.deepEqual((await control.internal('/internal/sweep', { items })).body, { parked: 0 });
  assert.equal((await read(id)).status, 'running');
});
