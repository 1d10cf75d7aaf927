// Loads Workers in many ways in an app's process and under Miniflare, and compares what the app sees.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call, makeRelease, startRelease } from '../../support/fleets/release.ts';
import { newMiniflare } from '../../support/miniflare.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = `
import { DurableObject, RpcTarget, WorkerEntrypoint } from 'cloudflare:workers';

export class Api extends WorkerEntrypoint {
  fetch(request) { return new Response('api ' + this.ctx.props.who + ' ' + request.method + ' ' + request.url); }
  list() { return [1, new Date(0), this.ctx.props.who]; }
  fail() { throw new RangeError('api failed'); }
  async each(callback) { return (await callback('called')) + '!'; }
}

export class Keeper extends DurableObject {
  async run(code) {
    const { LOADER } = this.env;
    const worker = LOADER.load({ compatibilityDate: '2026-10-01', mainModule: 'm.js', modules: { 'm.js': code } });
    const facet = this.ctx.facets.get('one', () => ({ class: worker.getDurableObjectClass('Facet') }));
    const before = [await facet.add(), await facet.add()];
    this.ctx.facets.delete('one');
    const again = this.ctx.facets.get('one', () => ({ class: worker.getDurableObjectClass('Facet') }));
    return [before, await again.add(), await again.run('x')];
  }
}

const FACET = "import { DurableObject } from 'cloudflare:workers'; export class Facet extends DurableObject {"
  + " async add() { const n = ((await this.ctx.storage.get('n')) ?? 0) + 1; await this.ctx.storage.put('n', n); return n; } run(...values) { return values; } }";
const answering = (expression, head = '') =>
  head + '\\nexport default { async fetch(request, env, ctx) { return Response.json(' + expression + '); } };';
const code = (main, more = {}) => ({ compatibilityDate: '2026-10-01', mainModule: 'm.js', modules: { 'm.js': main }, ...more });
const ENTRY = "import { WorkerEntrypoint } from 'cloudflare:workers'; export class E extends WorkerEntrypoint {"
  + " sum(a, b) { return a + b + (this.ctx.props?.c ?? 0); } fail() { throw new TypeError('inside'); } list(...values) { return values; } }";
const ADD = Uint8Array.from(atob('AGFzbQEAAAABBwFgAn9/AX8DAgEABwcBA2FkZAAACgkBBwAgACABags='), (c) => c.charCodeAt(0));

const cases = (env, ctx) => {
  const { LOADER } = env;
  const ask = async (stub, input = 'http://x/', init) => {
    const response = await stub.getEntrypoint().fetch(input, init);
    return [response.status, await response.text()];
  };
  const load = (...described) => ask(LOADER.load(code(...described)));
  const api = ctx.exports.Api({ props: { who: 'a guest' } });
  return {
    plain: () => load(answering('[typeof env, request.url, Object.keys(ctx.exports)]')),
    named: async () => {
      const asked = [];
      const get = (text) => ask(LOADER.get('named', async () => (asked.push(text), code(answering(JSON.stringify(text))))));
      return [await get('first'), await get('second'), asked];
    },
    async unnamed() { return ask(LOADER.get(null, () => code(answering('1')))); },
    method: () => ask(LOADER.load(code('export default { async fetch(request) { return new Response(request.method + await request.text()); } }')), 'http://x/', { method: 'PUT', body: 'body' }),
    values: () => load(answering('[env, process.env]', "import process from 'node:process';"), { env: { TEXT: 'a', LIST: [1, { a: null }], DATE: new Date(0) } }),
    stub: () => load(answering("[await env.API.list(), await env.API.each((x) => x + '?'), await (await env.API.fetch('http://q/')).text()]"), { env: { API: api } }),
    failing: () => load(answering("await env.API.fail().catch((error) => [error.name, error.message])"), { env: { API: api } }),
    outbound: () => load(answering("[await (await fetch('http://any/', { method: 'POST' })).text()]"), { globalOutbound: api }),
    closed: () => load(answering("await fetch('http://any/')"), { globalOutbound: null }),
    entrypoint: async () => [
      await LOADER.load(code(ENTRY)).getEntrypoint('E').sum(1, 2),
      await LOADER.load(code(ENTRY)).getEntrypoint('E', { props: { c: 9 } }).sum(1, 2),
    ],
    nameOfOwnMethod: () => LOADER.load(code(ENTRY)).getEntrypoint('E').list('a', 1),
    thrown: () => LOADER.load(code(ENTRY)).getEntrypoint('E').fail(),
    unknownEntrypoint: () => LOADER.load(code(ENTRY)).getEntrypoint('F').sum(1, 2),
    unknownMethod: () => LOADER.load(code(ENTRY)).getEntrypoint('E').other(),
    noHandler: () => load('export default {};'),
    noDefault: () => load(ENTRY),
    throws: () => load("export default { fetch() { throw new Error('inside'); } };"),
    throwsAtTop: () => load("throw new Error('at the top');"),
    syntax: () => load('export default {'),
    missingImport: () => load(answering('1', "import './other.js';")),
    noModules: () => ask(LOADER.load({ compatibilityDate: '2026-10-01', mainModule: 'm.js', modules: {} })),
    noMain: () => ask(LOADER.load({ compatibilityDate: '2026-10-01', modules: { 'm.js': '' } })),
    otherMain: () => load(answering('1'), { mainModule: 'n.js' }),
    noDate: () => ask(LOADER.load({ mainModule: 'm.js', modules: { 'm.js': answering('1') } })),
    badDate: () => load(answering('1'), { compatibilityDate: 'today' }),
    badFlag: () => load(answering('1'), { compatibilityFlags: ['no_such_flag'] }),
    flag: () => load(answering('typeof process'), { compatibilityFlags: ['nodejs_compat'] }),
    experimental: () => load(answering('1'), { allowExperimental: true }),
    rejected: () => ask(LOADER.get('rejected', async () => { throw new Error('no code'); })),
    nothing: () => ask(LOADER.get('nothing', async () => null)),
    modules: () => ask(LOADER.load({ compatibilityDate: '2026-10-01', mainModule: 'dir/m.js', modules: {
      'dir/m.js': answering('[text, json.a, common.b, new Uint8Array(data)[1], new WebAssembly.Instance(wasm).exports.add(2, 3), other]',
        "import text from './a.txt'; import json from '../b.json'; import common from './c.cjs'; import data from './d.bin'; import wasm from './e.wasm'; import other from './other.js';"),
      'dir/a.txt': { text: 'a text' }, 'b.json': { json: { a: 1 } }, 'dir/c.cjs': { cjs: 'module.exports = { b: 2 };' },
      'dir/d.bin': { data: new Uint8Array([7, 255]).buffer }, 'dir/e.wasm': { wasm: ADD.buffer }, 'dir/other.js': { js: "export default 'other';" } } })),
    unserializable: () => load(answering('1'), { env: { LOADER } }),
    storage: () => load(answering("await caches.default.match('http://a/')")),
    facet: () => env.KEEPER.getByName('one').run(FACET),
    socket: async () => {
      const worker = LOADER.load(code("export default { fetch() { const [client, server] = Object.values(new WebSocketPair()); server.accept(); server.addEventListener('message', ({ data }) => server.send('echo ' + data)); return new Response(null, { status: 101, webSocket: client }); } };"));
      const { webSocket } = await worker.getEntrypoint().fetch('http://x/', { headers: { upgrade: 'websocket' } });
      webSocket.accept();
      const said = new Promise((resolve) => webSocket.addEventListener('message', ({ data }) => resolve(data)));
      webSocket.send('a');
      return said;
    },
    stream: () => ask(LOADER.load(code("export default { fetch(request) { return new Response(request.body.pipeThrough(new TransformStream({ transform(chunk, c) { c.enqueue(chunk); c.enqueue(chunk); } }))); } };")), 'http://x/', { method: 'POST', body: 'ab' }),
  };
};

export default {
  async fetch(request, env, ctx) {
    const found = {};
    for (const [name, run] of Object.entries(cases(env, ctx)))
      found[name] = await Promise.resolve().then(run).catch((error) => error.name + ': ' + error.message.replace(/reference = \\w+/, 'reference'));
    return Response.json(found);
  },
};`;

/** Returns what the app sees under Miniflare. */
async function underMiniflare(): Promise<Record<string, unknown>> {
  const worker = {
    name: 'app',
    modules: [{ type: 'ESModule', path: 'app.js', contents: APP }],
    compatibilityDate: '2026-10-01',
    workerLoaders: { LOADER: {} },
    durableObjects: { KEEPER: { className: 'Keeper', useSQLite: true } },
  };
  const options = { workers: [worker] };
  const instance = newMiniflare(options);
  try {
    const answer = await instance.dispatchFetch('http://app/', { signal: AbortSignal.timeout(60_000) });
    return (await answer.json()) as Record<string, unknown>;
  } finally {
    await instance.dispose();
  }
}

test('an app sees the same of the Workers that it loads as under Miniflare', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, APP, {
    exports: ['default', 'Api', 'Keeper'],
    workerLoaders: [{ binding: 'LOADER' }],
    classes: [{ className: 'Keeper', storageId: 'keeper', sql: true }],
    durableObjects: [{ binding: 'KEEPER', className: 'Keeper' }],
  });
  const cell = await startRelease(root, directory);
  t.after(() => cell.stop());
  const here = JSON.parse((await call(cell.socketPath('http'), '/')).text);
  const there = await underMiniflare();
  t.diagnostic(`${Object.keys(there).length} ways`);
  assert.deepEqual(here, there);
  assert.deepEqual(here.facet, [[1, 2], 1, ['x']]);
});
