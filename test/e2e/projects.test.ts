// Pushed projects that are configured in other ways than by a Worker's configuration.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Files, writeFiles } from '../support/builds/projects.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { eventually } from '../support/processes.ts';

const cellar = sharedCellar('code');

/** Pushes files to an existing app, and returns git's output. */
async function push(slug: string, files: Files): Promise<string> {
  const work = mkdtempSync(join(cellar.directory, `${slug}-`));
  writeFiles(work, files);
  await cellar.git(work, 'init', '--quiet', '--initial-branch=main');
  await cellar.commit(work, 'all');
  return (await cellar.push(work, slug, '--force')).stderr;
}

const body = async (slug: string, path: string) => (await cellar.get(slug, path)).text.trim();

test('a Pages project answers by its functions, and at other paths by its files', async () => {
  await cellar.deploy('pages', 'pages');
  const put = await cellar.get('pages', '/api/notes/one', { method: 'PUT', body: 'a note' });
  assert.deepEqual([put.status, put.headers.get('x-middleware')], [201, 'api']);
  assert.equal(await body('pages', '/api/notes/one'), 'a note');
  assert.equal(await body('pages', '/api/stage'), '{"stage":"production"}');
  assert.equal(await body('pages', '/api/of/any/kind'), 'of+any+kind: <h1>Pages</h1>');
  assert.equal(await body('pages', '/'), '<h1>Pages</h1>');
  const about = await cellar.get('pages', '/about');
  assert.deepEqual([about.headers.get('x-about'), about.headers.get('x-middleware')], ['yes', null]);
  const defaults = ({ headers }: { headers: Headers }) =>
    ['referrer-policy', 'x-content-type-options', 'access-control-allow-origin'].map((name) =>
      headers.get(name),
    );
  const policy = 'strict-origin-when-cross-origin';
  assert.deepEqual(defaults(about), ['no-referrer', 'nosniff', null]);
  assert.deepEqual(defaults(await cellar.get('pages', '/')), [policy, 'nosniff', null]);
  const old = await cellar.get('pages', '/old', { redirect: 'manual' });
  assert.deepEqual([old.status, old.headers.get('location')], [301, '/about']);
  const nowhere = await cellar.get('pages', '/nowhere');
  assert.deepEqual([nowhere.status, nowhere.text.trim()], [404, '<h1>Not here</h1>']);
  assert.deepEqual(defaults(nowhere), [policy, 'nosniff', null]);
});

test('a Pages project in advanced mode runs the Worker and uses the routes that its build wrote', async () => {
  await cellar.create('advanced');
  const worker = `import { word } from './word.js';
    export default { fetch(request, env) {
      const { pathname } = new URL(request.url);
      if (pathname.endsWith('/edit')) return new Response('edit');
      if (pathname === '/api') return new Response('the API');
      return pathname === '/api/word' ? new Response(word) : env.ASSETS.fetch(request);
    } };`;
  const log = await push('advanced', {
    'package.json':
      '{"scripts": {"build": "cp -r source dist", "deploy": "npm run build && cd dist && wrangler pages deploy ."}}',
    'source/index.html': '<h1>App</h1>',
    'source/_worker.js/index.js': worker,
    'source/_worker.js/word.js': 'export const word = "advanced";',
    'source/_routes.json': '{"version": 1, "include": ["/api/*", "/*/edit"], "exclude": ["/api/files/*"]}',
    'source/api/files/a.txt': 'a file',
  });
  assert.match(log, /Cloudflare Pages project: dist/);
  assert.equal(await body('advanced', '/api/word'), 'advanced');
  assert.equal(await body('advanced', '/api'), 'the API');
  assert.equal(await body('advanced', '/api/files/a.txt'), 'a file');
  assert.equal(await body('advanced', '/notes/1/edit'), 'edit');
  for (const path of ['/some/route', '/package.json', '/source/api/files/a.txt'])
    assert.equal(await body('advanced', path), '<h1>App</h1>', path);
  assert.doesNotMatch(await body('advanced', '/_worker.js/word.js'), /advanced/);
  assert.doesNotMatch(await body('advanced', '/_routes.json'), /include/);
});

test('a push refuses a Worker without handlers by name, and deploys one without fetch(), which says that it has none', async () => {
  await cellar.create('called');
  const refused = await push('called', { 'index.js': 'export default { featch() {} };' });
  assert.match(
    refused,
    /failed: index\.js: the default export has no handler \(it has featch\), so .*: write `export default \{ fetch/,
  );
  const config =
    '{"name": "x", "main": "a.ts", "compatibility_date": "2026-10-01", "triggers": {"crons": ["0 0 1 1 *"]}}';
  const log = await push('called', {
    'wrangler.jsonc': config,
    'a.ts': 'export default { scheduled() {} } satisfies object;',
  });
  assert.match(log, /a\.ts: no fetch\(\) in the default export: requests to the app are answered 404/);
  const { status, text } = await cellar.get('called', '/');
  assert.deepEqual(
    [status, text],
    [404, 'This app answers no requests: its Worker has no fetch() handler.\n'],
  );
});

test('a Worker in service worker syntax has its bindings as globals', async () => {
  await cellar.create('listens');
  await push('listens', {
    'wrangler.toml': `name = "listens"
main = "worker.js"
compatibility_date = "2026-10-01"
kv_namespaces = [{ binding = "PAGES", id = "pages" }]
vars = { WORD = "hello" }
`,
    'worker.js': `const greeting = WORD + ' of a global';
addEventListener('fetch', (event) => {
  event.waitUntil(PAGES.put('last', event.request.url));
  if (event.request.url.endsWith('/greeting')) event.respondWith(new Response(greeting));
});
addEventListener('fetch', (event) => event.respondWith(answer()));
async function answer() {
  const [{ name }] = (await PAGES.list()).keys;
  return new Response(name);
}
`,
  });
  assert.equal(await body('listens', '/greeting'), 'hello of a global');
  assert.equal(await body('listens', '/'), 'last');
});

test('modules that a Worker imports dynamically by name are deployed unbundled', async () => {
  await cellar.create('finds');
  await push('finds', {
    'wrangler.jsonc': JSON.stringify({
      main: 'src/index.ts',
      compatibility_date: '2026-10-01',
      find_additional_modules: true,
      rules: [{ type: 'ESModule', globs: ['**/*.js'] }],
    }),
    'src/index.ts': `import hello from './lang/en.js';
export default {
  async fetch(request: Request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/') return new Response(hello);
    const { default: word } = await import('./' + ['lang', pathname.slice(1)].join('/') + '.js');
    return new Response(word);
  },
};
`,
    'src/lang/en.js': "import { mark } from '../mark.js';\nexport default 'hello' + mark;\n",
    'src/lang/fr.js': "export { default } from './words/bonjour.txt';\n",
    'src/lang/words/bonjour.txt': 'bonjour',
    'src/mark.js': "export const mark = '!';\n",
    'src/not.ts': 'not JavaScript',
  });
  assert.equal(await body('finds', '/'), 'hello!');
  assert.equal(await body('finds', '/en'), 'hello!');
  assert.equal(await body('finds', '/fr'), 'bonjour');
});

test('an app is built in the folder that its settings name, from the next deploy on', async () => {
  const id = await cellar.create('repository');
  const files = {
    'package.json': '{"workspaces": ["apps/*"]}',
    'shared/word.ts': 'export const word = "shared";',
    'apps/api/wrangler.jsonc': '{ "main": "index.ts", "compatibility_date": "2026-10-01" }',
    'apps/api/index.ts':
      'import { word } from "../../shared/word"; export default { fetch: () => new Response(word) };',
    'apps/web/wrangler.jsonc': '{ "assets": { "directory": "public" } }',
    'apps/web/public/index.html': '<h1>Web</h1>',
  };
  assert.match(await push('repository', files), /lie in apps\/api, apps\/web: say which is the app/);
  const set = async (settings: object) => {
    const call = { jsonrpc: '2.0', id: 1, method: 'builds.set', params: { id, ...settings } };
    const { body } = await cellar.call('POST', '/rpc', call);
    return body.result ?? body.error.data;
  };
  assert.equal((await set({ root_directory: '../x' })).errors[0].path, 'root_directory');
  await set({ root_directory: 'apps/api' });
  assert.match(await push('repository', { ...files, 'README.md': 'once' }), /serves this push/);
  assert.equal(await body('repository', '/'), 'shared');
  await set({ root_directory: 'apps/web' });
  assert.match(await push('repository', { ...files, 'README.md': 'twice' }), /serves this push/);
  assert.equal(await body('repository', '/'), '<h1>Web</h1>');
});

test('the release command of the settings runs before the new version is live; its failure keeps the earlier one', async () => {
  const id = await cellar.create('released');
  const set = async (settings: object) => {
    const call = { jsonrpc: '2.0', id: 1, method: 'builds.set', params: { id, ...settings } };
    return (await cellar.call('POST', '/rpc', call)).body.result;
  };
  const site = (page: string) => ({ 'index.html': page });
  assert.match(await push('released', site('one')), /serves this push/);
  // The earlier version answers while the command runs.
  const edge = `http://127.0.0.1:${cellar.edgePort}/`;
  const asks = `node -e 'require("http").get("${edge}", { headers: { host: "released.localhost" } }, (r) => r.pipe(process.stdout))'`;
  await set({ release_command: `cat index.html; echo; ${asks}; echo; exit 3` });
  const failed = await push('released', site('two'));
  assert.match(failed, /▸ release_command: cat index\.html/);
  assert.match(failed, /remote: +two\b/);
  assert.match(failed, /deploy failed: .* failed with exit code 3/);
  assert.match(failed, /stays live/);
  assert.equal(await body('released', '/'), 'one');
  const [deploy, first] = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  assert.equal(deploy.status, 'failed');
  assert.equal(deploy.steps.at(-1).name, 'release_command');
  assert.equal(deploy.steps.at(-1).status, 'failed');

  await set({ release_command: 'echo migrated' });
  const released = await push('released', site('three'));
  assert.match(released, /remote: +migrated\b.*▸ start:/s);
  assert.equal(await body('released', '/'), 'three');

  const { status, body: rollback } = await cellar.call('POST', `/v1/apps/${id}/rollback`, {
    deploy_id: first.id,
  });
  assert.ok(status < 300, JSON.stringify(rollback));
  await eventually(async () => (await body('released', '/')) === 'one', 'the first version is back');
  const log = await cellar.call('GET', `/v1/apps/${id}/deploys/${rollback.id}/log`);
  assert.doesNotMatch(log.body.log, /release_command|migrated/);
});

test('an entry that only the script `deploy` names is deployed with the script’s options', async () => {
  await cellar.create('scripted');
  const log = await push('scripted', {
    'package.json': JSON.stringify({
      scripts: {
        deploy:
          'npm run words && wrangler d1 migrations apply DB --remote && wrangler deploy src/index.ts --name x --compatibility-date=2026-01-01 --var WORD:hi --assets ./public',
        words: 'mkdir -p public && echo made > public/made.txt',
      },
    }),
    'src/index.ts':
      'export default { fetch: (_: Request, env: { WORD: string }) => new Response(env.WORD) };',
    'public/a.txt': 'an asset',
    'index.html': 'not this',
  });
  assert.match(log, /"deploy" of package\.json says what is deployed/);
  assert.equal(await body('scripted', '/'), 'hi');
  assert.equal(await body('scripted', '/a.txt'), 'an asset');
  assert.match(log, /▸ build: npm run words/);
  assert.match(log, /not run, because .*: wrangler d1 migrations apply DB --remote/);
  assert.equal(await body('scripted', '/made.txt'), 'made');
});

test('options of the script `deploy` override the configuration, and a missing program is named', async () => {
  await cellar.create('beside');
  const files = (deploy: string) => ({
    'package.json': JSON.stringify({ scripts: { deploy } }),
    'wrangler.jsonc': JSON.stringify({
      main: 'src/other.ts',
      compatibility_date: '2026-10-01',
      vars: { WORD: 'top' },
      env: { live: { vars: { WORD: 'live' } } },
    }),
    'src/index.ts':
      'export default { fetch: (_: Request, env: { WORD: string }) => new Response(env.WORD) };',
    'src/other.ts': "export default { fetch: () => new Response('other') };",
  });
  const deploys = 'wrangler deploy src/index.ts --env live';
  assert.match(await push('beside', files(deploys)), /serves this push/);
  assert.equal(await body('beside', '/'), 'live');
  const failed = await push('beside', files(`no-such-program && ${deploys}`));
  assert.match(failed, /`no-such-program` failed with exit code 127: .*no-such-program: not found/);
  const pages = {
    'wrangler.toml': 'name = "p"\ncompatibility_date = "2026-10-01"\n',
    'site/index.html': '<h1>Site</h1>',
  };
  await cellar.create('beside-pages');
  await push('beside-pages', {
    ...pages,
    'package.json': '{"scripts": {"deploy": "wrangler pages deploy site"}}',
  });
  assert.equal(await body('beside-pages', '/'), '<h1>Site</h1>');
});

test('a push warns that a class renamed without a migration loses its objects', async () => {
  await cellar.create('rooms');
  const files = (name: string, migrations: object[]) => ({
    'wrangler.json': JSON.stringify({
      name: 'rooms',
      main: 'index.js',
      compatibility_date: '2026-10-01',
      durable_objects: { bindings: [{ name: 'ROOM', class_name: name }] },
      migrations,
    }),
    'index.js': `import { DurableObject } from 'cloudflare:workers';
export class ${name} extends DurableObject {}
export default { fetch: () => new Response('${name}') };`,
  });
  const made = { tag: 'v1', new_sqlite_classes: ['Room'] };
  const warning =
    /warning: (\w+) starts without objects, and the objects of (\w+), which .* add "renamed_classes"/;
  assert.doesNotMatch(await push('rooms', files('Room', [made])), warning);
  const [, begins, left] = warning.exec(await push('rooms', files('Hall', [made]))) ?? [];
  assert.deepEqual([begins, left], ['Hall', 'Room']);
  const renamed = { tag: 'v2', renamed_classes: [{ from: 'Hall', to: 'Foyer' }] };
  assert.doesNotMatch(await push('rooms', files('Foyer', [made, renamed])), warning);
});

test('a push warns of a database that another app of the owner names too', async () => {
  const database = {
    binding: 'DB',
    database_name: 'status',
    database_id: '6f1f0a2e-5c3b-4a53-9b8f-0f3c1f4c8a11',
  };
  const files = {
    'wrangler.jsonc': JSON.stringify({
      name: 'status',
      main: 'index.js',
      compatibility_date: '2026-10-01',
      d1_databases: [database],
    }),
    'index.js': "export default { fetch: () => new Response('up') };",
  };
  const pushed = async (slug: string) => {
    await cellar.create(slug);
    return push(slug, files);
  };
  assert.doesNotMatch(await pushed('status-page'), /names 6f1f0a2e/);
  assert.match(
    await pushed('status-worker'),
    /warning: d1_databases: the app status-page names 6f1f0a2e\S+ too/,
  );
});

test('pages that Next.js has prerendered are in its cache before it serves, and a rollback keeps them', async () => {
  const { id } = (await cellar.call('POST', '/v1/apps', { slug: 'next-cache' })).body;
  const key = createHash('sha256').update('/hello').digest('hex');
  const next = (name: string, cache: string, config: object) => ({
    'wrangler.jsonc': JSON.stringify({
      name: 'x',
      main: '.open-next/worker.js',
      compatibility_date: '2026-10-01',
      d1_databases: [{ binding: 'NEXT_TAG_CACHE_D1', database_name: 'tags' }],
      ...config,
    }),
    '.open-next/cache/b1/hello.cache': `made for ${name}`,
    '.open-next/worker.js': `// ${name}
      export default { async fetch(request, env) {
        const tags = await env.NEXT_TAG_CACHE_D1.prepare('SELECT count(*) AS n FROM revalidations').first();
        if (request.method === 'PUT') await env.${cache}.put('incremental-cache/b1/${key}.cache', 'newer');
        const found = await env.${cache}.get('incremental-cache/b1/${key}.cache');
        return new Response([${JSON.stringify(name)}, await (found?.text?.() ?? found), tags.n].join());
      } };`,
  });
  const first = await push(
    'next-cache',
    next('cf-r2-incremental-cache', 'NEXT_INC_CACHE_R2_BUCKET', {
      r2_buckets: [{ binding: 'NEXT_INC_CACHE_R2_BUCKET', bucket_name: 'cache' }],
    }),
  );
  assert.match(first, /▸ cache: into NEXT_INC_CACHE_R2_BUCKET, files: 1/);
  assert.equal(await body('next-cache', '/'), 'cf-r2-incremental-cache,made for cf-r2-incremental-cache,0');
  await cellar.get('next-cache', '/', { method: 'PUT' });
  const [deployed] = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  await push(
    'next-cache',
    next('cf-kv-incremental-cache', 'NEXT_INC_CACHE_KV', {
      kv_namespaces: [{ binding: 'NEXT_INC_CACHE_KV', id: 'cache' }],
    }),
  );
  assert.equal(await body('next-cache', '/'), 'cf-kv-incremental-cache,made for cf-kv-incremental-cache,0');
  await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: deployed.id });
  await eventually(
    async () => (await body('next-cache', '/')) === 'cf-r2-incremental-cache,newer,0',
    'the rollback serves, with the cache as it was',
  );
});

test('Workers Sites answer by push, and their namespace is among the bindings', async () => {
  const id = await cellar.create('sites');
  await push('sites', {
    'wrangler.jsonc': JSON.stringify({
      name: 'sites',
      main: 'index.js',
      compatibility_date: '2026-10-01',
      site: { bucket: 'public', exclude: ['*.draft'] },
    }),
    'index.js': `import manifest from '__STATIC_CONTENT_MANIFEST';
      export default { async fetch(request, env) {
        const key = JSON.parse(manifest)[new URL(request.url).pathname.slice(1)];
        return new Response(key === undefined ? 'not here' : await env.__STATIC_CONTENT.get(key, 'stream'));
      } };`,
    'public/a/page.html': '<h1>A page</h1>',
    'public/a/page.draft': 'a draft',
  });
  assert.equal(await body('sites', '/a/page.html'), '<h1>A page</h1>');
  assert.equal(await body('sites', '/a/page.draft'), 'not here');
  const { owner } = await cellar.app(id);
  const settings = await cellar.call('GET', `/client/v4/accounts/${owner}/workers/scripts/sites/settings`);
  assert.match(JSON.stringify(settings), /"name":"__STATIC_CONTENT"/);
});
