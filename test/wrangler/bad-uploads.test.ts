// Invalid, surplus and interrupted uploads: each gets a helpful error and leaves nothing half done.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, truncateSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import blake3 from 'blake3-wasm';
import { FormData, fetch } from 'undici';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
let account = '';
before(async () => {
  await cellar.start();
  account = (await cellar.app(await cellar.create('owned'))).owner;
});
after(() => cellar[Symbol.asyncDispose]());

const MODULE = 'application/javascript+module';
const WORKER =
  "export default { fetch: (request, env) => env.ASSETS?.fetch(request) ?? new Response('fine') };";

interface Envelope {
  success: boolean;
  errors: { code: number; message: string }[];
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  result: any;
}

async function ask(method: string, path: string, body?: FormData | string | null, token = cellar.key) {
  const response = await fetch(`${cellar.api}/client/v4${path}`, {
    method,
    body: body ?? null,
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(240_000),
  });
  return { status: response.status, body: (await response.json()) as Envelope };
}

const script = (name: string) => `/accounts/${account}/workers/scripts/${name}`;

function form(metadata: object, modules: Record<string, string> = {}): FormData {
  const form = new FormData();
  form.set('metadata', JSON.stringify(metadata));
  for (const [name, text] of Object.entries(modules))
    form.set(name, new File([text], name, { type: MODULE }));
  return form;
}

/** Uploads a new app and asserts that it is not made. @returns the error message */
async function fault(name: string, body: FormData | string): Promise<string> {
  const { status, body: answer } = await ask('PUT', script(name), body);
  assert.equal(status, 400, JSON.stringify(answer));
  assert.equal(answer.success, false);
  assert.equal((await cellar.call('GET', `/v1/apps/${name}`)).status, 404);
  return answer.errors[0]!.message;
}

/** Counts the entries in the folder of uploads. */
function kept(): Record<string, number> {
  const folder = join(cellar.data, 'uploads');
  const count = (name: string) => {
    try {
      return readdirSync(join(folder, name)).length;
    } catch {
      return 0;
    }
  };
  return { incoming: count('incoming'), versions: count('versions') };
}

test('an upload that cannot run gets the reason, and no app is made', async () => {
  const main = { main_module: 'index.js' };
  assert.match(await fault('broken', form(main)), /main module is "index.js", and there is no such module/);
  assert.match(await fault('broken', 'no form'), /multipart/);
  assert.match(await fault('broken', form({}, {})), /neither a Worker nor assets/);
  assert.match(await fault('broken', form(main, { 'index.js': 'const a = 1;' })), /no default export/);
  assert.match(await fault('broken', form(main, { '../index.js': WORKER })), /is not a module name/);
  const inherit = { ...main, bindings: [{ type: 'inherit', name: 'SECRET' }] };
  assert.match(await fault('broken', form(inherit, { 'index.js': WORKER })), /inherits the binding SECRET/);
  const deep = form({}, { 'index.js': WORKER });
  const nested = '['.repeat(20_000) + ']'.repeat(20_000);
  deep.set('metadata', `{"main_module":"index.js","bindings":[{"type":"json","name":"A","json":${nested}}]}`);
  assert.match(
    await fault('broken', deep),
    /^Metadata: bindings\.0\.json: a value is nested 20003 levels deep; at most 100 are allowed\.$/,
  );
  // A `script_name` that is the Worker's own name means a class of this Worker.
  const room = { type: 'durable_object_namespace', name: 'ROOM', class_name: 'Room', script_name: 'broken' };
  assert.match(
    await fault('broken', form({ ...main, bindings: [room] }, { 'index.js': WORKER })),
    /The binding ROOM: the Worker does not export a class Room/,
  );
  assert.deepEqual(kept(), { incoming: 0, versions: 0 });
});

test('an invalid bundle in our own format is refused like any other upload', async () => {
  const entry = { name: 'index.js', type: 'esm', path: 'modules/index.js' };
  const bundle = {
    worker: { modules: [entry], compatibilityDate: '2026-10-01', compatibilityFlags: [] },
    exports: ['default'],
    vars: {},
    assets: null,
    durableObjects: [],
    classMigrations: [],
    databases: [],
    namespaces: [],
  };
  const parts = { 'modules/index.js': WORKER };
  const said = (more: object, files: Record<string, string> = parts) =>
    fault('broken', form({ cellar_bundle: { ...bundle, ...more } }, files));
  const modules = (module: object) => ({ worker: { ...bundle.worker, modules: [{ ...entry, ...module }] } });
  assert.match(await said({}, {}), /"modules\/index.js", but the upload has no part of that name/);
  assert.match(await said(modules({ path: '/etc/passwd' })), /worker\.modules\.0\.path/);
  assert.match(await said(modules({ path: 'modules/../../x' })), /no part of that name/);
  assert.match(await said(modules({ name: 'cellar-entry.js' })), /must lie at modules\/ and its name/);
  for (const name of ['release.json', 'modulesX', 'modules'])
    assert.match(await said({}, { ...parts, [name]: '{}' }), /is not below modules\//);
  assert.match(await said({}, { ...parts, 'modules/../../x': '' }), /is not a module name/);
  assert.match(
    await said({ durableObjects: [{ binding: 'A', className: 'A' }] }),
    /does not export a class A/,
  );
  assert.match(await said({ user: 'root' }), /user/);
  const many = Array.from({ length: 1_001 }, (_, at) => ({ binding: `A${at}`, script: 'a', className: 'A' }));
  assert.match(
    await said({ objectsElsewhere: many }),
    /1001 bindings to Durable Objects of other apps; at most 1000 are allowed/,
  );
  const prefill = { kind: 'bucket', binding: 'CACHE', directory: 'next-cache', prefix: 'a', files: 1 };
  const entries = { ...parts, 'next-cache/b1/a.cache': '{}' };
  const filled = (more: object, files: Record<string, string> = entries) =>
    said({ buckets: [{ binding: 'CACHE', key: 'a' }], prefill: { ...prefill, ...more } }, files);
  for (const directory of ['modules', '/etc', '../assets', 'next-cache/..'])
    assert.match(await filled({ directory }), /prefill\.directory/);
  for (const more of [{ binding: 'OTHER' }, { kind: 'namespace' }])
    assert.match(await filled(more), /cache needs a (bucket|namespace) with the binding/);
  const cache = { binding: 'CACHE', key: 'a' };
  assert.match(
    await said({ buckets: [cache], namespaces: [cache], prefill }, entries),
    /cache needs a bucket with the binding CACHE, and no other/,
  );
  const miscounted = /upload has \d+ of the files in next-cache\/, and the bundle names \d+/;
  assert.match(await filled({ files: 2 }), miscounted);
  assert.match(await filled({}, parts), miscounted);
  assert.match(await said({}, entries), miscounted);
  assert.match(await filled({ files: 100_001 }), /prefill\.files/);
  assert.match(await filled({}, { ...parts, 'next-cache/../release.json': '' }), /is not below modules\//);
  assert.match(await filled({}, { ...parts, 'next-cache/../../x': '' }), /is not a module name/);
  const tailConsumers = Array.from({ length: 11 }, (_, at) => `tail-${at}`);
  assert.match(await said({ tailConsumers }), /11 tail Workers; at most 10 are allowed/);
  const site = { directory: 'assets', binding: null, notFoundHandling: 'none', runWorkerFirst: false };
  const assets = { ...site, htmlHandling: 'none', basePath: '/docs' };
  assert.match(await said({ assets }), /session of the assets is missing/);
  const siteManifest = 'modules/__STATIC_CONTENT_MANIFEST';
  assert.match(
    await said({ assets: { ...assets, siteManifest } }),
    /has no module __STATIC_CONTENT_MANIFEST/,
  );
  assert.match(await said({ assets: { ...assets, siteManifest: '/etc/passwd' } }), /assets\.siteManifest/);
  const listed = { name: '__STATIC_CONTENT_MANIFEST', type: 'text', path: siteManifest };
  const worker = { ...bundle.worker, modules: [entry, listed] };
  const sited = { worker, assets: { ...assets, siteManifest } };
  assert.match(await said(sited, { ...parts, [siteManifest]: '["a"]' }), /must be a JSON object/);
  assert.deepEqual(kept(), { incoming: 0, versions: 0 });
});

test('the error for a name that is no slug proposes one; missing accounts and paths are named', async () => {
  const project = new Project(cellar, {
    'wrangler.toml': 'name = "My_App"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\n',
    'index.js': WORKER,
  });
  const { code, stdout, stderr } = await project.wrangler('deploy');
  assert.equal(code, 1);
  assert.match(stdout + stderr, /my-app|lowercase/);
  const name = await ask('GET', `/accounts/${account}/workers/services/My_App`);
  assert.match(name.body.errors[0]!.message, /use a name such as "my-app"/);
  const unknown = await ask('GET', `/accounts/${account}/ai/models`);
  assert.equal(unknown.status, 404);
  assert.match(
    unknown.body.errors[0]!.message,
    new RegExp(`does not support the call GET /accounts/${account}/ai/models`),
  );
  const { body: stranger } = await cellar.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method: 'accounts.create',
    params: { name: 'Eve', email: 'eve@example.com' },
  });
  const { body: made } = await cellar.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method: 'keys.create',
    params: { account: stranger.result.id },
  });
  const theirs = await ask('GET', `/accounts/${account}/workers/scripts`, null, made.result.key);
  assert.equal(theirs.status, 403);
  assert.equal(theirs.body.errors[0]!.code, 10000);
  account = stranger.result.id;
  const taken = await ask('PUT', script('owned'), form({}), made.result.key);
  account = (await cellar.call('GET', '/v1/apps/owned')).body.owner;
  assert.match(taken.body.errors[0]!.message, /taken by an app of another account/);
});

const hashOf = (text: string) =>
  blake3
    .hash(`${Buffer.from(text).toString('base64')}txt`)
    .toString('hex')
    .slice(0, 32);

/** Begins an assets session for some texts. */
async function session(name: string, texts: string[]) {
  const manifest = Object.fromEntries(
    texts.map((text, at) => [`/${at}.txt`, { hash: hashOf(text), size: text.length }]),
  );
  const { status, body } = await ask(
    'POST',
    `${script(name)}/assets-upload-session`,
    JSON.stringify({ manifest }),
  );
  assert.equal(status, 200, JSON.stringify(body));
  return body.result as { jwt: string; buckets: string[][] };
}

function send(jwt: string, files: Record<string, string>) {
  const form = new FormData();
  for (const [hash, text] of Object.entries(files)) {
    const content = Buffer.from(text).toString('base64');
    form.set(hash, new File([content], hash, { type: 'text/plain' }));
  }
  return ask('POST', `/accounts/${account}/workers/assets/upload?base64=true`, form, jwt);
}

test('assets must match their hashes and session, and must all be sent before the Worker', async () => {
  const { jwt, buckets } = await session('hashes', ['one', 'two']);
  assert.deepEqual(buckets, [[hashOf('one'), hashOf('two')]]);
  assert.ok(JSON.parse(Buffer.from(jwt.split('.')[1]!, 'base64url').toString()).exp > Date.now() / 1000);
  const wrong = await send(jwt, { [hashOf('one')]: 'another' });
  assert.match(wrong.body.errors[0]!.message, /have another hash/);
  const foreign = await send(jwt, { [hashOf('three')]: 'three' });
  assert.match(foreign.body.errors[0]!.message, /is not of this session/);
  assert.equal((await send(jwt, { [hashOf('one')]: 'one' })).body.result.jwt, null);
  assert.match(await fault('hashes', form({ assets: { jwt } })), /"\/1.txt" was declared but never uploaded/);
  assert.equal(typeof (await send(jwt, { [hashOf('two')]: 'two' })).body.result.jwt, 'string');
  assert.match(await fault('others', form({ assets: { jwt } })), /belongs to another Worker/);
  assert.match(await fault('hashes', form({ assets: { jwt: 'a.b.c' } })), /not known here/);
  const bad = JSON.stringify({ manifest: { '/../etc/passwd': { hash: hashOf('x'), size: 1 } } });
  const outside = await ask('POST', `${script('hashes')}/assets-upload-session`, bad);
  assert.match(outside.body.errors[0]!.message, /must not have an empty part between two slashes/);
});

test('10,000 assets are sent in a few bodies, and served', async () => {
  const texts = Array.from({ length: 10_000 }, (_, at) => `asset ${at}`);
  const { jwt, buckets } = await session('many', texts);
  assert.equal(buckets.flat().length, texts.length);
  const byHash = new Map(texts.map((text) => [hashOf(text), text]));
  for (const bucket of buckets) {
    const sent = await send(jwt, Object.fromEntries(bucket.map((hash) => [hash, byHash.get(hash)!])));
    assert.equal(sent.status, 200, JSON.stringify(sent.body));
  }
  const below = (base_path: string) => form({ assets: { jwt, config: { base_path } } });
  const { status, body } = await ask('PUT', script('many'), below('/docs'));
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal((await cellar.get('many', '/docs/9999.txt')).text, 'asset 9999');
  const wrong = await ask('PUT', script('many'), below('/docs?'));
  assert.match(wrong.body.errors[0]!.message, /assets base_path: The value must not contain query/);
  assert.deepEqual((await session('many', texts)).buckets, []);
});

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function rpc(method: string, params: object): Promise<any> {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  assert.ok('result' in body, JSON.stringify(body));
  return body.result;
}

test('files of SQL are kept for accounts that may import, ten of each; a tail ends with the role of its account', async () => {
  const bindings = [{ type: 'd1', name: 'DB', id: 'notes' }];
  const worker = form(
    { main_module: 'index.js', bindings },
    { 'index.js': "export default { fetch() { console.log('read'); return new Response(); } };" },
  );
  assert.equal((await ask('PUT', script('guarded'), worker)).status, 200);
  const init = JSON.stringify({ action: 'init', etag: 'x' });
  const place = `/accounts/${account}/d1/database/notes/import`;
  const urls: string[] = [];
  for (let at = 0; at < 12; at++) urls.push((await ask('POST', place, init)).body.result.upload_url);
  const put = async (url: string) => (await fetch(url, { method: 'PUT', body: 'SELECT 1' })).status;
  const statuses = await Promise.all(urls.map(put));
  assert.deepEqual([statuses.filter((status) => status === 200).length, statuses.at(-1)], [10, 200]);

  const { id } = await rpc('accounts.create', { name: 'Viewer', email: 'viewer@example.com' });
  const { key } = await rpc('keys.create', { account: id });
  await rpc('collaborators.set', { id: 'guarded', account: id, role: 'view' });
  const theirs = await ask('POST', place.replace(account, id), init, key);
  assert.equal(theirs.status, 403, JSON.stringify(theirs.body));
  const tail = await ask('POST', `${script('guarded').replace(account, id)}/tails`, '{}', key);
  const url = tail.body.result.url.replace(/^ws/, 'http');
  assert.equal((await fetch(url)).status, 426);
  const open = new WebSocket(tail.body.result.url, 'trace-v1');
  const closed = once(open, 'close');
  await once(open, 'open');
  await rpc('collaborators.remove', { id: 'guarded', account: id });
  assert.equal((await fetch(url)).status, 403);
  let ended: number | null = null;
  void closed.then(([event]) => (ended = event.code));
  await eventually(async () => {
    await cellar.get('guarded');
    return ended !== null;
  }, 'the open one ends at a line of the log');
  assert.equal(ended, 1008);
});

test('values of KV with an invalid expiration or metadata are refused', async () => {
  const bindings = [{ type: 'kv_namespace', name: 'KV', namespace_id: 'words' }];
  const worker = form({ main_module: 'index.js', bindings }, { 'index.js': WORKER });
  assert.equal((await ask('PUT', script('valued'), worker)).status, 200);
  const value = `/accounts/${account}/storage/kv/namespaces/words/values/key`;
  const damaged = new FormData();
  damaged.set('value', 'fine');
  damaged.set('metadata', '{');
  const refused = [
    await ask('PUT', `${value}?expiration_ttl=soon`, 'fine'),
    await ask('PUT', `${value}?expiration=1e300`, 'fine'),
    await ask('PUT', value, damaged),
  ];
  assert.deepEqual(
    refused.map(({ status }) => status),
    [400, 400, 400],
    JSON.stringify(refused),
  );
});

test('an upload interrupted by the end of Cellar leaves nothing, and the next one works', async () => {
  const { port } = new URL(cellar.api);
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `PUT /client/v4${script('cut')} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${cellar.key}\r\ncontent-type: multipart/form-data; boundary=x\r\ncontent-length: 1000000\r\n\r\n--x\r\n${'half '.repeat(20_000)}`,
  );
  await eventually(() => kept().incoming === 1, 'the upload is being taken');
  const { versions } = kept();
  await cellar.stop('SIGKILL');
  socket.destroy();
  await cellar.start();
  assert.deepEqual(kept(), { incoming: 0, versions });
  assert.equal((await cellar.call('GET', '/v1/apps/cut')).status, 404);
  const { status, body } = await ask(
    'PUT',
    script('cut'),
    form({ main_module: 'index.js' }, { 'index.js': WORKER }),
  );
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal((await cellar.get('cut')).text, 'fine');
});

test('a site with files that were not sent, or with paths outside, is refused', async () => {
  const site = (name: string, manifest: unknown) => {
    const namespace_id = `__${name}-workers_sites_assets`;
    const body = form(
      {
        main_module: 'index.js',
        bindings: [{ type: 'kv_namespace', name: '__STATIC_CONTENT', namespace_id }],
      },
      { 'index.js': WORKER },
    );
    const text = typeof manifest === 'string' ? manifest : JSON.stringify(manifest);
    body.set(
      '__STATIC_CONTENT_MANIFEST',
      new File([text], '__STATIC_CONTENT_MANIFEST', { type: 'text/plain' }),
    );
    return body;
  };
  const send = (name: string, files: object[]) =>
    ask(
      'PUT',
      `/accounts/${account}/storage/kv/namespaces/__${name}-workers_sites_assets/bulk`,
      JSON.stringify(files),
    );
  const file = { key: 'a.1.html', value: 'YQ==', base64: true };
  assert.equal((await send('siteless', [file])).status, 200);
  assert.match(
    await fault('siteless', site('siteless', { 'b.html': 'b.1.html' })),
    /"b.html" of the site was not sent/,
  );
  assert.match(
    await fault('siteless', site('siteless', { '../../a.html': 'a.1.html' })),
    /must not have an empty part between two slashes/,
  );
  assert.match(await fault('siteless', site('siteless', { 'a.html/': 'a.1.html' })), /name a file/);
  assert.match(await fault('siteless', site('siteless', '[1]')), /must be a JSON object/);
  assert.match(await fault('siteless', site('siteless', '{')), /must be a JSON object/);
  // The files were sent for another Worker.
  assert.match(
    await fault('thief', site('thief', { 'a.html': 'a.1.html' })),
    /"a.html" of the site was not sent/,
  );
  const outside = await send('siteless', [{ ...file, key: '../../a' }]);
  assert.equal(outside.status, 400);
  assert.match(outside.body.errors[0]!.message, /must not have an empty part between two slashes/);
  const wrong = await send('siteless', [{ key: 'a' }]);
  assert.equal(wrong.status, 400);
  assert.match(wrong.body.errors[0]!.message, /each with the texts "key" and "value"/);
  // A power cut may leave the sent files empty.
  const sessions = join(cellar.data, 'uploads/assets');
  for (const path of readdirSync(sessions, { recursive: true, encoding: 'utf8' }))
    if (/\/files\/./.test(path)) truncateSync(join(sessions, path));
  assert.match(
    await fault('siteless', site('siteless', { 'a.html': 'a.1.html' })),
    /"\/a.html" does not have the 1 bytes/,
  );
});

test('batches of a site are taken as Wrangler sends them: large, and five at once', async () => {
  const path = `/accounts/${account}/storage/kv/namespaces/__large-workers_sites_assets/bulk`;
  const answers = await Promise.all(
    [20, 2, 2, 2, 2].map((mib, batch) => {
      const value = 'a'.repeat(mib * 2 ** 20);
      const files = ['a', 'b'].map((name) => ({ key: `${batch}/${name}.txt`, value, base64: true }));
      return ask('PUT', path, JSON.stringify(files));
    }),
  );
  for (const { status, body } of answers)
    assert.deepEqual([status, body.result?.successful_key_count], [200, 2], JSON.stringify(body.errors));
});
