// What a Worker throws and prints, as its entry module reports it: with place, handler and the request's trace. Each case
// runs in workerd.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { readLogEnvelope } from '../../../runtime/telemetry/logs/log-envelope.ts';
import { started, TRACE } from '../../support/fleets/captured.ts';
import { call, cellOptions, entry, makeRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = `
import { DurableObject, RpcTarget, ServiceStub, WorkerEntrypoint, waitUntil } from 'cloudflare:workers';
class Counter extends RpcTarget {
  count(...values) { console.log('counted'); return values.length; }
  fail() { throw new RangeError('thrown by a target'); }
}
export class Other extends DurableObject {
  get odd() { return (...values) => values.length; }
  said() { console.log('said by another object'); }
}
export class Room extends DurableObject {
  constructor(ctx, env) { super(ctx, env); if (ctx.id.name === 'unlucky') throw new Error('no room'); }
  fail() { throw new TypeError('told'); }
  async failLater() { await scheduler.wait(1); throw new TypeError('told later'); }
  say(...values) { console.log('said in the object'); return values; }
  async pass(name) { await this.env.OTHER.getByName(name).said(); }
  odd(...values) { return values.length; }
  counter() { return new Counter(); }
  async call(back) { return back.fail(); }
  async later() { await scheduler.wait(1); return new (class Later extends Counter { fail() { throw new Error('thrown by a target of later'); } })(); }
  nested() { try { this.fail(); } catch { return 'caught'; } }
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/throw') throw new Error('thrown by an object');
    if (pathname === '/socket') {
      const { 0: client, 1: server } = new WebSocketPair();
      this.ctx.acceptWebSocket(server);
      return new Response(null, { status: 101, webSocket: client });
    }
    console.log('in the object', request.headers.get('traceparent')?.slice(3, 35));
    return new Response('x');
  }
  webSocketMessage() { throw new Error('thrown for a message'); }
  async webSocketClose() { throw new Error('thrown for a close'); }
  webSocketError() { throw new Error('thrown for a broken socket'); }
  async remind() { await this.ctx.storage.setAlarm(Date.now()); }
  alarm() { console.log('it rings'); if (!this.rang) { this.rang = true; throw new Error('thrown by an alarm'); } }
}
export class Named extends WorkerEntrypoint {
  fetch() { console.log('in the entrypoint'); return new Response('named'); }
  hi() { throw new RangeError('thrown by a method'); }
  say(...values) { console.log('said in the entrypoint'); return values; }
  get odd() { return (...values) => values.length; }
}
const SEEN = [];
export default {
  async fetch(request, env, ctx) {
    const { pathname } = new URL(request.url);
    const room = env.ROOM.getByName('one');
    if (pathname === '/throw') throw new Error('thrown in 100% of %s cases');
    if (pathname === '/text') throw 'only a text';
    if (pathname === '/nothing') throw undefined;
    if (pathname === '/cause') throw new Error('outer', { cause: new Error('inner') });
    if (pathname === '/reject') { Promise.reject(new Error('rejected')); await scheduler.wait(5); }
    if (pathname === '/waits') ctx.waitUntil(scheduler.wait(1).then(() => { console.log('after the answer'); throw new Error('thrown after'); }));
    if (pathname === '/rpc') return Response.json(await room.fail().catch((error) => [error.message, error instanceof TypeError]));
    if (pathname === '/rpc-throws') await room.failLater();
    if (pathname === '/methods') {
      const say = room.say;
      await room.pass('x');
      const counter = await room.counter();
      const given = [await room.say(1, { two: 2 }), await room.say(), await say('a'), await room.say('\\u001ecellar-traceparent mine')];
      return Response.json([...given, await room.odd(1), await env.OTHER.getByName('x').odd(1, 2), await counter.count(1), await room.counter().count(), typeof room.say]);
    }
    if (pathname === '/entrypoints') {
      const { exports } = ctx;
      const { say } = env.SELF;
      const given = [await exports.Named.say(1), await env.SELF.say(), await say({ a: 2 }), await env.SELF.odd(1), await exports.Named.odd(1, 2), await exports.Named({ props: { of: 1 } }).say(3)];
      return Response.json([...given, env.SELF instanceof ServiceStub, typeof env.SELF.then, (await env.SELF.fetch('http://own/')).status]);
    }
    if (pathname === '/target') await room.counter().fail();
    if (pathname === '/later') await (await room.later()).fail();
    if (pathname === '/back') await room.call(new (class Back extends RpcTarget { fail() { throw new Error('thrown by a call back'); } })());
    if (pathname === '/timer') { setTimeout(() => { throw new Error('thrown in a timer'); }, 1); await scheduler.wait(5); }
    if (pathname === '/interval') { const id = setInterval((x) => { clearInterval(id); throw new Error('thrown in an ' + x); }, 1, 'interval'); await scheduler.wait(5); }
    if (pathname === '/imported') waitUntil(scheduler.wait(1).then(() => { throw new Error('thrown after, imported'); }));
    if (pathname === '/nested') return Response.json(await room.nested());
    if (pathname === '/unlucky') await env.ROOM.getByName('unlucky').nested();
    if (pathname === '/object') return room.fetch('http://room/throw');
    if (pathname === '/remind') await room.remind();
    if (pathname === '/socket') return room.fetch(request);
    if (pathname === '/named') await ctx.exports.Named.hi();
    if (pathname === '/cron') return Response.json(await ctx.exports.default.scheduled({ cron: '* * * * *' }));
    if (pathname === '/queue') await env.QUEUE.send('x');
    if (pathname === '/console') { const error = new Error('printed'); console.error('it failed:', error, 7); throw error; }
    if (pathname === '/listener') {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept(); client.accept();
      server.addEventListener('message', () => { throw new Error('thrown by a listener'); });
      client.send('x');
      await scheduler.wait(5);
    }
    if (pathname === '/trace') {
      console.log('at first');
      await scheduler.wait(1);
      console.log('%s waits, %d times', 'it', 3, { a: 1 });
      console.log({ b: 2 }, '50%');
      console.log();
      setTimeout(() => console.log('in a timer'), 1);
      await room.fetch('http://room/');
      await room.fetch(new Request('http://room/', { method: 'POST', body: 'x' }));
      await ctx.exports.Named.fetch(request);
      await scheduler.wait(5);
    }
    if (pathname === '/hostile') {
      globalThis.Request = undefined;
      const error = new Error('x'.repeat(1_000_000));
      error.name = '\\u001b[31mred';
      Object.defineProperty(error, 'stack', { get() { throw new Error('no stack for you'); } });
      console.error(error);
      console.log('y'.repeat(1_000_000));
      const cyclic = {}; cyclic.self = cyclic;
      console.log(cyclic, null, undefined, Symbol('s'), 5n);
      for (const value of [cyclic, new Proxy({}, { get() { throw new Error('trap'); }, ownKeys() { throw new Error('trap'); } })]) Promise.reject(value);
      try { console.log('%s', { toString() { throw new Error('hostile'); } }); } catch (thrown) { console.log('as without the entry: ' + thrown.message); }
      throw Object.create(error, { message: { get() { throw new Error('no message either'); } } });
    }
    if (pathname === '/many') for (let i = 0; i < 300; i++) console.error(new Error('number ' + i));
    return new Response('fine');
  },
  async scheduled() { throw new Error('thrown by a cron'); },
  async queue() { throw new Error('thrown by a queue'); },
};
`;
const FIELDS: Partial<Release> = {
  worker: { ...entry('app.js'), compatibilityFlags: ['service_binding_extra_handlers'] },
  exports: ['default', 'Room', 'Named', 'Other'],
  classes: ['Room', 'Other'].map((className) => ({ className, storageId: className, sql: true })),
  durableObjects: [
    { binding: 'ROOM', className: 'Room' },
    { binding: 'OTHER', className: 'Other' },
  ],
  services: [{ binding: 'SELF', service: null, entrypoint: 'Named' }],
  triggers: {
    crons: [],
    producers: [{ binding: 'QUEUE', queue: 'q' }],
    consumers: [{ queue: 'q', maxBatchSize: 1, maxBatchTimeout: 0, maxRetries: 0 }],
  },
};
test('errors of every handler are reported with their place, handler and request', async (t) => {
  const { get, reported } = await started(t, APP, FIELDS);
  assert.equal((await get('/throw')).status, 500);
  const { id, stack, ...rest } = await reported('thrown in 100% of %s cases');
  assert.match(stack!, /^Error: thrown in 100% of %s cases\n {4}at .*\(app\.js:\d+:\d+\)/);
  assert.match(id, /^\w{4,8}$/);
  assert.deepEqual(rest, {
    type: 'Error',
    message: 'thrown in 100% of %s cases',
    mechanism: 'uncaught',
    handler: 'fetch',
    method: 'GET',
    path: '/throw',
    trace: TRACE,
  });
  for (const [path, message, expected] of [
    ['/text', 'only a text', { type: 'string', stack: null, mechanism: 'uncaught' }],
    ['/nothing', 'undefined', { type: 'undefined', stack: null }],
    ['/reject', 'rejected', { mechanism: 'unhandledrejection', path: '/reject', trace: TRACE }],
    ['/waits', 'thrown after', { mechanism: 'waitUntil', path: '/waits', trace: TRACE }],
    ['/rpc', 'told', { type: 'TypeError', handler: 'Room.fail', mechanism: 'uncaught', trace: TRACE }],
    ['/rpc-throws', 'told later', { handler: 'Room.failLater' }],
    ['/target', 'thrown by a target', { type: 'RangeError', handler: 'Counter.fail', trace: TRACE }],
    ['/later', 'thrown by a target of later', { handler: 'Later.fail', trace: TRACE }],
    ['/back', 'thrown by a call back', { handler: 'Back.fail', trace: TRACE }],
    ['/timer', 'thrown in a timer', { mechanism: 'uncaught', path: '/timer', trace: TRACE }],
    ['/interval', 'thrown in an interval', { mechanism: 'uncaught', path: '/interval', trace: TRACE }],
    ['/imported', 'thrown after, imported', { mechanism: 'waitUntil', path: '/imported', trace: TRACE }],
    ['/unlucky', 'no room', { handler: 'new Room' }],
    ['/object', 'thrown by an object', { handler: 'Room.fetch', path: '/throw', trace: TRACE }],
    ['/remind', 'thrown by an alarm', { handler: 'Room.alarm' }],
    ['/named', 'thrown by a method', { type: 'RangeError', handler: 'Named.hi' }],
    ['/cron', 'thrown by a cron', { handler: 'scheduled' }],
    ['/queue', 'thrown by a queue', { handler: 'queue' }],
    ['/listener', 'thrown by a listener', { mechanism: 'error event' }],
  ] as const) {
    await get(path);
    const error = await reported(message);
    assert.deepEqual({ ...error, ...expected }, error, path);
    if (error.type === 'Error') assert.match(error.stack!, /\(?app\.js:\d+:\d+\)?/, path);
  }
  assert.match((await get('/rpc')).text, /\["told",true\]/);
  await get('/cause');
  assert.match((await reported('outer')).stack!, /Error: outer\n.*Caused by: Error: inner\n {4}at/s);
});

for (const [event, message, handler, frame] of [
  // The bytes of WebSocket frames: type, length, mask, masked payload.
  ['a message', 'thrown for a message', 'Room.webSocketMessage', [0x81, 0x81, 0, 0, 0, 0, 0x78]],
  ['a close', 'thrown for a close', 'Room.webSocketClose', [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]],
  ['a frame of no known type', 'thrown for a broken socket', 'Room.webSocketError', [0x8f, 0x80, 0, 0, 0, 0]],
] as const) {
  test(`an error that an object throws for ${event} of a hibernatable WebSocket is reported`, async (t) => {
    const { cell, reported } = await started(t, APP, FIELDS);
    const headers = {
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    };
    const asked = request({ socketPath: cell.socketPath('http'), path: '/socket', headers });
    asked.end();
    const [, socket] = (await once(asked, 'upgrade')) as [unknown, Socket];
    socket.on('error', () => {});
    socket.write(Buffer.from(frame));
    const { stack, mechanism, ...error } = await reported(message).finally(() => socket.destroy());
    assert.match(stack!, /\(app\.js:\d+:\d+\)/);
    assert.deepEqual([mechanism, error.handler], ['uncaught', handler]);
    // The handler runs in an event of its own. Its trace is not that of the request that opened the socket.
    assert.match(String(error.trace), /^[0-9a-f]{32}$/);
    assert.notEqual(error.trace, TRACE);
  });
}

test('an error that is printed and thrown, or thrown through a caller of an object, has one id', async (t) => {
  const { get, lines, reported } = await started(t, APP, FIELDS);
  await get('/console');
  await get('/rpc-throws');
  await reported('told later');
  const ids = (message: string) => lines.filter(({ error }) => error?.message === message);
  await eventually(() => ids('printed').length === 2 && ids('told later').length === 2, 'all is told');
  const [printed, thrown] = ids('printed');
  assert.equal(printed!.error!.id, thrown!.error!.id);
  assert.equal(printed!.error!.mechanism, 'console');
  assert.match(printed!.text, /^it failed: Error: printed\n.* 7$/s);
  const [inside, outside] = ids('told later');
  assert.equal(inside!.error!.id, outside!.error!.id);
  assert.deepEqual(
    [outside!.error!.handler, outside!.error!.path, outside!.trace],
    ['fetch', '/rpc-throws', TRACE],
  );
});

test('an error that one object method catches from another is not reported', async (t) => {
  const { get, lines } = await started(t, APP, FIELDS);
  assert.equal((await get('/nested')).text, '"caught"');
  await get('/trace');
  assert.deepEqual(
    lines.filter(({ error }) => error !== undefined),
    [],
  );
});

test('libraries recognize the methods of an object that they have seen before', async (t) => {
  const code = `import { DurableObject } from 'cloudflare:workers';
    const seen = new WeakSet();
    export class Room extends DurableObject {
      #secret = 'kept';
      marked() { return [seen.has(this.marked), seen.has(Room.prototype.marked), this.constructor === Room, this.#secret]; }
      again() { Room.prototype.again = () => 'replaced'; return 'as it was'; }
      async fails() { throw new Error('a marked method'); }
    }
    seen.add(Room.prototype.marked);
    export default {
      async fetch(request, env) {
        const room = env.ROOM.getByName('one');
        if (request.url.includes('/fails')) await room.fails();
        return Response.json([...await room.marked(), await room.again(), await room.again()]);
      },
    };`;
  const { get, reported } = await started(t, code, {
    exports: ['default', 'Room'],
    classes: [{ className: 'Room', storageId: 'Room', sql: true }],
    durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  });
  assert.deepEqual(JSON.parse((await get('/')).text), [true, true, true, 'kept', 'as it was', 'replaced']);
  await get('/fails');
  assert.equal((await reported('a marked method')).handler, 'Room.fails');
});

test('an error while an object starts is reported', async (t) => {
  const code = `import { DurableObject } from 'cloudflare:workers';
    export class Room extends DurableObject {
      constructor(ctx, env) { super(ctx, env); void ctx.blockConcurrencyWhile(() => this.load()); }
      async load() { throw new Error('it cannot load'); }
      hi() {}
    }
    export default { async fetch(request, env) { await env.ROOM.getByName('one').hi(); } };`;
  const { get, reported } = await started(t, code, {
    exports: ['default', 'Room'],
    classes: [{ className: 'Room', storageId: 'Room', sql: true }],
    durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  });
  await get('/');
  const { handler, stack } = await reported('it cannot load');
  assert.equal(handler, 'blockConcurrencyWhile');
  assert.match(stack!, /load/);
});

test('printed lines of objects, entrypoints and timers belong to the trace of their request', async (t) => {
  const { get, lines } = await started(t, APP, FIELDS);
  await get('/trace');
  await get('/waits');
  await eventually(() => lines.some(({ text }) => text === 'after the answer'), 'waitUntil ends');
  const printed = lines.filter(({ error }) => error === undefined);
  assert.deepEqual(
    printed.map(({ text }) => text),
    [
      'at first',
      'it waits, 3 times { a: 1 }',
      '{ b: 2 } 50%',
      '',
      'in the object abcdef0123456789abcdef0123456789',
      'in the object abcdef0123456789abcdef0123456789',
      'in the entrypoint',
      'in a timer',
      'after the answer',
    ].sort(
      (a, b) => printed.findIndex(({ text }) => text === a) - printed.findIndex(({ text }) => text === b),
    ),
  );
  for (const { trace, text } of printed) assert.equal(trace, TRACE, text);
});

test('console methods that an app stored at load time print in the trace of the request', async (t) => {
  const code = `const { log } = console;
    export default { fetch() { log('taken before'); return new Response('x'); } };`;
  const { get, lines } = await started(t, code, { exports: ['default'] });
  await get('/');
  await eventually(() => lines.some(({ text }) => text === 'taken before'), 'it is printed');
  assert.equal(lines.find(({ text }) => text === 'taken before')!.trace, TRACE);
});

test('an object method runs in the trace of its caller and gets the arguments unchanged', async (t) => {
  const { get, lines } = await started(t, APP, FIELDS);
  const { text } = await get('/methods');
  assert.deepEqual(JSON.parse(text), [
    [1, { two: 2 }],
    [],
    ['a'],
    ['\u001ecellar-traceparent mine'],
    ...[1, 2, 1, 0, 'function'],
  ]);
  await eventually(() => lines.filter(({ text }) => text === 'counted').length === 2, 'all is printed');
  assert.deepEqual([...new Set(lines.map((line) => line.text))].sort(), [
    'counted',
    'said by another object',
    'said in the object',
  ]);
  for (const { trace, text: printed } of lines) assert.equal(trace, TRACE, printed);
});

test('an entrypoint method runs in the trace of its caller', async (t) => {
  const { get, lines } = await started(t, APP, FIELDS);
  const { text } = await get('/entrypoints');
  assert.deepEqual(JSON.parse(text), [[1], [], [{ a: 2 }], 1, 2, [3], true, 'undefined', 200]);
  const said = () => lines.filter(({ text }) => text === 'said in the entrypoint');
  await eventually(() => said().length === 4, 'all is printed');
  for (const { trace } of said()) assert.equal(trace, TRACE);
});

for (const compatibilityDate of ['2024-01-01', '2026-11-17'])
  test(`an imported waitUntil is observed, with the date ${compatibilityDate}`, async (t) => {
    const worker = { ...entry('app.js'), compatibilityDate };
    const code = `import*as all from "cloudflare:workers"; import { waitUntil, DurableObject as D } from 'cloudflare:workers';
export default { async fetch() {
  waitUntil(scheduler.wait(1).then(() => { throw new Error('thrown after'); })); all.waitUntil(new Promise(() => {}));
  return Response.json([typeof D, Object.keys(all).includes('env')]);
} }`;
    const { cell, get, reported } = await started(t, code, { worker, exports: ['default'] });
    assert.equal((await get('/')).text, '["function",true]');
    const { mechanism, stack, path } = await reported('thrown after');
    assert.deepEqual([mechanism, path], ['waitUntil', '/']);
    // The rewritten import keeps the columns of the release's module.
    assert.match(stack!, /app\.js:3:50\b/);
    assert.equal((await call(cell.socketPath('health'), '/')).text, '1', 'the other work is under way');
  });

test('an event without a trace gets a new one', async (t) => {
  const { get, lines, reported } = await started(t, APP, FIELDS);
  await get('/remind');
  const { trace } = await reported('thrown by an alarm');
  assert.match(String(trace), /^[0-9a-f]{32}$/);
  assert.notEqual(trace, TRACE);
  const rings = () => lines.find(({ text }) => text === 'it rings');
  await eventually(() => rings() !== undefined, 'its line is there');
  assert.equal(rings()!.trace, trace);
});

test('hostile values are printed and thrown as without the entry module, and reported within the limits', async (t) => {
  const { get, lines } = await started(t, APP, FIELDS);
  assert.equal((await get('/hostile')).status, 500);
  assert.equal((await get('/')).text, 'fine');
  for (const printed of [
    'as without the entry: hostile',
    '<ref *1> { self: [Circular *1] } null undefined Symbol(s) 5n',
  ])
    await eventually(() => lines.some(({ text }) => text === printed), `it is printed: ${printed}`);
  for (const { text, error } of lines)
    assert.ok(text.length < 40_000 && JSON.stringify(error ?? '').length < 20_000);
});

test('an app that throws endlessly gets some errors reported and the others counted', async (t) => {
  const { get, lines } = await started(t, APP, FIELDS);
  await get('/many');
  const errors = () => lines.filter(({ error }) => error !== undefined);
  await eventually(() => lines.length >= 300, 'all is printed');
  assert.ok(errors().length >= 200 && errors().length < 250, `${errors().length} are told`);
  let asked = 0;
  const untold = () => errors().reduce((sum, { error }) => sum + (error!.untold ?? 0), 0);
  // The next reported error carries the number of errors dropped before it.
  await eventually(async () => {
    asked++;
    await get('/throw');
    const all = () => untold() > 0 && errors().length + untold() === 300 + asked;
    return eventually(all, 'its line is there', 1_000).then(
      () => true,
      () => false,
    );
  }, 'none is forgotten');
});

test('errors are reported after the clock was set back', async (t) => {
  const code = `export default { fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/back') { const { now } = Date; Date.now = () => now() - 3_600_000; }
    throw new Error('thrown at ' + pathname);
  } }`;
  const { get, reported } = await started(t, code, { worker: entry('app.js'), exports: ['default'] });
  for (const path of ['/before', '/back', '/after']) {
    await get(path);
    await reported(`thrown at ${path}`);
  }
});

test('property reads by which workerd prints an object are not errors of the app', async (t) => {
  const code = `export default { async fetch(request, env, ctx) {
    console.log(request);
    console.log(ctx);
    await scheduler.wait(1);
    Promise.reject(new Error('of the app'));
    return new Response();
  } }`;
  const { get, lines, reported } = await started(t, code, { exports: ['default'] });
  await get('/');
  await reported('of the app');
  assert.deepEqual(
    lines.flatMap(({ error }) => error?.message ?? []),
    ['of the app'],
  );
  assert.match(lines[0]!.text, /^Request \{\n {2}method: 'GET'/);
});

test('a Worker with a compatibility date of years ago is captured too', async (t) => {
  const code = `addEventListener; export default { fetch(request) { console.log('hello'); throw new Error('old'); } }`;
  const worker = {
    ...entry('app.js'),
    compatibilityDate: '2022-01-01',
    compatibilityFlags: ['no_nodejs_als'],
  };
  const { get, lines, reported } = await started(t, code, { worker, exports: ['default'] });
  assert.equal((await get('/')).status, 500);
  assert.equal((await reported('old')).trace, TRACE);
  await eventually(() => lines.some(({ text }) => text === 'hello'), 'its line is there');
});

const PAGED = (main: string) => `import { WorkerEntrypoint } from 'cloudflare:workers';
function fails(request) { console.log('asked'); throw new Error('<b>not</b> today'); }
${main}`;

/** Starts an app as a Cellar on `localhost` does: there browsers get error pages. */
async function developed(t: TestContext, code: string, fields: Partial<Release> = {}) {
  const root = temporaryDirectory(t);
  const files = {
    // Each line of the bundle is the same line of the source in `src`, two columns to the right.
    'app.js.map': JSON.stringify({
      version: 3,
      sources: ['src/main.ts'],
      names: [],
      mappings: 'AAAE;AACA;AACA;AACA',
    }),
  };
  const { directory } = await makeRelease(`${root}/r`, code, { exports: ['default'], ...fields }, files);
  const lines: string[] = [];
  const options = await cellOptions(root, directory);
  const cache = new CellFilesCache(`${root}/run`, 512, undefined, () => 'http://ui.example:1');
  const { config } = await cache.of(directory);
  const cell = await startCell({ ...options, config, output: lineSink((line) => lines.push(line)) });
  t.after(() => cell.stop());
  const get = (headers: Record<string, string>, path = '/x') =>
    call(cell.socketPath('http'), path, { headers: { host: 'shop.localhost:8787', ...headers } });
  return { get, lines };
}

test('in development the error page names a missing binding only if the binding is missing', async (t) => {
  const code = `export default { async fetch(request, env) {
  if (request.url.endsWith('/missing')) return env.FILES.get('a');
  return new Response(env.WORD.of.nothing);
} };`;
  const { get } = await developed(t, code, { vars: { WORD: 'a' } });
  const page = async (path: string) => (await get({ accept: 'text/html' }, path)).text;
  assert.match(await page('/missing'), /no binding, variable or secret <code>FILES<\/code>: add it to the/);
  assert.match(await page('/there'), /<h1>TypeError: Cannot read properties of undefined/);
  assert.doesNotMatch(await page('/there'), /no binding/);
});

for (const [form, main] of Object.entries({
  'an object':
    'export default { own: true, fetch(request) { if (!this.own) throw 0; return fails(request); } };',
  'a frozen object': 'export default Object.freeze({ fetch: async (request) => fails(request) });',
  'a class':
    'export default class extends WorkerEntrypoint { #own = true; fetch(request) { if (this.#own) return fails(request); } }',
})) {
  test(`in development the error page shows what ${form} throws, with its place in the source`, async (t) => {
    const { get, lines } = await developed(t, PAGED(main));
    const page = await get({ accept: 'text/html,*/*', traceparent: `00-${TRACE}-0123456789abcdef-01` });
    assert.equal(page.status, 500);
    assert.match(String(page.headers['content-type']), /^text\/html/);
    assert.match(page.text, /<h1>Error: &#60;b&#62;not&#60;\/b&#62; today<\/h1>/);
    assert.match(page.text, /at fails \(src\/main\.ts:2:\d+\)/);
    assert.ok(page.text.includes(`href="http://ui.example:1/apps/shop/logs?trace=${TRACE}"`));
    assert.doesNotMatch(page.text, /cellar-\w+\.js/);
    const plain = await get({ accept: 'application/json' });
    assert.deepEqual([plain.status, plain.text], [500, 'Internal Server Error']);
    const told = () => lines.filter((line) => readLogEnvelope(JSON.parse(line).message)?.said.error);
    await eventually(() => told().length >= 2, 'both errors are told');
    assert.equal(told().length, 2);
  });
}
