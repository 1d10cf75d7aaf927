// Tail Workers, on a real host.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { uuidOf } from '../../handlers/contract/id.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { cells, eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
const rpc = rpcOf(cellar);
let tail = '';
let tailed = '';
before(async () => {
  await cellar.start();
  tail = await cellar.deploy('tail', 'tail');
  tailed = await cellar.deploy('tailed', 'tailed');
});
after(() => cellar[Symbol.asyncDispose]());

// biome-ignore lint/suspicious/noExplicitAny: events have many shapes.
type Item = Record<string, any>;

/** Returns the events that the tail Worker `app` got since its process began. */
async function events(app = 'tail'): Promise<Item[]> {
  return JSON.parse((await cellar.get(app)).text).events;
}

/** Waits until the tail Worker `app` has a matching event, and returns it. */
async function event(matches: (item: Item) => boolean, app = 'tail'): Promise<Item> {
  let found: Item | undefined;
  await eventually(async () => {
    found = (await events(app)).find(matches);
    return found !== undefined;
  }, 'the tail Worker has the event');
  return found!;
}

const pathOf = ({ event }: Item) => event.request && new URL(event.request.url).pathname;
const messages = ({ logs }: Item) => logs.map(({ message }: Item) => message);
const config = (service: string, more: object = {}) =>
  JSON.stringify({
    ...{ name: 'x', main: 'index.js', compatibility_date: '2026-10-01' },
    ...{ tail_consumers: [{ service }], ...more },
  });

test('a tail Worker gets requests, logs, exceptions, crons and messages, and none of the host', async () => {
  await cellar.get('tailed', '/throws');
  await cellar.get('tailed', '/queue');
  const thrown = await event((item) => pathOf(item) === '/throws');
  assert.equal(thrown.event.request.url, `http://tailed.localhost:${cellar.edgePort}/throws`);
  assert.deepEqual(
    [thrown.outcome, thrown.scriptName, messages(thrown)],
    ['exception', 'tailed', [['before']]],
  );
  const [exception] = thrown.exceptions;
  assert.deepEqual([exception.name, exception.message], ['RangeError', 'thrown']);
  assert.doesNotMatch(exception.stack, /cellar-/);
  const { live_deploy_id } = await cellar.app(tailed);
  assert.deepEqual(thrown.scriptVersion, { id: uuidOf(live_deploy_id) });
  const consumed = await event((item) => item.event.queue === 'jobs');
  assert.deepEqual([consumed.event.batchSize, messages(consumed)], [1, [['got', 'a job']]]);
  await rpc('crons.run', { id: tailed, cron: '0 0 1 1 *' });
  const ran = await event((item) => item.event.cron !== undefined);
  assert.deepEqual(
    [ran.event.cron, ran.outcome, messages(ran)],
    ['0 0 1 1 *', 'exception', [['runs', '0 0 1 1 *']]],
  );
  assert.deepEqual(
    ran.exceptions.map(({ name, message }: Item) => [name, message]),
    [['Error', 'the cron failed']],
  );
  const foreign = (await events()).filter(({ entrypoint }) => /^Cellar/.test(entrypoint ?? ''));
  assert.deepEqual(foreign, []);
});

test('an event wakes the app with the tail Worker, whose errors are its own', async () => {
  assert.equal((await cellar.call('POST', `/v1/apps/${tail}/sleep`)).body.status, 'sleeping');
  await eventually(() => cells(tail).length === 0, 'its process has gone');
  assert.equal((await cellar.get('tailed', '/failsInTail')).status, 201);
  await eventually(async () => (await cellar.app(tail)).status === 'running', 'the event woke it');
  await event((item) => pathOf(item) === '/failsInTail');
  const errors = async (id: string) => (await rpc('errors.list', { id, status: 'open' })).items;
  await eventually(async () => (await errors(tail)).length === 1, 'its error is listed');
  assert.equal((await errors(tail))[0].message, 'the tail Worker failed');
  assert.ok((await errors(tailed)).every(({ message }: Item) => message !== 'the tail Worker failed'));
});

test('an app that sleeps sends its last events first', async () => {
  await cellar.get('tailed', '/last');
  assert.equal((await cellar.call('POST', `/v1/apps/${tailed}/sleep`)).body.status, 'sleeping');
  await event((item) => pathOf(item) === '/last');
});

test('a stopped or deleted app gets no events, the log says so, and requests are answered', async () => {
  await cellar.deploy('gone', 'tail');
  const producer = await cellar.deploy('orphan', 'hello', { 'wrangler.jsonc': config('gone') });
  const gone = await cellar.app('gone');
  await cellar.call('PATCH', `/v1/apps/${gone.id}`, { desired_state: 'stopped' });
  const warned = (why: RegExp) =>
    eventually(async () => {
      const { status } = await cellar.get('orphan');
      assert.equal(status, 200);
      const { items } = (await cellar.call('GET', `/v1/apps/${producer}/logs?search=tail_consumers`)).body;
      return items.some(({ text }: Item) => why.test(text));
    }, 'the log has a warning');
  await warned(
    /^tail_consumers: \d+ events did not reach the app gone: The service gone: The app is stopped\./,
  );
  assert.equal((await cellar.call('DELETE', `/v1/apps/${gone.id}`)).status < 300, true);
  // A process warns only once a minute, so the app sleeps to get a new one.
  await cellar.call('POST', `/v1/apps/${producer}/sleep`);
  await warned(/did not reach the app gone: There is no app gone of the same owner\./);
});

test('two apps that are tail Workers of each other make no loop', async () => {
  const code = readFileSync('test/apps/tail/index.js', 'utf8');
  await cellar.deploy('left', 'tail');
  await cellar.deploy('right', 'tail', { 'index.js': code, 'wrangler.jsonc': config('left') });
  await cellar.deployAgain('left', 'tail', { 'wrangler.jsonc': config('right') });
  await cellar.get('left', '/one');
  await event((item) => pathOf(item) === '/one', 'right');
  // This test's requests to each of them are events for the other. If calls of `tail()` were events too, they would never end.
  const seen = (await events('right')).length;
  let asked = 0;
  await eventually(async () => {
    asked++;
    return (await events('left')).some((item) => pathOf(item) === '/' && item.scriptName === 'right');
  }, 'the request to the right is an event for the left');
  await cellar.get('left', '/two');
  asked++;
  await event((item) => pathOf(item) === '/two', 'right');
  const more = (await events('right')).length - seen;
  assert.ok(more <= asked, `${more} events for ${asked} requests`);
});

test('a push refuses a tail Worker that the owner does not have, and the app itself', async () => {
  const eve = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  assert.equal((await cellar.call('POST', '/v1/apps', { slug: 'eves', owner: eve.id })).status, 201);
  await cellar.create('lonely');
  const work = await cellar.checkout('hello');
  for (const [service, why] of [
    ['missing', /tail_consumers: missing: the owner of this app has no app of that name/],
    ['eves', /tail_consumers: eves: the owner of this app has no app of that name/],
    ['lonely', /tail_consumers: lonely is this app: name another app/],
  ] as const) {
    writeFileSync(`${work}/wrangler.jsonc`, config(service));
    await cellar.commit(work, service);
    const { stderr } = await cellar.push(work, 'lonely');
    assert.match(stderr, why);
    assert.doesNotMatch(stderr, /▸ install/);
  }
});

test('Wrangler deploys an app with a tail Worker, and sees it', async () => {
  const project = new Project(cellar, {
    'wrangler.jsonc': config('tail', { name: 'guest' }),
    'index.js': "export default { fetch() { console.log('by Wrangler'); return new Response('ok'); } };",
  });
  const { code, stdout, stderr } = await project.wrangler('deploy', '--tag', 'v7');
  assert.equal(code, 0, stdout + stderr);
  await cellar.get('guest', '/');
  const got = await event(({ scriptName }) => scriptName === 'guest');
  assert.deepEqual(messages(got), [['by Wrangler']]);
  const { owner } = await cellar.app('guest');
  const path = `/client/v4/accounts/${owner}/workers/scripts/guest/settings`;
  assert.deepEqual((await cellar.call('GET', path)).body.result.tail_consumers, [{ service: 'tail' }]);
  project.write({ 'wrangler.jsonc': config('nobody', { name: 'guest' }) });
  const wrong = await project.wrangler('deploy');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stdout + wrong.stderr, /tail_consumers: nobody: the owner of this app has no app/);
});
