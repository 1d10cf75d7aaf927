// Workers that an app loads from code at run time, in a real process.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import { messageOf } from '../../../runtime/processes/lines.ts';
import { call, makeRelease, startRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** An app that loads and runs the code in a request's body. */
const APP = readFileSync(new URL('../../apps/loaders/index.js', import.meta.url), 'utf8');
const FIELDS: Partial<Release> = {
  exports: ['default', 'Gate', 'Keeper'],
  vars: { PRIVATE: "the app's own" },
  workerLoaders: [{ binding: 'LOADER' }],
  classes: [{ className: 'Keeper', storageId: 'keeper', sql: true }],
  durableObjects: [{ binding: 'KEEPER', className: 'Keeper' }],
  // These two add Cellar's own modules to the process.
  rateLimits: [{ binding: 'LIMIT', namespace: '1', limit: 5, period: 60 }],
  outward: [{ type: 'missing', binding: 'NONE', message: 'not here' }],
};

async function start(t: TestContext, root = temporaryDirectory(t)) {
  const { directory } = await makeRelease(`${root}/r`, APP, FIELDS);
  const lines: string[] = [];
  const cell = await startRelease(root, directory, (line) => lines.push(messageOf(line)));
  t.after(() => cell.stop());
  const post = (path: string, body: string) => call(cell.socketPath('http'), path, { method: 'POST', body });
  /** Runs the body of a `fetch(request, env, ctx)`, and returns its answer. */
  const run = async (body: string, query = '', imports = '') => {
    const code = `${imports}\nexport default { async fetch(request, env, ctx) { ${body} } };`;
    return (await post(`/${query}`, code)).text;
  };
  return { cell, lines, post, run };
}

test('an app loads Workers from code: new ones, and named ones that stay', async (t) => {
  const { run, post } = await start(t);
  assert.equal(await run('return new Response("first")'), 'first');
  assert.equal(await run('return new Response("second")'), 'second');
  const counting = 'globalThis.n = (globalThis.n ?? 0) + 1; return new Response(String(n));';
  assert.equal(await run(counting, '?id=a'), '1');
  assert.equal(await run('return new Response("not loaded")', '?id=a'), '2');
  assert.equal(await run(counting, '?id=b'), '1');
  assert.equal((await post('/add', '')).text, '103', 'code in a string has its imports as written');
});

test('a loaded Worker has the environment that it is given, and calls the app only through that', async (t) => {
  const { run } = await start(t);
  const all =
    'return Response.json([Object.keys(env).sort(), Object.keys(all).sort(), Object.keys(process.env)])';
  const imports = "import process from 'node:process'; import { env as all } from 'cloudflare:workers';";
  const names = ['GATE', 'WORD'];
  assert.deepEqual(JSON.parse(await run(all, '', imports)), [names, names, ['WORD']]);
  assert.equal(await run('return new Response(await env.GATE.greet("x"))'), 'hello x, from a guest');
});

test('a loaded Worker can import none of Cellar and of the app', async (t) => {
  const { run } = await start(t);
  for (const name of [
    'cellar-internal:rate-limit',
    'cellar-internal:missing',
    'cloudflare-internal:email',
    'cloudflare-internal:d1-api',
    './cellar-capture.js',
    './cellar-entry.js',
    './app.js',
    'workerd:unsafe',
  ]) {
    const body = `try { await import(${JSON.stringify(name)}); return new Response('imported'); }
      catch (error) { return new Response(error.message); }`;
    assert.match(await run(body), /^No such module/, name);
  }
});

test('fetch() of a loaded Worker goes where that of the app goes, or where the app says', async (t) => {
  const { run, lines } = await start(t);
  const server = createServer((_, response) => response.end('reached')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const fetches = (to: string) =>
    `try { return new Response(await (await fetch('http://${to}')).text()); }
     catch (error) { return new Response('failed: ' + error.message); }`;
  assert.match(await run(fetches(`127.0.0.1:${port}`)), /^failed: internal error/);
  const refusal = `connecting to 127.0.0.1:${port} is not allowed`;
  await eventually(() => lines.some((line) => line.includes(refusal)), 'the log names the address');
  const connects = `try {
      const socket = connect('127.0.0.1:${port}');
      await socket.opened;
      return new Response('connected');
    } catch (error) { return new Response('failed: ' + error.message); }`;
  assert.match(await run(connects, '', "import { connect } from 'cloudflare:sockets';"), /^failed: /);
  assert.match(await run(fetches('any.example/'), '?out=nothing'), /^failed: .*not permitted/);
  assert.equal(
    await run(fetches('any.example/a'), '?out=gate'),
    'the gate for a guest got http://any.example/a',
  );
});

test('errors of a loaded Worker reach the app, and its console is in the log of the app', async (t) => {
  const { run, post, lines } = await start(t);
  await run('console.log("said inside"); return new Response()');
  await eventually(() => lines.includes('said inside'), 'the line is in the log');
  for (const [code, words] of [
    ['export default { fetch() { throw new Error("broken inside"); } }', 'broken inside'],
    ['export default {', 'Failed to start Worker'],
  ] as const) {
    assert.equal((await post('/', code)).status, 500);
    // The app's report begins like this. workerd's own line does not.
    const reported = (line: string) => line.startsWith(`Error: ${words}`);
    await eventually(() => lines.some(reported), `the error ${words} is reported`);
  }
});

test('a loaded class is a facet of a Durable Object, and its storage survives the process', async (t) => {
  const root = temporaryDirectory(t);
  const code = `import { DurableObject } from 'cloudflare:workers';
    export class Kept extends DurableObject {
      add() {
        this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS adds (at)');
        this.ctx.storage.sql.exec('INSERT INTO adds VALUES (1)');
        return this.ctx.storage.sql.exec('SELECT count(*) AS n FROM adds').one().n;
      }
    }`;
  for (const n of ['1', '2']) {
    const { cell, post } = await start(t, root);
    assert.equal((await post('/keep', code)).text, n);
    await cell.stop();
  }
});
