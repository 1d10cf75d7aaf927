import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Release, Workflow } from '../../../bundler/release.ts';
import { type Harness, harness } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';

/**
 * `/create?id=…&…` makes an instance. The other parameters decide what `run()` does. `/?id=…` returns its status.
 * `/event?id=…` sends an event that it may wait for. `/pause`, `/resume`, `/restart` and `/terminate` do so.
 */
const CODE = (version: string) => `
import { WorkflowEntrypoint } from 'cloudflare:workers';
import { NonRetryableError } from 'cloudflare:workflows';
export class Order extends WorkflowEntrypoint {
  async run({ payload, instanceId }, step) {
    console.log('run of ' + instanceId + ' in ${version}');
    const first = await step.do('first', async () => {
      console.log('first of ' + instanceId + ' in ${version}');
      return { at: Date.now(), secret: payload.secret };
    });
    if (payload.work) await step.do('work', { retries: { limit: 3, delay: 100 } }, async ({ attempt }) => {
      console.log('work of ' + instanceId + '/' + attempt + ' in ${version}');
      await scheduler.wait(Number(payload.work));
    });
    if (payload.fails) await step.do('fails', { retries: { limit: Number(payload.fails), delay: 50, backoff: 'constant' } }, async ({ attempt }) => {
      console.log('fails ' + attempt);
      throw new Error('the till is locked');
    });
    if (payload.once) await step.do('once', async () => { throw new NonRetryableError('never again'); });
    if (payload.declined) await step.do('declined', async () => { throw new NonRetryableError('no use', 'CardDeclined'); });
    if (payload.silent) await step.do('silent', async () => { throw new NonRetryableError(''); });
    for (let at = 0; at < (payload.steps ?? 0); at++) await step.do('step ' + at, async () => at);
    if (payload.slow) await step.do('slow', { timeout: 200, retries: { limit: 0, delay: 0 } }, () => scheduler.wait(60_000));
    if (payload.sleep) await step.sleep('nap', Number(payload.sleep));
    const woke = Date.now();
    if (payload.think) {
      console.log('thinks of ' + instanceId);
      await scheduler.wait(Number(payload.think));
    }
    let event = null;
    if (payload.wait) event = (await step.waitForEvent('paid', { type: 'paid', timeout: Number(payload.wait) })).payload;
    console.log('end of ' + instanceId + ' in ${version}');
    return { first: first.at, woke, event, version: '${version}' };
  }
}
export default {
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    const { id, ...params } = Object.fromEntries(searchParams);
    if (pathname === '/nothing') return new Response('nothing');
    try {
      if (pathname === '/create') return Response.json({ id: (await env.ORDERS.create({ id, params })).id });
      if (pathname === '/batch') return Response.json((await env.ORDERS.createBatch([{ id: 'b1' }, { id: 'b2' }, { id: 'b1' }])).map(({ id }) => id));
      const instance = await env.ORDERS.get(id);
      if (pathname === '/event') await instance.sendEvent({ type: 'paid', payload: params });
      else if (pathname !== '/') await instance[pathname.slice(1)]();
      return Response.json(await instance.status());
    } catch (error) {
      return Response.json({ refused: error.message });
    }
  },
};`;

const WORKFLOWS: Workflow[] = [{ binding: 'ORDERS', name: 'orders', className: 'Order' }];
/** The timeout for a busy machine; an idle one takes less than a second. */
const LATE_MS = 20_000;

/** The app's response: the status of an instance, else the result of the request. */
interface Status {
  status: string;
  output: { first: number; woke: number; event: unknown; version: string };
  error: { name: string; message: string };
  refused: string;
}

interface Orders extends Harness {
  json: (path: string) => Promise<Status>;
  /** Resolves with the status of an instance after its end. */
  ended: (id: string) => Promise<Status>;
}

function release(root: string, version = 'v1', fields: Partial<Release> = {}) {
  const own = { exports: ['default', 'Order'], workflows: WORKFLOWS, ...fields };
  return makeRelease(`${root}/release-${version}`, CODE(version), own);
}

async function orders(t: TestContext, idleMs = Number.POSITIVE_INFINITY): Promise<Orders> {
  const app = harness(t, { idleMs });
  await app.fleet.start(await release(app.root));
  const json: Orders['json'] = async (path) => {
    const { status, text } = await app.ask(path);
    assert.equal(status, 200, text);
    return JSON.parse(text);
  };
  const ended: Orders['ended'] = async (id) => {
    for (;;) {
      const status = await json(`/?id=${id}`);
      if (['complete', 'errored', 'terminated'].includes(status.status)) return status;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  return { ...app, json, ended };
}

/** Runs the fleet's checks as the host's timer does, but more often. */
function runClock(t: TestContext, { tick }: Harness): void {
  const timer = setInterval(tick, 20);
  t.after(() => clearInterval(timer));
}

const said = ({ lines }: Harness, words: string) =>
  lines.filter((line) => line.startsWith('{') && line.includes(words));

test('instances run their steps, wait for events and report their result', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=a&wait=60000');
  assert.deepEqual(await app.json('/create?id=a'), {
    refused: 'WorkflowError: (instance.already_exists) Workflow instance with id "a" already exists',
  });
  await app.until(() => said(app, 'first of a').length === 1);
  await app.json('/event?id=a&amount=3');
  const { status, output } = await app.ended('a');
  assert.equal(status, 'complete');
  assert.deepEqual(output.event, { amount: '3' });
  assert.deepEqual(await app.json('/batch'), ['b1', 'b2']);
  assert.equal((await app.ended('b2')).status, 'complete');
});

test("a step is retried as configured, and each failed attempt is reported once with the app's own message", async (t) => {
  const app = await orders(t);
  await app.json('/create?id=f&fails=2&secret=hunter2');
  const failed = await app.ended('f');
  assert.deepEqual([failed.status, failed.error.message], ['errored', 'the till is locked']);
  assert.equal(said(app, 'fails ').length, 3);
  const told = app.lines.flatMap((line) => /\\u001ecellar (\{.*?\})\\u001e/.exec(line)?.[1] ?? []);
  const errors = told.map((each) => JSON.parse(JSON.parse(`"${each}"`)).error).filter(Boolean);
  const attempts = errors.filter(({ handler }) => handler === 'Order, step fails');
  assert.equal(attempts.length, 3);
  assert.match(attempts[0].stack, /^Error: the till is locked\n +at .*app\.js/);
  // What run() throws is the error of its step: both have the same id.
  const run = errors.filter(({ handler }) => handler === 'Order.run');
  assert.deepEqual(
    run.map(({ id }) => id),
    [attempts[2].id],
  );

  await app.json('/create?id=n&once=1');
  assert.equal((await app.ended('n')).error.message, 'never again');
  await app.json('/create?id=s&slow=1');
  assert.match((await app.ended('s')).error.message, /timed out after 200ms/);
  assert.deepEqual(said(app, 'hunter2'), [], 'no parameter and no output comes to the log');
});

test('a NonRetryableError of any name, or without a message, is not retried', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=d&declined=1');
  await app.json('/create?id=q&silent=1');
  const declined = await app.ended('d');
  assert.deepEqual([declined.status, declined.error.message], ['errored', 'CardDeclined: no use']);
  assert.equal((await app.ended('q')).status, 'errored');
});

test('an app responds while an instance takes many quick steps', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=many&steps=1000');
  let answered = 0;
  while ((await app.json('/?id=many')).status !== 'complete') answered++;
  assert.ok(answered > 5, `${answered} answers meanwhile`);
});

test('instances are paused, resumed, restarted and terminated', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=p&wait=59000');
  await app.until(() => said(app, 'first of p').length === 1);
  assert.equal((await app.json('/pause?id=p')).status, 'paused');
  assert.notEqual((await app.json('/resume?id=p')).status, 'paused');
  await app.json('/restart?id=p');
  await app.until(() => said(app, 'first of p').length === 2);
  assert.equal((await app.json('/terminate?id=p')).status, 'terminated');
  assert.match((await app.json('/terminate?id=p')).refused, /finite state/);
  for (const id of ['../x', '', 'a'.repeat(101), 'é'])
    assert.match((await app.json(`/create?id=${encodeURIComponent(id)}`)).refused, /invalid id/);
  assert.match((await app.json('/?id=nobody')).refused, /not_found/);
});

test('a sleep survives the hibernation of the app and ends in time; a step keeps the process', async (t) => {
  const app = await orders(t, 0);
  runClock(t, app);
  await app.json('/create?id=h&work=1500&sleep=4000');
  await app.rested();
  assert.equal(said(app, 'work of h/1').length, 1);
  assert.deepEqual(said(app, 'work of h/2'), [], 'the process stayed for the step');
  await app.until(() => said(app, 'end of h').length === 1);
  const { output } = await app.ended('h');
  const late = output.woke - output.first - 1500 - 4000;
  assert.ok(late >= 0 && late < LATE_MS, `${late} ms late`);
  assert.equal(said(app, 'first of h').length, 1, 'a step that has ended does not run again');
  t.diagnostic(`the sleep ended ${late} ms late`);
});

test('an interrupted instance resumes at once: after kill -9 and in the next release', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=k&work=700');
  await app.until(() => said(app, 'work of k/1 in v1').length === 1);
  process.kill(app.fleet.pid!, 'SIGKILL');
  await app.until(() => said(app, 'work of k/2 in v1').length === 1, LATE_MS);
  assert.equal((await app.ended('k')).status, 'complete');
  assert.equal(said(app, 'first of k').length, 1);

  await app.json('/create?id=d&work=700');
  await app.json('/create?id=w&wait=50000');
  await app.until(() => said(app, 'work of d/1 in v1').length === 1);
  await app.fleet.swap(await release(app.root, 'v2'), { commit: async () => {}, log: () => {} });
  await app.until(() => said(app, 'work of d/2 in v2').length === 1, LATE_MS);
  assert.equal((await app.ended('d')).output.version, 'v2');
  await app.json('/event?id=w');
  assert.equal((await app.ended('w')).output.version, 'v2');
});

test('kill -9 between the end of a sleep and the next step loses no instance', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=g&sleep=100&think=1000');
  await app.until(() => said(app, 'thinks of g').length === 1);
  process.kill(app.fleet.pid!, 'SIGKILL');
  await app.until(() => said(app, 'end of g').length === 1, LATE_MS);
  assert.equal(said(app, 'first of g').length, 1);
});

test('an instance that waits long is evicted from memory, and its event resumes it without an error', async (t) => {
  const app = await orders(t);
  await app.json('/create?id=l&wait=3600000');
  await app.until(() => said(app, 'run of l').length === 1);
  for (let status = ''; status !== 'waiting'; ) ({ status } = await app.json('/?id=l'));
  await app.json('/event?id=l&amount=9');
  assert.deepEqual((await app.ended('l')).output.event, { amount: '9' });
  assert.equal(said(app, 'run of l').length, 2);
  assert.deepEqual(said(app, '"mechanism'), []);
});

test('a running step counts as an open stream; a step cut by app sleep resumes at once, and the app stays asleep', async (t) => {
  const app = await orders(t, 0);
  runClock(t, app);
  await app.json('/create?id=z&work=3000');
  await app.until(() => said(app, 'work of z/1').length === 1);
  await eventually(() => app.fleet.openStreams === 1, 'the step is known to be at work');
  await app.fleet.sleep();
  await app.until(() => said(app, 'work of z/2').length === 1, LATE_MS);
  assert.equal(app.fleet.asleep, true, 'it sleeps for everybody else');
  await app.until(() => said(app, 'end of z').length === 1);
  await app.rested();
  assert.equal(app.fleet.openStreams, 0);
});
