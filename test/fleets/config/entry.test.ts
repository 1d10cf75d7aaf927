// The entry module that wraps a Worker's exports is invisible to the app. Each case runs in workerd.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { WebSocket } from 'undici';
import type { Release } from '../../../bundler/release.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { readLogEnvelope } from '../../../runtime/telemetry/logs/log-envelope.ts';
import { call, cellOptions, entry, makeRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const CLASSES = `
import { DurableObject, RpcTarget, WorkerEntrypoint, env as imported } from 'cloudflare:workers';

class Base extends DurableObject {
  static kind = 'static of the base';
  inherited() { return 'inherited ' + this.own(); }
}
export class Room extends Base {
  static #secret = 'private static';
  static made = 0;
  #field = 'private field';
  constructor(ctx, env) {
    super(ctx, env);
    Room.made++;
    ctx.blockConcurrencyWhile(async () => { this.ready = 'ready'; });
  }
  own() { return 'own'; }
  look() {
    return {
      same: this.constructor === Room, instance: this instanceof Room && this instanceof Base && this instanceof DurableObject,
      name: this.constructor.name, kind: this.constructor.kind, secret: this.constructor.readSecret(this.constructor),
      field: this.#field, ready: this.ready, id: this.ctx.id.name, vars: this.env.TITLE, newTarget: Room.made > 0,
    };
  }
  static readSecret(of) { return of.#secret; }
  fail() { throw new TypeError('told'); }
  counter() { return new Counter(); }
  get title() { return 'a getter'; }
  async fetch(request) {
    if (request.headers.get('upgrade') !== 'websocket') return new Response('object ' + new URL(request.url).pathname);
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, message) { socket.send('echo ' + message + ' ' + this.own()); }
  webSocketClose(socket, code) { console.log('closed ' + code); socket.close(code); }
  async remind() { await this.ctx.storage.setAlarm(Date.now()); }
  async alarm() { await this.ctx.storage.put('rang', this.own()); }
  async rang() { return (await this.ctx.storage.get('rang')) ?? null; }
  later() { this.ctx.waitUntil(scheduler.wait(2000).then(() => console.log('the object worked on'))); }
}
class Counter extends RpcTarget { #n = 0; add() { return ++this.#n; } }

/** Objects in the style from before there was a base class to extend. */
export class Old {
  constructor(state, env) { this.state = state; this.env = env; }
  fetch() { return new Response('old ' + this.env.TITLE + (this.state.id.name ?? '')); }
}

export class Named extends WorkerEntrypoint {
  hi(name) { return ['hi', name, this.env.TITLE, this.constructor === Named, typeof this.ctx.waitUntil].join(' '); }
  later() { this.ctx.waitUntil(scheduler.wait(2000).then(() => console.log('the entrypoint worked on'))); return 'soon'; }
  fetch() { return new Response('named'); }
}
export const handlers = { text: 'an object', fetch() { return new Response(this.text); } };
export function helper() {}
export { Named as 'a name: of "any" kind' };
`;

const MAIN = `
async function answer(request, env, ctx) {
  const { pathname } = new URL(request.url);
  const room = env.ROOM.getByName('one');
  if (pathname === '/room') return Response.json(await room.look());
  if (pathname === '/rpc') {
    using counter = await room.counter();
    await counter.add();
    const failed = await room.fail().catch((error) => error instanceof TypeError && error.message);
    return Response.json([await room.inherited(), await room.title, await counter.add(), failed]);
  }
  if (pathname === '/fetch') return room.fetch('http://room/path');
  if (pathname === '/socket') return room.fetch(request);
  if (pathname === '/remind') return Response.json((await room.remind()) ?? null);
  if (pathname === '/rang') return Response.json(await room.rang());
  if (pathname === '/later') return Response.json([await room.later(), await ctx.exports.Named.later()]);
  if (pathname === '/cron') return Response.json(await ctx.exports.default.scheduled({ cron: '* * * * *' }));
  if (pathname === '/old') return env.OLD.getByName('two').fetch(request);
  if (pathname === '/named') {
    const { Named, handlers, ['a name: of "any" kind']: any } = ctx.exports;
    const texts = await Promise.all([Named, handlers].map(async (entry) => (await entry.fetch('http://x/')).text()));
    return Response.json([await Named.hi('you'), await any.hi('any'), ...texts, imported.TITLE, Object.keys(ctx.exports).filter((name) => !name.startsWith('Cellar')).sort()]);
  }
  return new Response('main');
}`;

const FORMS: Record<string, string> = {
  'an object': 'export default { fetch: answer, scheduled, queue };',
  'a frozen object': 'export default Object.freeze({ fetch: answer, scheduled, queue });',
  'an instance': `class App {
    #answer = answer;
    fetch(...all) { return this.#answer(...all); }
    scheduled(...all) { return scheduled(...all); }
    queue(...all) { return queue(...all); }
  }
  export default new App();`,
  'a class': `export default class Main extends WorkerEntrypoint {
    #answer = answer;
    fetch(request) { return this.#answer(request, this.env, this.ctx); }
    scheduled(event) { return scheduled(event, this.env); }
    queue(batch) { return queue(batch, this.env); }
  }`,
};

const FIELDS: Partial<Release> = {
  // Lets a test call the cron handler as workerd's own crons do.
  worker: { ...entry('app.js'), compatibilityFlags: ['service_binding_extra_handlers'] },
  vars: { TITLE: 'title' },
  classes: [
    { className: 'Room', storageId: 'room', sql: true },
    { className: 'Old', storageId: 'old', sql: false },
  ],
  durableObjects: [
    { binding: 'ROOM', className: 'Room' },
    { binding: 'OLD', className: 'Old' },
  ],
  triggers: {
    crons: [],
    producers: [{ binding: 'QUEUE', queue: 'q' }],
    consumers: [{ queue: 'q', maxBatchSize: 1, maxBatchTimeout: 0 }],
  },
};
const EXPORTS = ['default', 'Room', 'Old', 'Named', 'handlers', 'helper', 'a name: of "any" kind'];
const EVENTS = `
async function scheduled(event, env) { console.log('cron ' + event.cron); await env.QUEUE.send('from the cron'); }
async function queue(batch, env) { console.log('batch of ' + batch.queue + ': ' + batch.messages[0].body); batch.ackAll(); }
`;

interface Started {
  cell: Cell;
  lines: string[];
  get: (path: string) => Promise<{ status: number; text: string }>;
}

async function started(
  t: TestContext,
  code: string,
  fields: Partial<Release> = { ...FIELDS, exports: EXPORTS },
): Promise<Started> {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, code, fields);
  const lines: string[] = [];
  const cell = await startCell({
    ...(await cellOptions(root, directory)),
    output: lineSink((line) => lines.push(line)),
  });
  t.after(() => cell.stop());
  return { cell, lines, get: (path) => call(cell.socketPath('http'), path) };
}

for (const [form, main] of Object.entries(FORMS)) {
  test(`a Worker whose default export is ${form} is entered in every way as without the entry module`, async (t) => {
    const { cell, lines, get } = await started(t, CLASSES + EVENTS + MAIN + main);
    const json = async (path: string) => {
      const { text } = await get(path);
      return JSON.parse(text);
    };
    assert.equal((await get('/')).text, 'main');
    assert.deepEqual(await json('/room'), {
      same: true,
      instance: true,
      name: 'Room',
      kind: 'static of the base',
      secret: 'private static',
      field: 'private field',
      ready: 'ready',
      id: 'one',
      vars: 'title',
      newTarget: true,
    });
    assert.deepEqual(await json('/rpc'), ['inherited own', 'a getter', 2, 'told']);
    assert.equal((await get('/fetch')).text, 'object /path');
    assert.equal((await get('/old')).text, 'old titletwo');
    assert.deepEqual(await json('/named'), [
      'hi you title true function',
      'hi any title true function',
      'named',
      'an object',
      'title',
      ['Named', 'Old', 'Room', 'a name: of "any" kind', 'default', 'handlers', 'helper'],
    ]);
    await json('/remind');
    await eventually(async () => (await json('/rang')) === 'own', 'the alarm rings');
    const logged = (text: string) => () => lines.some((line) => line.includes(text));
    assert.equal((await json('/cron')).outcome, 'ok');
    await eventually(logged('cron * * * * *'), 'the cron runs');
    await eventually(logged('batch of q: from the cron'), 'the batch comes');
    assert.equal(await echoed(cell), 'echo hello own');
    await eventually(logged('closed 1000'), 'the object hears of the end');
    const texts = () =>
      lines.flatMap((line) => {
        const envelope = readLogEnvelope(JSON.parse(line).message);
        // Lines with `calls` report what events waited for.
        return envelope?.said.calls === undefined ? [envelope?.text ?? line] : [];
      });
    const others = () => texts().filter((text) => !/^(cron|batch|closed)/.test(text));
    await eventually(() => others().length > 0, 'the error is told');
    assert.equal(others().length, 1);
    assert.match(others()[0]!, /^TypeError: told\n {4}at Room\.fail \(app\.js:/);
  });
}

/** Returns what a hibernatable WebSocket of the object answers. */
async function echoed(cell: Cell): Promise<string> {
  const { Agent } = await import('undici');
  const dispatcher = new Agent({ connect: { socketPath: cell.socketPath('http') } });
  const socket = new WebSocket('ws://cell/socket', { dispatcher });
  await once(socket, 'open');
  const answered = once(socket, 'message') as Promise<[{ data: string }]>;
  socket.send('hello');
  const [{ data }] = await answered;
  const closed = once(socket, 'close');
  socket.close(1000);
  await closed;
  await dispatcher.close();
  return data;
}

test('work of objects and entrypoints after their answers is counted', async (t) => {
  const { cell, lines, get } = await started(t, CLASSES + EVENTS + MAIN + FORMS['an object']);
  await get('/later');
  assert.equal(await cell.workAfterAnswers(30_000), 2);
  await eventually(async () => (await cell.workAfterAnswers(30_000)) === 0, 'the work ends');
  for (const who of ['object', 'entrypoint'])
    await eventually(() => lines.some((line) => line.includes(`the ${who} worked on`)), `the ${who} ends`);
});

test('a release that does not name its exports has all of them', async (t) => {
  const { get } = await started(t, CLASSES + EVENTS + MAIN + FORMS['an object'], FIELDS);
  assert.equal(JSON.parse((await get('/room')).text).same, true);
  assert.equal(JSON.parse((await get('/named')).text)[0], 'hi you title true function');
});

test("an object's own method with the name email is one like others", async (t) => {
  const code = `import { DurableObject } from 'cloudflare:workers';
  export class Room extends DurableObject {
    email() { return 'ann@example.org'; }
    described() { return 'write to ' + this.email(); }
  }
  export default { async fetch(request, { ROOM }) {
    const room = ROOM.getByName('one');
    return Response.json([await room.email(), await room.described()]);
  } };`;
  const { get, lines } = await started(t, code, {
    exports: ['default', 'Room'],
    classes: [{ className: 'Room', storageId: 'room', sql: true }],
    durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  });
  assert.deepEqual(JSON.parse((await get('/')).text), ['ann@example.org', 'write to ann@example.org']);
  assert.doesNotMatch(lines.join(), /email from/);
});
