// Facts that the host reports to the control plane, and how both reconcile.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { DeployFact, HostEvent, ObservedApp } from '../../handlers/contract/host/host-calls.ts';
import { API_KEY, TestControl, TOKEN } from '../support/handlers/control.ts';

let control: TestControl;
beforeEach(async () => {
  control = await TestControl.start();
});
afterEach(() => control.stop());

const at = '2026-01-01T00:00:00.000Z';
const deploy = (app_id: string, id: string, changed: Partial<DeployFact> = {}): DeployFact => ({
  id: id.padStart(16, '0'),
  app_id,
  sha: 'a'.repeat(40),
  ref: 'refs/heads/main',
  message: 'a message',
  author: 'A <a@example>',
  trigger: 'push',
  status: 'queued',
  can_roll_back: false,
  steps: [],
  error: null,
  created_at: at,
  started_at: null,
  finished_at: null,
  ...changed,
});
const observed = (id: string, changed: Partial<ObservedApp>): ObservedApp => ({
  ...control.host.observed(id),
  ...changed,
});
const told = (seq: number, event: { deploy: DeployFact } | { app: ObservedApp }): HostEvent =>
  'deploy' in event ? { seq, at, type: 'deploy', ...event } : { seq, at, type: 'app', ...event };
const tell = async (events: HostEvent[], outbox = 'one') => {
  const { status, text } = await control.internal('/internal/host-events', { outbox, events });
  assert.equal(status, 204, text);
};
const statusOf = async (id: string) => (await control.api('GET', `/v1/apps/${id}`)).body.status;

test('internal routes do not exist for anyone without the secret', async () => {
  for (const path of ['/internal/boot', '/internal/host-events', '/internal/reconcile', '/internal/probe']) {
    const { status, body } = await control.internal(path, {}, 'wrong');
    assert.deepEqual([status, body.code], [404, 'route_not_found']);
    const bearer = { authorization: `Bearer ${TOKEN}` };
    assert.equal((await control.fetch('POST', path, { headers: bearer })).status, 404);
  }
});

test('boot makes the first account and its key once, however often it is called', async () => {
  for (let n = 0; n < 3; n++) {
    const { status, body } = await control.boot();
    assert.deepEqual([status, body], [200, { welcome: true }]);
  }
  const database = await control.database();
  const { results } = await database
    .prepare('SELECT accounts.name, role FROM keys JOIN accounts ON accounts.id = account_id')
    .all();
  assert.deepEqual(results, [{ name: 'owner', role: 'owner' }]);
  const { results: keys } = await database.prepare('SELECT hash FROM keys').all();
  assert.doesNotMatch(JSON.stringify(keys), new RegExp(API_KEY));
});

test('concurrent first requests create the schema once', async () => {
  const fresh = await TestControl.start({}, false);
  try {
    const answers = await Promise.all(Array.from({ length: 10 }, () => fresh.api('GET', '/v1/apps')));
    assert.deepEqual(
      answers.map(({ status }) => status),
      Array(10).fill(200),
    );
  } finally {
    await fresh.stop();
  }
});

test('the status of an app follows the facts of the host, in the order of the design', async () => {
  const { id } = await control.create('followed');
  assert.equal(await statusOf(id), 'created');
  await tell([told(1, { deploy: deploy(id, '1', { status: 'building' }) })]);
  assert.equal(await statusOf(id), 'deploying');
  await tell([
    told(2, { app: observed(id, { process_state: 'starting', live_deploy_id: '1'.padStart(16, '0') }) }),
  ]);
  assert.equal(await statusOf(id), 'starting');
  await tell([
    told(3, { deploy: deploy(id, '1', { status: 'live', finished_at: at }) }),
    told(4, {
      app: observed(id, { process_state: 'running', live_deploy_id: '1'.padStart(16, '0'), deployed_at: at }),
    }),
  ]);
  const app = (await control.api('GET', `/v1/apps/${id}`)).body;
  assert.deepEqual([app.status, app.live_deploy_id, app.deployed_at], ['running', '1'.padStart(16, '0'), at]);
  await tell([told(5, { deploy: deploy(id, '2', { status: 'building' }) })]);
  assert.equal(await statusOf(id), 'running');
  const live = { live_deploy_id: '1'.padStart(16, '0') };
  await tell([told(6, { app: observed(id, { process_state: 'idle', ...live }) })]);
  assert.equal(await statusOf(id), 'running');
  await tell([told(7, { app: observed(id, { process_state: 'crashed', last_error: 'boom', ...live }) })]);
  assert.equal(await statusOf(id), 'crashed');
  assert.equal((await control.api('GET', `/v1/apps/${id}`)).body.last_error, 'boom');
});

test('deploys are listed newest first as the host reported them, filtered and read by log', async () => {
  const { id } = await control.create('history');
  const uploaded = {
    id: '9'.padStart(16, '0'),
    tag: 'v9',
    message: 'nine',
    created_at: '2026-01-01T00:00:00.000Z',
  };
  const rows = [1, 2, 3].map((n) =>
    deploy(id, `${4 - n}`, {
      status: n === 2 ? 'failed' : 'live',
      // The clock goes back between the deploys.
      created_at: `2026-01-0${4 - n}T00:00:00.000Z`,
      can_roll_back: n === 3,
      ...(n === 3 ? { requested_by: 'Ada' } : { version: uploaded }),
      steps: [{ name: 'checkout', status: 'done', duration_ms: 12 }],
    }),
  );
  await tell(rows.map((row, n) => told(n + 1, { deploy: row })));
  const first = (await control.api('GET', `/v1/apps/${id}/deploys?limit=2`)).body;
  const { created_at, ...shown } = rows[2]!;
  const version = { id: shown.id, tag: '', message: shown.message, created_at };
  assert.deepEqual(first.items[0], { ...shown, version });
  assert.deepEqual(first.items[1].version, uploaded);
  assert.equal(first.items.length, 2);
  assert.equal(first.items[1].requested_by, null);
  const rest = (await control.api('GET', `/v1/apps/${id}/deploys?limit=2&cursor=${first.next_cursor}`)).body;
  assert.deepEqual(
    [rest.items.map((item: { id: string }) => item.id), rest.next_cursor],
    [[rows[0]!.id], null],
  );
  const failed = (await control.api('GET', `/v1/apps/${id}/deploys?status=failed`)).body.items;
  assert.deepEqual(
    failed.map((item: { id: string }) => item.id),
    [rows[1]!.id],
  );
  control.host.logs.set(rows[0]!.id, '▸ checkout: main\n');
  const log = await control.api('GET', `/v1/apps/${id}/deploys/${rows[0]!.id}/log`);
  assert.deepEqual(log.body, { deploy_id: rows[0]!.id, status: 'live', log: '▸ checkout: main\n' });
  assert.equal((await control.api('GET', `/v1/apps/${id}/deploys/nope/log`)).body.code, 'deploy_not_found');
  assert.equal((await control.api('GET', '/v1/apps/nope/deploys')).body.code, 'app_not_found');
  assert.equal((await control.api('GET', '/v1/apps/nope/deploys/nope/log')).body.code, 'app_not_found');
});

test('a fact is applied once: a repeated batch changes nothing, a new outbox starts again', async () => {
  const { id } = await control.create('once');
  const building = told(1, { deploy: deploy(id, '1', { status: 'building' }) });
  const live = told(2, { deploy: deploy(id, '1', { status: 'live' }) });
  await tell([building, live]);
  await tell([building]);
  const list = async () => (await control.api('GET', `/v1/apps/${id}/deploys`)).body.items;
  assert.equal((await list())[0].status, 'live');
  await tell([told(1, { deploy: deploy(id, '1', { status: 'failed' }) })], 'two');
  assert.equal((await list())[0].status, 'failed');
  await tell([], 'two');
});

test('facts about an app that is gone are dropped, and the others of their batch applied', async () => {
  const { id } = await control.create('kept');
  await tell([
    told(1, { deploy: deploy('gone', '1') }),
    told(2, { app: { ...control.host.observed(id), id: 'gone' } }),
    told(3, { deploy: deploy(id, '2') }),
  ]);
  assert.equal((await control.api('GET', `/v1/apps/${id}/deploys`)).body.items.length, 1);
});

test('a fact of one app that comes late, after those of others, is applied', async () => {
  const { id } = await control.create('late');
  const { id: other } = await control.create('prompt');
  await tell([told(2, { deploy: deploy(other, '2', { status: 'live' }) })]);
  await tell([told(1, { deploy: deploy(id, '1', { status: 'failed' }) })]);
  const { items } = (await control.api('GET', `/v1/apps/${id}/deploys`)).body;
  assert.equal(items[0].status, 'failed');
});

test('no text of the host is refused: half a surrogate pair is replaced', async () => {
  const { id } = await control.create('half');
  const half = '\ud83d';
  await tell([
    told(1, { deploy: deploy(id, '1', { message: `cut ${half}`, error: `{"a":1,"a":2} ${half}` }) }),
    told(2, { app: observed(id, { process_state: 'crashed', last_error: `the end ${half}` }) }),
  ]);
  const [row] = (await control.api('GET', `/v1/apps/${id}/deploys`)).body.items;
  assert.deepEqual([row.message, row.error], ['cut \ufffd', '{"a":1,"a":2} \ufffd']);
  const app = (await control.api('GET', `/v1/apps/${id}`)).body;
  assert.deepEqual([app.status, app.last_error], ['crashed', 'the end \ufffd']);
});

test('reconcile asks the host for unfinished deploys, and for the live one', async () => {
  const { id } = await control.create('mended');
  const ids = ['1', '2', '3'].map((n) => n.padStart(16, '0'));
  await tell([
    told(1, { deploy: deploy(id, '1', { status: 'building' }) }),
    told(2, { deploy: deploy(id, '2', { status: 'queued' }) }),
    told(3, { app: observed(id, { live_deploy_id: ids[2]!, process_state: 'running' }) }),
  ]);
  control.host.facts.set(id, { live_deploy_id: ids[2]! });
  control.host.asOf = { outbox: 'one', seq: 4 };
  control.host.deploys.set(ids[0]!, deploy(id, '1', { status: 'failed', error: 'it broke' }));
  control.host.deploys.set(ids[2]!, deploy(id, '3', { status: 'live' }));
  await control.internal('/internal/reconcile', {});
  const { items } = (await control.api('GET', `/v1/apps/${id}/deploys`)).body;
  const shown = new Map(items.map((row: { id: string }) => [row.id, row]));
  assert.deepEqual(
    ids.map((one) => (shown.get(one) as { status: string }).status),
    ['failed', 'failed', 'live'],
  );
  assert.equal((shown.get(ids[0]!) as { error: string }).error, 'it broke');
  assert.match((shown.get(ids[1]!) as { error: string }).error, /no record/);
  await tell([told(3, { deploy: deploy(id, '1', { status: 'building' }) })]);
  const after = (await control.api('GET', `/v1/apps/${id}/deploys?status=building`)).body.items;
  assert.deepEqual(after, [], 'an older fact does not undo it');
});

test('a fact of an older generation does not undo the answer to a newer one', async () => {
  const { id } = await control.create('fenced');
  const old = observed(id, { process_state: 'crashed', last_error: 'old' });
  await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  await tell([told(1, { app: old })]);
  assert.equal((await control.api('GET', `/v1/apps/${id}`)).body.last_error, null);
});

test('an observation from before a fact does not undo the fact, however late it arrives', async () => {
  const { id } = await control.create('overtaken');
  const lastError = async () => (await control.api('GET', `/v1/apps/${id}`)).body.last_error;
  control.host.asOf = { outbox: 'one', seq: 4 };
  await tell([told(5, { app: observed(id, { process_state: 'crashed', last_error: 'new' }) })]);
  await control.internal('/internal/reconcile', {});
  assert.equal(await lastError(), 'new');
  control.host.asOf = { outbox: 'one', seq: 5 };
  await control.internal('/internal/reconcile', {});
  assert.equal(await lastError(), null);
  await tell([told(6, { app: observed(id, { last_error: 'newer' }) })]);
  control.host.asOf = { outbox: 'two', seq: 1 };
  await control.internal('/internal/reconcile', {});
  assert.equal(await lastError(), null, 'a new outbox counts from the start');
});

test('reconcile sends what the host lacks, ends what D1 does not know, and adopts what the host observed', async () => {
  const { id } = await control.create('lost');
  const { id: other } = await control.create('other');
  const stray = { ...control.host.wanted.get(id)!, id: '0'.repeat(16), slug: 'stray', generation: 1 };
  control.host.wanted.delete(id);
  control.host.wanted.set(stray.id, stray);
  control.host.facts.set(other, { process_state: 'crashed', last_error: 'boom' });
  const { body } = await control.internal('/internal/reconcile', {});
  assert.deepEqual(body, { pushed: 1, trashed: 1, refused: 0 });
  assert.deepEqual([...control.host.wanted.keys()].sort(), [id, other].sort());
  assert.equal(await statusOf(other), 'crashed');
  assert.deepEqual((await control.internal('/internal/reconcile', {})).body, {
    pushed: 0,
    trashed: 0,
    refused: 0,
  });
});

test('an empty or older D1 deletes nothing, then or later, and its next transition is accepted', async () => {
  const stray = {
    id: '0'.repeat(16),
    slug: 'stray',
    generation: 500,
    desired_state: 'running' as const,
    asleep: false,
    hostnames: [],
    env: {},
    limits: { clientRpm: null, appRpm: null },
  };
  control.host.wanted.set(stray.id, stray);
  for (let n = 0; n < 2; n++) {
    assert.equal((await control.internal('/internal/reconcile', {})).body.trashed, 0);
  }
  const { id } = await control.create('after');
  assert.ok(control.host.wanted.get(id)!.generation > 500);
  assert.equal((await control.internal('/internal/reconcile', {})).body.trashed, 0);
  assert.ok(control.host.wanted.has(stray.id));
});

test('reconcile without a host answers 503 and changes nothing', async () => {
  const { id } = await control.create('alone');
  control.host.failing = 500;
  assert.equal((await control.internal('/internal/reconcile', {})).status, 503);
  control.host.failing = null;
  assert.equal(await statusOf(id), 'created');
});

test('a report that no parser takes is refused, and half of a character in another is replaced', async () => {
  const { id } = await control.create('shop');
  const reportOf = (input: string) => ({ app_id: id, at, kind: 'log', input });
  const { status, body } = await control.internal('/internal/app-reports', [
    reportOf(`{"tags":${'['.repeat(8_000)}"\\ud800"${']'.repeat(8_000)}}`),
    reportOf('{"channel":"a","event":"\\ud800"}'),
  ]);
  assert.equal(status, 200);
  const text = 'log of the service cellar: The JSON is nested deeper than 64 levels at position 71.';
  assert.deepEqual(body, { refused: [{ app_id: id, text }] });
  const { items } = (await control.api('GET', `/v1/apps/${id}/events`)).body;
  assert.deepEqual(
    items.map(({ event }: { event: string }) => event),
    ['\ufffd'],
  );
});
