// Apps that use Durable Objects of other apps, on a real host.
import assert from 'node:assert/strict';
import { type EventEmitter, once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { cells, eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
const rpc = rpcOf(cellar);
const VISITOR = readFileSync('test/apps/visitor/index.js', 'utf8');
let rooms = '';
before(async () => {
  await cellar.start();
  rooms = await cellar.deploy('rooms', 'rooms');
  await cellar.deploy('visitor', 'visitor');
});
after(() => cellar[Symbol.asyncDispose]());

const ask = async (way: string, app = 'visitor') => {
  const { status, text } = await cellar.get(app, `/${way}`);
  assert.equal(status, 200, text);
  return JSON.parse(text);
};
const config = (script_name: string, class_name = 'Room', name = 'x') =>
  JSON.stringify({
    ...{ name, main: 'index.js', compatibility_date: '2026-10-01' },
    durable_objects: { bindings: [{ name: 'ROOM', class_name, script_name }] },
  });

test('objects of another app are the same for both', async () => {
  assert.deepEqual(await ask('add'), [20, 0]);
  assert.deepEqual((await ask('fetch')).slice(1), [202, 'yes', 'one two three', '3000000']);
  assert.deepEqual(await ask('errors'), ['RangeError: out of 6', 'TypeError: no such page']);
  const id = (await cellar.get('rooms', '/?name=sum')).text;
  assert.equal((await cellar.get('rooms', `/?id=${id}`)).text, '20');
});

test('a call wakes the app of the object, and a stopped app says so', async () => {
  for (const way of ['names', 'fetch']) {
    assert.equal((await cellar.call('POST', `/v1/apps/${rooms}/sleep`)).body.status, 'sleeping');
    await eventually(() => cells(rooms).length === 0, 'its process has gone');
    assert.ok(Array.isArray(await ask(way)), way);
    await eventually(async () => (await cellar.app(rooms)).status === 'running', 'its status is running');
  }
  await cellar.call('PATCH', `/v1/apps/${rooms}`, { desired_state: 'stopped' });
  assert.equal(await ask('add'), 'Error: The service rooms: The app is stopped.');
  await cellar.call('PATCH', `/v1/apps/${rooms}`, { desired_state: 'running' });
  assert.deepEqual(await ask('add'), [20, 0]);
});

test('a WebSocket goes from the browser through the app to the object', async () => {
  const socket = cellar.webSocket('visitor', '/socket');
  const emitter = socket as unknown as EventEmitter;
  const deadline = { signal: AbortSignal.timeout(30_000) };
  await once(emitter, 'open', deadline);
  const said = once(emitter, 'message', deadline);
  socket.send('hello');
  const [{ data }] = await said;
  assert.equal(data, '1: hello');
  socket.close();
});

test('a push refuses a class that the owner has not, and names the binding', async () => {
  const eve = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  assert.equal((await cellar.call('POST', '/v1/apps', { slug: 'eves', owner: eve.id })).status, 201);
  await cellar.create('empty');
  await cellar.create('lonely');
  const work = await cellar.checkout('visitor');
  const refused: [script: string, className: string, RegExp][] = [
    ['missing', 'Room', /"script_name" is missing, and the owner of this app has no app of that name/],
    ['eves', 'Room', /"script_name" is eves, and the owner of this app has no app of that name/],
    ['lonely', 'Room', /"script_name" is lonely, which is this app: leave "script_name" out/],
    ['empty', 'Room', /the live release of the app empty has no class Room: deploy it with the class first/],
    ['rooms', 'Admin', /the live release of the app rooms has no class Admin/],
    ['rooms', '__proto__', /the live release of the app rooms has no class __proto__/],
  ];
  for (const [script, className, why] of refused) {
    writeFileSync(`${work}/wrangler.jsonc`, config(script, className));
    await cellar.commit(work, `${script} ${className}`);
    const { stderr } = await cellar.push(work, 'lonely');
    assert.match(stderr, /durable_objects\.bindings: ROOM: /);
    assert.match(stderr, why);
  }
});

test('a class that is gone from the other app is an error of the call', async () => {
  const code = 'export default { fetch: () => new Response("no rooms") };';
  const files = {
    'index.js': code,
    'wrangler.jsonc': JSON.stringify({
      ...{ name: 'rooms', main: 'index.js', compatibility_date: '2026-10-01' },
      migrations: [
        { tag: 'v1', new_sqlite_classes: ['Room'] },
        { tag: 'v2', deleted_classes: ['Room'] },
      ],
    }),
  };
  await cellar.deployAgain('rooms', 'rooms', files);
  assert.equal(await ask('add'), 'Error: The app has no class Room of Durable Objects.');
});

test("Wrangler deploys an app with another app's class, and sees the binding", async () => {
  await cellar.deploy('halls', 'rooms');
  const project = new Project(cellar, {
    'wrangler.jsonc': config('halls', 'Room', 'guest'),
    'index.js': VISITOR,
  });
  const { code, stdout, stderr } = await project.wrangler('deploy');
  assert.equal(code, 0, stdout + stderr);
  assert.deepEqual(await ask('add', 'guest'), [20, 0]);
  const { owner } = await cellar.app('guest');
  const path = `/client/v4/accounts/${owner}/workers/scripts/guest/settings`;
  assert.deepEqual((await cellar.call('GET', path)).body.result.bindings, [
    { type: 'durable_object_namespace', name: 'ROOM', class_name: 'Room', script_name: 'halls' },
  ]);
  project.write({ 'wrangler.jsonc': config('halls', 'Nobody', 'guest') });
  const wrong = await project.wrangler('deploy');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stdout + wrong.stderr, /the live release of the app halls has no class Nobody/);
});
