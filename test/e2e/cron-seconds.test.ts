// Crons with a field for seconds, which an operator allows.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { cells, eventually } from '../support/processes.ts';

const settings = { RUNNER_CRON_SECONDS: 'on' };
const cellar = new Cellar(settings);
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

/** Answers with the time, begin and end of each run. A run takes as long as the variable `TAKES` says, in ms. */
const CODE = `
export default {
  async fetch(request, env) {
    return Response.json((await env.KV.get('runs', 'json')) ?? []);
  },
  async scheduled({ cron, scheduledTime }, env) {
    const begin = Date.now();
    await scheduler.wait(env.TAKES);
    const runs = (await env.KV.get('runs', 'json')) ?? [];
    await env.KV.put('runs', JSON.stringify([...runs, { cron, scheduledTime, begin, end: Date.now() }]));
    if (env.FAILS) throw new Error('this run fails');
  },
};`;

interface Run {
  cron: string;
  scheduledTime: number;
  begin: number;
  end: number;
}

async function deploy(slug: string, crons: string[], vars: object = { TAKES: 1 }): Promise<string> {
  const config = {
    name: slug,
    main: 'index.js',
    compatibility_date: '2026-10-01',
    triggers: { crons },
    kv_namespaces: [{ binding: 'KV' }],
    vars,
  };
  return cellar.deploy(slug, 'hello', { 'wrangler.jsonc': JSON.stringify(config), 'index.js': CODE });
}
const runsOf = async (slug: string): Promise<Run[]> => JSON.parse((await cellar.get(slug)).text);
const crons = async (slug: string) => (await rpcOf(cellar)('crons.list', { id: slug })).items;

test('a cron runs by the second, one run at a time', async () => {
  await deploy('ticks', ['*/2 * * * * *', '30 0 0 1 1 *', '0 0 1 1 *'], { TAKES: 2_500 });
  await eventually(async () => (await runsOf('ticks')).length >= 3, 'three runs');
  const runs = await runsOf('ticks');
  for (const [at, { cron, scheduledTime, begin }] of runs.entries()) {
    assert.equal(cron, '*/2 * * * * *');
    assert.equal(scheduledTime % 2_000, 0);
    assert.ok(begin >= scheduledTime);
    if (at > 0) assert.ok(begin >= runs[at - 1]!.end, 'no run begins before the end of another');
  }
  const all = await crons('ticks');
  const nextOf = (text: string) => all.find(({ cron }: { cron: string }) => cron === text).next_at;
  assert.match(nextOf('30 0 0 1 1 *'), /-01-01T00:00:30\.000Z$/);
  assert.match(nextOf('0 0 1 1 *'), /-01-01T00:00:00\.000Z$/);
});

test('a failed run does not hold back the next one', async () => {
  await deploy('fails', ['* * * * * *'], { TAKES: 1, FAILS: true });
  await eventually(async () => (await runsOf('fails')).length >= 3, 'three runs');
  const times = (await runsOf('fails')).map(({ scheduledTime }) => scheduledTime);
  assert.deepEqual(times, [...new Set(times)]);
  assert.equal((await crons('fails'))[0].last_run.outcome, 'failed');
});

test('a sleeping app wakes for its cron, also after the host was killed', async () => {
  const now = new Date();
  const second = (now.getUTCSeconds() + 40) % 60;
  const id = await deploy('sleeps', [`${second} * * * * *`]);
  await eventually(async () => (await crons('sleeps'))[0].next_at !== null, 'the schedule to be set');
  const due = Date.parse((await crons('sleeps'))[0].next_at);
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await eventually(() => cells(id).length === 0, 'it has no process');
  await cellar.stop('SIGKILL');
  const killedAt = Date.now();
  await cellar.start();
  await eventually(
    async () => (await crons('sleeps'))[0].last_run !== null,
    'the cron ran',
    Math.max(0, due - Date.now()) + 120_000,
  );
  assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.status, 'sleeping');
  const times = (await runsOf('sleeps')).map(({ scheduledTime }) => scheduledTime);
  // On a slow machine the next minute's run may be due, too.
  const later = Math.floor((Date.now() - due) / 60_000);
  const distinct = [...new Set(times)];
  assert.equal(times[0], due);
  assert.ok(
    distinct.length <= 1 + later && distinct.every((time) => (time - due) % 60_000 === 0),
    `${times} for ${due}`,
  );
  // Only a run that the end of the host interrupts may run again.
  const repeated = times.filter((time, index) => times.indexOf(time) !== index);
  assert.ok(repeated.length <= 1 && repeated.every((time) => time <= killedAt), `${times} at ${killedAt}`);
});

test('a wrong field is refused by its name', async () => {
  for (const [slug, cron, reason] of [
    ['second', '61 * * * * *', /cron trigger "61 \* \* \* \* \*": second field has 61 outside 0-59/],
    ['hour', '0 0 25 * * *', /hour field has 25 outside 0-23/],
    ['seven', '0 0 0 0 * * *', /7 fields, not 5/],
  ] as const)
    await assert.rejects(deploy(slug, [cron]), reason);
});

test('when the operator takes the seconds back, the app serves without these crons', async () => {
  await cellar.stop();
  settings.RUNNER_CRON_SECONDS = 'off';
  await cellar.start();
  const { length } = await runsOf('ticks');
  assert.deepEqual(
    (await crons('ticks')).map(({ cron }: { cron: string }) => cron),
    ['0 0 1 1 *'],
  );
  await assert.rejects(
    deploy('refused', ['*/2 * * * * *']),
    /cron trigger "\*\/2 \* .*": 6 fields, not 5; a field for seconds needs RUNNER_CRON_SECONDS=on/,
  );
  assert.equal((await runsOf('ticks')).length, length);
});
