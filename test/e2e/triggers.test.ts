// Queues and cron triggers of a pushed project, through a whole Cellar.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { written } from '../support/e2e/written.ts';
import { cells, eventually } from '../support/processes.ts';

const cellar = sharedCellar('running');
/** How long a message waits for others. The app falls asleep meanwhile, also on a busy machine. */
const BATCH_S = 15;

/** A Worker: `/send?text` sends a message to the queue; other paths return text and time of all consumed messages. */
const CODE = `
export default {
  async fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    if (pathname !== '/send') return Response.json((await env.KV.get('consumed', 'json')) ?? []);
    await env.JOBS.send(search.slice(1));
    return Response.json(Date.now());
  },
  async queue({ messages }, env) {
    const before = (await env.KV.get('consumed', 'json')) ?? [];
    const now = messages.map(({ body }) => [body, Date.now()]);
    await env.KV.put('consumed', JSON.stringify([...before, ...now]));
  },
  async scheduled({ cron, scheduledTime }, env) {
    console.log('scheduled for ' + scheduledTime);
    if ((await env.KV.get('fails')) === null) return env.KV.put('fails', cron);
    throw new RangeError('the second run fails');
  },
};`;
const CONFIG = (cron: string) => `
name = "jobs"
main = "index.js"
compatibility_date = "2026-10-01"
triggers = { crons = ["${cron}"] }
[[kv_namespaces]]
binding = "KV"
[[queues.producers]]
binding = "JOBS"
queue = "jobs"
[[queues.consumers]]
queue = "jobs"
max_batch_timeout = ${BATCH_S}
`;

async function push(slug: string, config: string): Promise<string> {
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), CODE);
  writeFileSync(join(work, 'wrangler.toml'), config);
  await cellar.commit(work, 'jobs');
  const { stderr } = await cellar.push(work, slug, '--force');
  return stderr;
}

test('a message to a sleeping app is consumed in time, and the status stays sleeping', async () => {
  const id = await cellar.create('jobs');
  const read = async () => (await cellar.call('GET', `/v1/apps/${id}`)).body;
  assert.match(await push('jobs', CONFIG('0 0 1 1 *')), /serves this push/);
  const sentAt = Number((await cellar.get('jobs', '/send?first')).text);
  const { body } = await cellar.call('POST', `/v1/apps/${id}/sleep`);
  assert.equal(body.status, 'sleeping');
  await eventually(() => cells(id).length === 0, 'it has no process');
  await written(cellar, id, sentAt + BATCH_S * 1_000);
  await eventually(() => cells(id).length === 0, 'the process goes again');
  const left = await read();
  assert.deepEqual([left.status, left.asleep_since], ['sleeping', body.asleep_since]);
  const consumed = JSON.parse((await cellar.get('jobs')).text) as [string, number][];
  const [[text, at]] = consumed as [[string, number]];
  const late = at - sentAt - BATCH_S * 1_000;
  assert.deepEqual([consumed.length, text], [1, 'first']);
  assert.ok(late > -1_000 && late < 20_000, `${late} ms late`);
});

test('an invalid cron expression fails the deploy, and the release before keeps serving', async () => {
  await cellar.create('crons');
  assert.match(await push('crons', CONFIG('0 0 1 1 *')), /serves this push/);
  const refused = await push('crons', CONFIG('0 25 * * *'));
  assert.match(refused, /deploy failed: cron trigger "0 25 \* \* \*": hour field has 25 outside 0-23/);
  assert.equal((await cellar.get('crons')).text, '[]');
});

test('a cron of a sleeping app can be run now, and its runs are listed and logged', async () => {
  const id = await cellar.create('runs');
  assert.match(await push('runs', CONFIG('0 0 1 1 *')), /serves this push/);
  const call = (method: string, params: object) => rpcOf(cellar)(method, { id: 'runs', ...params });
  const list = async () => (await call('crons.list', {})).items;
  await eventually(async () => (await list())[0].next_at !== null, 'the schedule to be set');
  const [{ next_at, ...listed }] = await list();
  assert.deepEqual(listed, { cron: '0 0 1 1 *', last_run: null });
  assert.match(next_at, /-01-01T00:00:00\.000Z$/);
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await eventually(() => cells(id).length === 0, 'it has no process');

  const ran = await call('crons.run', { cron: '0 0 1 1 *' });
  assert.deepEqual([ran.outcome, ran.error], ['ok', null]);
  assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.status, 'sleeping');
  const failed = await call('crons.run', { cron: '0 0 1 1 *' });
  assert.deepEqual([failed.outcome, failed.error], ['failed', 'RangeError: the second run fails']);
  await eventually(async () => (await list())[0].last_run?.outcome === 'failed', 'the run to be listed');
  const [{ last_run: last }] = await list();
  assert.deepEqual(
    [last.trigger, last.error, last.trace_id],
    ['manual', 'RangeError: the second run fails', failed.trace_id],
  );
  const log = async () =>
    (await cellar.call('GET', `/v1/apps/${id}/logs?trace_id=${ran.trace_id}`)).body.items;
  await eventually(async () => (await log()).length === 2, 'both lines of the first run');
  const [event, said] = await log();
  assert.match(said.text, /^scheduled for \d+$/);
  assert.deepEqual([event.fields.trigger, event.fields.outcome], ['manual', 'ok']);

  assert.equal((await call('crons.run', { cron: '* * * * *' })).code, 'cron_not_found');
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  const refused = await call('crons.run', { cron: '0 0 1 1 *' });
  assert.deepEqual([refused.code, /stopped/.test(refused.detail)], ['app_unavailable', true]);
});
