// Workflows of a pushed project through a whole Cellar: the API, Wrangler, sleep and kill -9.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { cells, eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = sharedCellar('running');

/** Duration of a sleep that must still last when the test looks, also on a busy machine. In ms. */
const NAP_MS = 30_000;
/** Tolerated delay of the end of a sleep on a busy machine, in ms. */
const LATE_MS = 20_000;

/** A Workflow controlled by its parameters: `work` and `sleep` in ms, and whether it waits for an event or fails. */
const CODE = `
import { WorkflowEntrypoint } from 'cloudflare:workers';
export class Order extends WorkflowEntrypoint {
  async run({ payload }, step) {
    const began = await step.do('begin', async () => Date.now());
    if (payload.work) await step.do('work', () => scheduler.wait(payload.work));
    if (payload.sleep) await step.sleep('nap', payload.sleep);
    if (payload.fails) await step.do('charge', { retries: { limit: 0, delay: 0 } }, () => { throw new TypeError('no till'); });
    const paid = payload.waits ? await step.waitForEvent('paid', { type: 'paid' }) : null;
    return { took: Date.now() - began, paid: paid?.payload ?? null };
  }
}
export default {
  async fetch(request, env) {
    await env.ORDERS.create({ id: new URL(request.url).pathname.slice(1) });
    return new Response('made');
  },
};`;
const CONFIG = (name: string) =>
  JSON.stringify({
    name,
    main: 'index.js',
    compatibility_date: '2026-10-01',
    workflows: [{ binding: 'ORDERS', name: 'orders', class_name: 'Order' }],
  });

const rpc = rpcOf(cellar);
const call = (verb: string, params: object) =>
  rpc(`workflows.instances.${verb}`, { id: 'store', workflow: 'orders', ...params });
const get = (instance: string) => call('get', { instance });
const hasEnded = (instance: string) =>
  eventually(
    async () => ['complete', 'errored'].includes((await get(instance)).status),
    `${instance} has ended`,
  );

async function push(slug: string): Promise<string> {
  const id = await cellar.create(slug);
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), CODE);
  writeFileSync(join(work, 'wrangler.json'), CONFIG(slug));
  await cellar.commit(work, 'orders');
  const { stderr } = await cellar.push(work, slug, '--force');
  assert.match(stderr, /serves this push/);
  return id;
}

test('an app with Workflows sleeps during a long wait, and its instances can be read meanwhile', async () => {
  const id = await push('store');
  assert.equal((await cellar.get('store', '/asked')).text, 'made');
  await hasEnded('asked');
  const made = await call('create', { instance: 'nap', params: { sleep: NAP_MS, note: 'a note' } });
  assert.equal(made.id, 'nap');
  await eventually(async () => (await get('nap')).steps.length === 2, 'it sleeps');
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
  assert.deepEqual(cells(id), []);

  const nap = await get('nap');
  assert.deepEqual(
    [nap.status, nap.params, nap.output],
    ['waiting', { sleep: NAP_MS, note: 'a note' }, null],
  );
  assert.deepEqual(
    nap.steps.map(({ name, type, status, attempts }: Record<string, unknown>) => [
      name,
      type,
      status,
      attempts,
    ]),
    [
      ['begin', 'do', 'complete', 1],
      ['nap', 'sleep', 'waiting', null],
    ],
  );
  assert.ok(Date.parse(nap.steps[1].due_at) > Date.now(), nap.steps[1].due_at);
  const { items } = await rpc('workflows.list', { id: 'store' });
  assert.deepEqual(
    items.map(({ name, class_name, binding, instances }: Record<string, unknown>) => [
      name,
      class_name,
      binding,
      instances,
    ]),
    [['orders', 'Order', 'ORDERS', 2]],
  );
  const ids = async (params: object) =>
    (await call('list', params)).items.map((instance: { id: string }) => instance.id);
  assert.deepEqual(await ids({}), ['nap', 'asked']);
  assert.deepEqual(await ids({ status: 'complete' }), ['asked']);
  const { created_at } = (await call('list', {})).items[0];
  assert.deepEqual(await ids({ since: created_at }), ['nap']);
  assert.deepEqual(await ids({ until: created_at }), ['asked']);
  const first = await call('list', { limit: 1 });
  assert.deepEqual(await ids({ limit: 1, cursor: first.next_cursor }), ['asked']);
  assert.deepEqual(cells(id), [], 'reading starts no process');

  await hasEnded('nap');
  const { output } = await get('nap');
  assert.ok(output.took >= NAP_MS && output.took < NAP_MS + LATE_MS, `${output.took} ms`);
  assert.equal((await cellar.app(id)).status, 'sleeping');
});

test('only people of an app can make and change its instances', async () => {
  await call('create', { instance: 'one', params: { waits: true } });
  await eventually(async () => (await get('one')).status === 'waiting', 'it waits');
  assert.equal((await call('pause', { instance: 'one' })).status, 'paused');
  assert.notEqual((await call('resume', { instance: 'one' })).status, 'paused');
  await call('send_event', { instance: 'one', type: 'paid', payload: { amount: 3 } });
  await hasEnded('one');
  assert.deepEqual((await get('one')).output.paid, { amount: 3 });
  assert.equal((await call('resume', { instance: 'one' })).code, 'workflow_conflict');
  assert.equal((await call('create', { instance: 'one' })).code, 'workflow_conflict');
  assert.notEqual((await call('restart', { instance: 'one' })).status, 'complete');
  assert.equal((await call('terminate', { instance: 'one' })).status, 'terminated');
  assert.equal(await call('delete', { instance: 'one' }), null);
  for (const verb of ['get', 'pause', 'delete'])
    assert.equal((await call(verb, { instance: 'one' })).code, 'workflow_instance_not_found', verb);

  await call('create', { instance: 'bad', params: { fails: true } });
  await hasEnded('bad');
  const { error, steps } = await get('bad');
  assert.deepEqual([error, steps[1].error.message], [{ name: 'TypeError', message: 'no till' }, 'no till']);
  await eventually(async () => {
    const { items } = await rpc('errors.list', { id: 'store', status: 'open' });
    return items.some(({ message, count }: Record<string, unknown>) => message === 'no till' && count === 1);
  }, 'the error of the step is listed, once');

  for (const instance of ['../../etc', 'a b', '', 'x'.repeat(101)])
    assert.equal((await call('create', { instance })).code, 'invalid_input', instance);
  assert.equal(
    (await rpc('workflows.instances.list', { id: 'store', workflow: '../do' })).code,
    'workflow_not_found',
  );
  const large = await call('create', { instance: 'large', params: 'x'.repeat(2 ** 20 + 8_000) });
  assert.equal(large.code, 'body_too_large');
  const { key } = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' }).then(({ id }) =>
    rpc('keys.create', { account: id }),
  );
  for (const verb of ['list', 'get', 'terminate'])
    assert.equal(
      (
        await rpc(
          `workflows.instances.${verb}`,
          { id: 'store', workflow: 'orders', ...(verb !== 'list' && { instance: 'bad' }) },
          { key },
        )
      ).code,
      'forbidden',
    );
});

test('Wrangler deploys a project with Workflows, and controls its instances', async () => {
  const project = new Project(cellar, {
    'wrangler.json': JSON.stringify({
      ...JSON.parse(CONFIG('drive')),
      workflows: [{ binding: 'RIDES', name: 'rides', class_name: 'Order', limits: { steps: 3 } }],
    }),
    'index.js': CODE,
  });
  const wrangler = async (...words: string[]) => {
    const { code, stdout, stderr } = await project.wrangler(...words);
    assert.equal(code, 0, `${words.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  assert.match(await wrangler('deploy'), /workflow: rides/);
  const live = (await cellar.call('GET', '/v1/apps/drive/deploys')).body.items;
  assert.deepEqual(
    live.map(({ message }: { message: string }) => message),
    ['Settings of the Workflow rides', ''],
  );
  const flows = (...words: string[]) => wrangler('workflows', ...words);
  const instances = (verb: string, ...words: string[]) => flows('instances', verb, 'rides', ...words);
  const status = async () =>
    (await rpc('workflows.instances.get', { id: 'drive', workflow: 'rides', instance: 'r1' })).status;
  const trigger = await flows('trigger', 'rides', '{"waits":true}', '--id', 'r1');
  assert.match(trigger, /"r1" has been queued/);
  await eventually(async () => (await status()) === 'waiting', 'it waits');
  const [{ created_on }] = JSON.parse(await instances('list', '--json'));
  const before = new Date(Date.parse(created_on) - 1).toISOString();
  const [list, described, listed, earlier, instance] = await Promise.all([
    flows('list'),
    flows('describe', 'rides'),
    instances('list', '--date-start', created_on, '--date-end', created_on),
    instances('list', '--date-end', before, '--json'),
    instances('describe', 'latest'),
  ]);
  assert.match(list, /rides\W+drive\W+Order/);
  assert.match(described, /Script Name:\s+drive/);
  assert.match(listed, /r1.*Waiting/);
  assert.deepEqual(JSON.parse(earlier), []);
  assert.match(instance, /begin-1.*Waiting for event/s);
  await instances('pause', 'r1');
  assert.equal(await status(), 'paused');
  await instances('resume', 'r1');
  await instances('send-event', 'r1', '--type', 'paid', '--payload', '{"a":1}');
  await eventually(async () => (await status()) === 'complete', 'it has ended');
  await instances('restart', 'r1', '--from-step-name', 'begin');
  await instances('terminate', 'r1');
  assert.equal(await status(), 'terminated');
  await instances('delete', 'r1');
  assert.equal(await status(), undefined);
});

test('after kill -9 of everything a sleeping instance ends in time, and an interrupted step runs again', async () => {
  await push('lasting');
  const create = (instance: string, params: object) =>
    rpc('workflows.instances.create', { id: 'lasting', workflow: 'orders', instance, params });
  const read = (instance: string) =>
    rpc('workflows.instances.get', { id: 'lasting', workflow: 'orders', instance });
  const from = Date.now();
  await create('asleep', { sleep: NAP_MS });
  await create('working', { work: 20_000 });
  await eventually(async () => (await read('working')).steps.length === 2, 'it works');
  await eventually(async () => (await read('asleep')).status === 'waiting', 'it sleeps');
  await cellar.stop('SIGKILL');
  await cellar.start();
  const back = Date.now() - from;
  for (const instance of ['asleep', 'working'])
    await eventually(async () => (await read(instance)).status === 'complete', `${instance} has ended`);
  const { took } = (await read('asleep')).output;
  assert.ok(took < Math.max(NAP_MS, back) + LATE_MS, `${took} ms`);
  const { steps } = await read('working');
  assert.deepEqual(
    steps.map(({ attempts }: { attempts: number }) => attempts),
    [1, 2],
  );
});
