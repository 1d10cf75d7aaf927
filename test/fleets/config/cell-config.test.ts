import assert from 'node:assert/strict';
import { readFileSync, renameSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { messageOf } from '../../../runtime/processes/lines.ts';
import { call, cellOptions, entry, makeRelease, startRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const FULL = `
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import { Buffer } from 'node:buffer';
import note from './note.txt';
import bytes from './bytes.bin';
import adder from './add.wasm';
import settings from './settings.json';
import common from './common.cjs';

export class Counter extends DurableObject {
  async add() {
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS adds(at)');
    this.ctx.storage.sql.exec('INSERT INTO adds VALUES (1)');
    return this.ctx.storage.sql.exec('SELECT count(*) AS n FROM adds').one().n;
  }
}

export default class extends WorkerEntrypoint {
  greet(name) { return ['hello', name, this.ctx.props]; }
  async fetch(request) {
    const { env } = this;
    const { pathname } = new URL(request.url);
    if (pathname === '/own') {
      const own = [env.SELF, env.WITH_PROPS];
      const answers = await Promise.all(own.map((self) => self.fetch('http://any/page')));
      return Response.json([await Promise.all(answers.map((each) => each.text())), await Promise.all(own.map((self) => self.greet('you')))]);
    }
    if (pathname === '/do') return Response.json(await env.COUNTER.getByName('one').add());
    if (pathname === '/d1') {
      await env.DB.exec('CREATE TABLE IF NOT EXISTS rows(x)');
      await env.DB.prepare('INSERT INTO rows VALUES (?)').bind('é').run();
      return Response.json((await env.DB.prepare('SELECT x FROM rows').all()).results);
    }
    if (pathname === '/kv') {
      await env.KV.put('large', 'v'.repeat(100_000));
      return Response.json((await env.KV.get('large')).length);
    }
    if (pathname === '/vars') return Response.json([env.TEXT, env.LIST, env.FLAG, Object.keys(env).sort()]);
    if (pathname === '/modules') {
      const wasm = await WebAssembly.instantiate(adder);
      return Response.json([note, new Uint8Array(bytes)[1], wasm.exports.add(2, 3), settings.deep, common.name, Buffer.from('a').toString('hex')]);
    }
    if (pathname === '/asset') return env.FILES.fetch('http://assets/page.html');
    return new Response('worker ' + pathname, { status: 201 });
  }
}`;

/** WebAssembly: `(func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add)` */
const ADD = Buffer.from(
  '0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b',
  'hex',
);

function fullRelease(directory: string) {
  const modules: NonNullable<Release['worker']>['modules'] = [
    { name: 'app.js', type: 'esm', path: 'app.js' },
    { name: 'note.txt', type: 'text', path: 'more/note "1".txt' },
    { name: 'bytes.bin', type: 'data', path: 'more/bytes.bin' },
    { name: 'add.wasm', type: 'wasm', path: 'more/add.wasm' },
    { name: 'settings.json', type: 'json', path: 'more/settings.json' },
    { name: 'common.cjs', type: 'commonjs', path: 'more/common.cjs' },
  ];
  const fields: Partial<Release> = {
    worker: { modules, compatibilityDate: '2026-10-01', compatibilityFlags: ['nodejs_compat'] },
    vars: { TEXT: 'a "text"\n', LIST: [1, { a: null }], FLAG: false },
    classes: [{ className: 'Counter', storageId: 'class1', sql: true }],
    durableObjects: [{ binding: 'COUNTER', className: 'Counter' }],
    databases: [{ binding: 'DB', storageId: 'database1', migrations: [] }],
    namespaces: [{ binding: 'KV', storageId: 'namespace1' }],
    services: [
      { binding: 'SELF', service: null },
      { binding: 'WITH_PROPS', service: null, props: { a: 1 } },
    ],
    assets: {
      directory: 'assets',
      binding: 'FILES',
      notFoundHandling: 'none',
      htmlHandling: 'auto-trailing-slash',
      runWorkerFirst: ['/first/*'],
    },
  };
  return makeRelease(directory, FULL, fields, {
    'more/note "1".txt': 'a note',
    'more/bytes.bin': Buffer.from([7, 255]),
    'more/add.wasm': ADD,
    'more/settings.json': '{"deep": [1]}',
    'more/common.cjs': 'module.exports = { name: "common" };',
    'assets/page.html': '<p>page</p>',
    'assets/first/page.html': '<p>never</p>',
    'assets/_headers': '/page\n  x-from: headers\n',
    'assets/_redirects': '/old /page 301\n',
  });
}

async function start(
  t: TestContext,
  root: string,
  directory: string,
  onLine?: (line: string) => void,
): Promise<Cell> {
  const cell = await startRelease(root, directory, onLine);
  t.after(() => cell.stop());
  return cell;
}

test('every binding of a release works, and its storage survives the process and a move of the release', async (t) => {
  const root = temporaryDirectory(t);
  await fullRelease(`${root}/written`);
  renameSync(`${root}/written`, `${root}/moved`);
  const lines: string[] = [];
  for (const round of [1, 2]) {
    const cell = await startRelease(root, `${root}/moved`, (line) => {
      // Reports of calls have an empty message.
      if (messageOf(line) !== '') lines.push(line);
    });
    const get = async (path: string) => JSON.parse((await call(cell.socketPath('http'), path)).text);
    assert.equal(await get('/do'), round);
    assert.deepEqual(await get('/d1'), Array(round).fill({ x: 'é' }));
    assert.equal(await get('/kv'), 100_000);
    const names = ['COUNTER', 'DB', 'FILES', 'FLAG', 'KV', 'LIST', 'SELF', 'TEXT', 'WITH_PROPS'];
    assert.deepEqual(await get('/vars'), ['a "text"\n', [1, { a: null }], false, names]);
    assert.deepEqual(await get('/modules'), ['a note', 255, 5, [1], 'common', '61']);
    assert.deepEqual(await cell.stop(), {
      code: 0,
      signal: null,
      reason: 'workerd exited with code 0',
      limit: null,
    });
  }
  assert.deepEqual(lines, [], 'workerd has nothing to warn of');
});

test('assets are served beside the Worker, with their headers, redirects and worker-first paths', async (t) => {
  const root = temporaryDirectory(t);
  await fullRelease(`${root}/r`);
  const cell = await start(t, root, `${root}/r`);
  const get = (path: string) => call(cell.socketPath('http'), path);
  const page = await get('/page');
  assert.deepEqual([page.status, page.text, page.headers['x-from']], [200, '<p>page</p>', 'headers']);
  assert.equal((await get('/page.html')).headers.location, '/page');
  assert.deepEqual([(await get('/old')).status, (await get('/old')).headers.location], [301, '/page']);
  assert.equal((await get('/_headers')).text, 'worker /_headers');
  assert.equal((await get('/first/page')).text, 'worker /first/page');
  assert.deepEqual([(await get('/other')).status, (await get('/other')).text], [201, 'worker /other']);
  assert.equal((await get('/asset')).text, '<p>page</p>');
  assert.deepEqual(JSON.parse((await get('/own')).text), [
    ['<p>page</p>', 'worker /page'],
    [
      ['hello', 'you', {}],
      ['hello', 'you', { a: 1 }],
    ],
  ]);
});

test('a site without a Worker serves pages, a 404 page, or one page for every path', async (t) => {
  const root = temporaryDirectory(t);
  const site = async (
    name: string,
    notFoundHandling: NonNullable<Release['assets']>['notFoundHandling'],
    basePath = '',
  ) => {
    const files = { 'public/index.html': 'home', 'public/404.html': 'lost' };
    const assets = { directory: 'public', binding: null, notFoundHandling, runWorkerFirst: false };
    const below = basePath === '' ? {} : { basePath };
    const fields = { assets: { ...assets, ...below, htmlHandling: 'auto-trailing-slash' as const } };
    const { directory } = await makeRelease(`${root}/${name}`, null, fields, files);
    const cell = await start(t, `${root}/${name}-state`, directory);
    const home = await call(cell.socketPath('http'), `${basePath}/`);
    const other = await call(cell.socketPath('http'), '/a/b', { headers: { 'sec-fetch-mode': 'navigate' } });
    return [home.status, home.text, other.status, other.text];
  };
  assert.deepEqual(await site('none', 'none'), [200, 'home', 404, '']);
  assert.deepEqual(await site('page', '404-page'), [200, 'home', 404, 'lost']);
  assert.deepEqual(await site('spa', 'single-page-application'), [200, 'home', 200, 'home']);
  assert.deepEqual(await site('below', 'none', '/docs'), [200, 'home', 404, '']);
});

test('the Cache API exists and caches nothing, also for a Worker of years ago', async (t) => {
  const root = temporaryDirectory(t);
  const code = `export default {
    async fetch() {
      const cache = await caches.open('mine');
      const found = [];
      for (const each of [caches.default, cache]) {
        const kept = new Response('x'.repeat(100_000), { headers: { 'cache-control': 'max-age=60' } });
        await each.put('https://example.com/a', kept);
        found.push(await each.match('https://example.com/a'), await each.delete('https://example.com/a'));
      }
      return Response.json(found.map(String));
    }
  }`;
  for (const compatibilityDate of ['2021-11-02', '2026-10-01']) {
    const worker = { ...entry('app.js'), compatibilityDate };
    const { directory } = await makeRelease(`${root}/${compatibilityDate}`, code, { worker });
    const cell = await start(t, `${root}/${compatibilityDate}-state`, directory);
    const { text } = await call(cell.socketPath('http'), '/');
    assert.deepEqual(JSON.parse(text), ['undefined', 'false', 'undefined', 'false']);
  }
});

test('behind TLS the Worker sees an https URL and the header that reports it', async (t) => {
  const root = temporaryDirectory(t);
  const code = `export default {
    fetch: ({ url, headers }) => new Response([url, headers.get('x-forwarded-proto'), headers.get('x-cellar-proto')].join()) }`;
  const { directory } = await makeRelease(`${root}/r`, code);
  const cell = await start(t, root, directory);
  const seen = async (proto: string) => {
    const headers = { host: 'app.example.com', 'x-forwarded-proto': proto, 'x-cellar-proto': proto };
    return (await call(cell.socketPath('http'), '/path', { headers })).text;
  };
  assert.equal(await seen('https'), 'https://app.example.com/path,https,');
  assert.equal(await seen('http'), 'http://app.example.com/path,http,');
});

test('a Worker cannot reach this machine or its private networks', async (t) => {
  const root = temporaryDirectory(t);
  let reached = 0;
  const server = createServer((_, response) => response.end(String(++reached)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const code = `export default { async fetch(request) {
    try { return new Response((await fetch(new URL(request.url).searchParams.get('to'))).statusText); }
    catch (error) { return new Response('refused', { status: 502 }); }
  } }`;
  const { directory } = await makeRelease(`${root}/r`, code);
  const lines: string[] = [];
  const cell = await start(t, root, directory, (line) => lines.push(line));
  for (const host of [
    '127.0.0.1',
    'localhost',
    '0.0.0.0',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '169.254.169.254',
    '10.0.0.1',
  ]) {
    const to = encodeURIComponent(`http://${host}:${port}/`);
    assert.equal((await call(cell.socketPath('http'), `/?to=${to}`)).text, 'refused', host);
  }
  assert.equal(reached, 0);
  const told = new RegExp(`connecting to 127\\.0\\.0\\.1:${port} is not allowed`);
  await eventually(() => lines.some((line) => told.test(line)), 'the app’s log says why');
});

test('the health socket runs no app code, and stops answering during an endless loop of the app', async (t) => {
  const root = temporaryDirectory(t);
  const code = `export default { fetch(request) {
    console.log('ran'); if (request.url.endsWith('/loop')) for (;;); return new Response('ok');
  } }`;
  const { directory } = await makeRelease(`${root}/r`, code);
  const lines: string[] = [];
  const cell = await start(t, root, directory, (line) => lines.push(line));
  assert.equal(await cell.answers('health', 30_000), true);
  assert.deepEqual(lines, []);
  call(cell.socketPath('http'), '/loop').catch(() => {});
  await eventually(() => lines.length > 0, 'the loop has begun');
  assert.equal(await cell.answers('health', 300), false);
  assert.equal((await cell.stop()).signal, 'SIGKILL');
});

test('a path outside the release is refused by name', async (t) => {
  const root = temporaryDirectory(t);
  for (const path of ['../app.js', '/etc/passwd', 'a/../../b.js']) {
    const worker = { ...entry('app.js'), modules: [{ name: 'x', type: 'text' as const, path }] };
    const { directory } = await makeRelease(`${root}/r`, '', { worker });
    await assert.rejects(cellOptions(root, directory), new RegExp(`^Error: ${path} lies outside`));
  }
});

test('a rate limit accepts the values of Cloudflare, and its memory is bounded', async (t) => {
  const root = temporaryDirectory(t);
  const code = `export default {
    async fetch(request, env) {
      const options = JSON.parse(decodeURIComponent(new URL(request.url).search.slice(1)));
      if (typeof options === 'number') {
        for (let n = 0; n < options; n++) await env.LIMIT.limit({ key: String(n), limit: 1 });
        const again = async (n) => (await env.LIMIT.limit({ key: String(n), limit: 1 })).success;
        return Response.json([await again(options - 1), await again(0)]);
      }
      return Response.json(await env.LIMIT.limit(options).catch((error) => error.message));
    },
  };`;
  const rateLimits: Release['rateLimits'] = [{ binding: 'LIMIT', namespace: '1', limit: 5, period: 60 }];
  const { directory } = await makeRelease(`${root}/r`, code, { rateLimits });
  const cell = await start(t, root, directory);
  const ask = async (options: unknown) =>
    JSON.parse(
      (await call(cell.socketPath('http'), `/?${encodeURIComponent(JSON.stringify(options))}`)).text,
    );
  const minute = () => Math.floor(Date.now() / 60_000);
  let answers: unknown[];
  let from: number;
  do {
    from = minute();
    const key = `in-${from}`;
    answers = [
      await ask({ key, delta: 5 }),
      await ask({ key }),
      await ask({ key, limit: 6 }),
      await ask(20_001),
    ];
  } while (minute() !== from);
  // Of 20,001 keys the first is forgotten and counts as new; the last is still known.
  assert.deepEqual(answers, [{ success: true }, { success: false }, { success: true }, [false, true]]);
  assert.match(await ask({ kee: 'a' }), /there is no option kee/);
  assert.match(await ask({ key: 'a', period: 30 }), /period must be 10 or 60/);
  assert.match(await ask({ key: 'k'.repeat(1_025) }), /key must be a string of at most 1024/);
  assert.match(await ask({ key: 'a', delta: 0 }), /delta must be/);
  assert.match(await ask(null), /the options must be an object/);
});

test('a binding to an unreachable service breaks only the app that has it', async (t) => {
  const root = temporaryDirectory(t);
  const configOf = async (name: string, fields: Partial<Release>) => {
    const { directory } = await makeRelease(`${root}/${name}`, 'export default {};', fields);
    return readFileSync((await cellOptions(`${root}/${name}-cell`, directory)).config, 'utf8');
  };
  const traces = /ai-service|images-|browser-|mail-|ai-api|cellar-internal|extensions/;
  assert.doesNotMatch(await configOf('without', {}), traces);
  assert.match(await configOf('with', { outward: [{ type: 'ai', binding: 'AI' }] }), traces);
  assert.match(await configOf('images', { outward: [{ type: 'images', binding: 'I' }] }), /images-service/);
  assert.match(
    await configOf('browser', { outward: [{ type: 'browser', binding: 'B' }] }),
    /browser-service/,
  );
  assert.match(await configOf('mail', { outward: [{ type: 'send_email', binding: 'M' }] }), /mail-M/);
});
