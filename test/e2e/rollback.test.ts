// Rollback to an earlier release: without a build, and only while the release is kept.
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sharedCellar } from '../support/e2e/shared.ts';
import { eventually } from '../support/processes.ts';

const cellar = sharedCellar('running');

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function deploysOf(id: string): Promise<any[]> {
  return (await cellar.call('GET', `/v1/apps/${id}/deploys?limit=200`)).body.items;
}

/** Pushes a Worker that answers `text`, or the given source, and returns the deploy. */
async function deploy(id: string, work: string, slug: string, text: string, source?: string) {
  writeFileSync(
    join(work, 'index.js'),
    source ?? `export default { fetch: () => new Response('${text}') };\n`,
  );
  await cellar.commit(work, text);
  await cellar.push(work, slug);
  return (await deploysOf(id))[0];
}

/** Rolls back and waits until the deploy has ended. */
async function rollback(id: string, deployId: string) {
  const { status, body } = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: deployId });
  assert.equal(status, 202, JSON.stringify(body));
  let ended = body;
  await eventually(async () => {
    ended = (await deploysOf(id)).find((found) => found.id === body.id);
    return ended?.finished_at != null;
  }, 'the rollback has ended');
  return { asked: body, ended };
}

test('a rollback is a new deploy that serves an earlier release without a build, also after a restart', async () => {
  const id = await cellar.create('back');
  const work = await cellar.checkout('hello');
  const one = await deploy(id, work, 'back', 'one');
  const two = await deploy(id, work, 'back', 'two');
  assert.equal((await cellar.get('back')).text, 'two');

  const { asked, ended } = await rollback(id, one.id);
  assert.notEqual(asked.id, one.id);
  assert.deepEqual(
    [asked.trigger, asked.sha, asked.message, asked.author],
    ['rollback', one.sha, 'one', one.author],
  );
  assert.deepEqual(
    [one, asked, ended].map(({ requested_by }) => requested_by),
    [null, 'the runner token', 'the runner token'],
  );
  assert.equal(ended.status, 'live');
  assert.deepEqual(
    ended.steps.map(({ name }: { name: string }) => name),
    ['release', 'start'],
  );
  assert.equal((await cellar.get('back')).text, 'one');
  assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.live_deploy_id, asked.id);
  const log = await cellar.call('GET', `/v1/apps/${id}/deploys/${asked.id}/log`);
  assert.match(log.body.log, new RegExp(`▸ release: the one of deploy ${one.id}`));

  assert.equal((await rollback(id, two.id)).ended.status, 'live');
  assert.equal((await cellar.get('back')).text, 'two');
  await rollback(id, asked.id);
  assert.equal((await cellar.get('back')).text, 'one', 'back to what was a rollback itself');
  await cellar.stop();
  await cellar.start();
  assert.equal((await cellar.get('back')).text, 'one');
});

test('a rollback to an unknown deploy is 404, to one that never went live 409, and neither makes a deploy', async () => {
  const id = await cellar.create('refused');
  const work = await cellar.checkout('hello');
  await deploy(id, work, 'refused', 'good');
  const bad = await deploy(id, work, 'refused', 'bad', 'not javascript');
  assert.equal(bad.status, 'failed');
  const ask = (deploy_id: string) => cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id });
  for (const unknown of ['0123456789abcdef', 'nonsense', '../../x']) {
    const { status, body } = await ask(unknown);
    assert.deepEqual([status, body.code], [404, 'deploy_not_found']);
  }
  const never = await ask(bad.id);
  assert.deepEqual([never.status, never.body.code], [409, 'release_unavailable']);
  assert.match(never.body.detail, /never went live/);
  const other = await cellar.create('other-app');
  assert.equal((await cellar.call('POST', `/v1/apps/${other}/rollback`, { deploy_id: bad.id })).status, 404);
  assert.equal(
    (await cellar.call('POST', '/v1/apps/0123456789abcdef/rollback', { deploy_id: bad.id })).status,
    404,
  );
  assert.equal((await deploysOf(id)).length, 2);
});

test('the serving release and the five before it are kept, ordered by when they last went live', async () => {
  const id = await cellar.create('kept');
  const work = await cellar.checkout('hello');
  const first = await deploy(id, work, 'kept', 'first');
  const second = await deploy(id, work, 'kept', 'second');
  await rollback(id, first.id);
  for (let n = 3; n <= 6; n++) await deploy(id, work, 'kept', `number ${n}`);
  const directory = join(cellar.data, 'releases', id);
  const served = (await deploysOf(id)).filter(({ status }) => status === 'live' || status === 'replaced');
  const live = served.map((found) => found.id);
  assert.equal(live.length, 7);
  assert.deepEqual(
    served.map(({ status }) => status),
    ['live', ...Array(6).fill('replaced')],
  );
  await eventually(() => readdirSync(directory).length === 6, 'the oldest release is removed');
  assert.deepEqual(readdirSync(directory).sort(), live.slice(0, 6).sort());
  const kept = async () =>
    (await deploysOf(id)).filter((found) => found.can_roll_back).map((found) => found.id);
  await eventually(async () => (await kept()).length === 6, 'the rows say which releases are kept');
  assert.deepEqual(await kept(), live.slice(0, 6));

  const gone = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: first.id });
  assert.deepEqual([gone.status, gone.body.code], [409, 'release_unavailable']);
  assert.match(gone.body.detail, /no longer kept/);
  assert.equal((await rollback(id, second.id)).ended.status, 'live');
  assert.equal((await cellar.get('kept')).text, 'second');
});

test('a rollback of a stopped app does not start it', async () => {
  const id = await cellar.create('stopped');
  const work = await cellar.checkout('hello');
  const one = await deploy(id, work, 'stopped', 'one');
  await deploy(id, work, 'stopped', 'two');
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.equal((await rollback(id, one.id)).ended.status, 'live');
  assert.equal((await cellar.get('stopped')).status, 503);
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'running' });
  assert.equal((await cellar.get('stopped')).text, 'one');
});

test('a deploy is repeated and cancelled over RPC, and a cancelled one names who cancelled it', async () => {
  const id = await cellar.create('again');
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  const rpc = async (method: string, params: object): Promise<any> =>
    (await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params: { id, ...params } })).body;
  assert.equal((await rpc('deploys.create', {})).error.data.code, 'ref_not_found');
  const work = await cellar.checkout('hello');
  const one = await deploy(id, work, 'again', 'one');
  const again = (await rpc('deploys.create', { deploy_id: one.id })).result;
  assert.deepEqual([again.trigger, again.sha, again.message], ['redeploy', one.sha, 'one']);
  const found = async () => (await rpc('deploys.get', { deploy_id: again.id })).result;
  await eventually(async () => (await found())?.status === 'live', 'it is live again');
  assert.equal((await rpc('deploys.cancel', { deploy_id: again.id })).error.data.code, 'transition_conflict');
  assert.equal((await rpc('deploys.cancel', { deploy_id: 'nonsense' })).error.data.code, 'deploy_not_found');

  writeFileSync(join(work, 'package.json'), JSON.stringify({ scripts: { build: 'sleep 1000' } }));
  await cellar.commit(work, 'slow');
  const pushed = cellar.push(work, 'again');
  await eventually(async () => (await deploysOf(id))[0].status === 'building', 'it builds');
  const [slow] = await deploysOf(id);
  const cancelled = (await rpc('deploys.cancel', { deploy_id: slow.id })).result;
  assert.deepEqual([cancelled.status, cancelled.error], ['cancelled', 'cancelled by the runner token']);
  assert.match((await pushed).stderr, /deploy cancelled by the runner token/);
  assert.equal((await cellar.get('again')).text, 'one');
});
