// Workers Sites: bundled, run by workerd, and compared with Miniflare.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { pathMatcher } from '../../bundler/workers-site/patterns.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';
import { call, startRelease } from '../support/fleets/release.ts';
import { newMiniflare } from '../support/miniflare.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = new URL('../apps/workers-site/', import.meta.url).pathname;
const HANDLER = 'node_modules/@cloudflare/kv-asset-handler';
const worktrees = makeWorktrees();
after(worktrees.remove);

type Ask = (path: string, method?: string) => Promise<{ status: number; text: string; headers: object }>;

/** Bundles a project, and starts it as a release. */
async function start(t: TestContext, files: Parameters<typeof worktrees.bundle>[0]) {
  const bundled = await worktrees.bundle(files);
  const release = { format: 1, deployId: 'bundle', sha: '0'.repeat(40), classes: [], ...bundled.bundle };
  writeFileSync(join(bundled.out, 'release.json'), JSON.stringify(release));
  const cell = await startRelease(temporaryDirectory(t), bundled.out);
  t.after(() => cell.stop());
  const ask: Ask = (path, method = 'GET') => call(cell.socketPath('http'), path, { method });
  return { ...bundled, ask };
}

/** Returns the files of the sample app, its package, and files with unusual names. */
function sample(): Record<string, string> {
  const files: Record<string, string> = {
    'public/sub folder/Ärger/index.html': '<p>sub</p>',
    'public/sub folder/a%20b#c?.css': 'body {}',
    'public/.hidden': 'hidden',
    'public/sub folder/node_modules/x.js': 'a package',
  };
  for (const path of readdirSync(APP, { recursive: true, encoding: 'utf8' }))
    if (statSync(join(APP, path)).isFile()) files[path] = readFileSync(join(APP, path), 'utf8');
  for (const name of ['package.json', 'dist/index.js'])
    files[`${HANDLER}/${name}`] = readFileSync(new URL(`../../${HANDLER}/${name}`, import.meta.url), 'utf8');
  return files;
}

const PATHS = [
  '.well-known/security.txt',
  'about.html',
  'data.json',
  'index.html',
  'sub folder/a%20b#c?.css',
];

test('a site with kv-asset-handler answers as in Miniflare', async (t) => {
  const files = sample();
  const { ask, bundle, read, notes } = await start(t, files);
  assert.deepEqual(bundle.warnings, undefined);
  assert.ok(notes.includes('site: 6 files in public'), notes.join('\n'));
  const instance = newMiniflare({
    name: 'site',
    modules: [{ type: 'ESModule', path: 'index.js', contents: read(bundle.worker!.modules[0]!.path) }],
    compatibilityDate: '2026-10-01',
    sitePath: join(worktrees.write(files), 'public'),
    siteExclude: ['**/*.draft', 'private/*', '**/node_modules/**', '.hidden'],
  });
  t.after(() => instance.dispose());
  const url = await instance.ready;
  const type = (headers: object) => (headers as Record<string, string>)['content-type'];
  for (const [path, method] of [
    ['/'],
    ['/about.html'],
    ['/data.json'],
    ['/data.json', 'HEAD'],
    ['/nothing'],
    ['/private/notes.txt'],
    ['/page.draft'],
    ['/sub%20folder/%C3%84rger/'],
    ['/api/paths'],
  ] as [string, string?][]) {
    const response = await fetch(new URL(path, url), { method: method ?? 'GET' });
    const theirs = [response.status, await response.text(), response.headers.get('content-type')];
    const { status, text, headers } = await ask(path, method);
    assert.deepEqual([status, text, type(headers) ?? null], theirs, path);
  }
});

test('the namespace has the files of the site alone, and cannot be written', {
  timeout: 60_000,
}, async (t) => {
  const { ask, read } = await start(t, sample());
  const json = async (path: string) => JSON.parse((await ask(path)).text);
  assert.deepEqual(await json('/api/paths'), [...PATHS, 'sub folder/Ärger/index.html']);
  const keys = Object.values(JSON.parse(read('modules/__STATIC_CONTENT_MANIFEST'))).sort();
  assert.deepEqual(await json('/api/list'), keys);
  assert.deepEqual(await json('/api/pages'), keys);
  assert.match(String(keys[1]), /^about\.[0-9a-f]{10}\.html$/);
  const [nothing, outside, excluded, path, put, removed] = await json('/api/strange');
  assert.deepEqual([nothing, outside, excluded, path], [null, null, null, null]);
  assert.match(put, /405 Cannot put\(\) with Workers Sites namespace/);
  assert.match(removed, /405 Cannot delete\(\) with Workers Sites namespace/);
  assert.equal((await ask('/')).text, '<h1>Home</h1>\n');
  assert.equal((await ask('/.well-known/security.txt')).text, 'ok\n');
  assert.deepEqual(await json('/api/bulk'), [{ a: 1 }, null, { a: 1 }, null]);
});

test('a service worker has the site as globals, at the older entry-point', async (t) => {
  const files = sample();
  delete files['index.js'];
  const { ask, bundle } = await start(t, {
    ...files,
    'wrangler.jsonc': JSON.stringify({
      name: 'site',
      compatibility_date: '2024-01-01',
      site: { bucket: 'public', 'entry-point': 'workers-site', include: ['*.html', '!about.html'] },
    }),
    'workers-site/index.js': `
      import { getAssetFromKV } from '@cloudflare/kv-asset-handler';
      addEventListener('fetch', (event) => event.respondWith(
        getAssetFromKV(event).catch((error) => new Response(error.message, { status: 404 }))));`,
  });
  assert.equal(bundle.worker!.main, 'workers-site/index.js');
  assert.deepEqual([(await ask('/')).status, (await ask('/')).text], [200, '<h1>Home</h1>\n']);
  assert.equal((await ask('/about.html')).status, 404);
  assert.equal((await ask('/data.json')).status, 404);
});

test('a site that is missing, too large or outside the project is refused', async () => {
  const site = (bucket: string, files = {}, mb = 1) =>
    worktrees.bundle(wranglerProject({ site: { bucket } }, files), null, mb);
  await assert.rejects(site('none'), /site\.bucket: there is no none/);
  await assert.rejects(site('../..'), /site\.bucket/);
  await assert.rejects(site('big', { 'big/a': 'x'.repeat(2 ** 20 + 1) }), /more than the 1 MiB/);
  await assert.rejects(site('out', { 'out/a': { link: '/etc/passwd' } }), /link that leaves the project/);
  const deep = `deep/${'folder/'.repeat(90)}a.txt`;
  await assert.rejects(site('deep', { [deep]: 'x' }), /has more than 512 bytes: shorten the path/);
});

const PATTERNS: [patterns: string[], matched: string[], others: string[]][] = [
  [['*.png'], ['a.png', 'b/c/a.png', 'A.PNG', '.well-known/a.png'], ['a.jpg', 'apng']],
  [['docs'], ['docs', 'docs/a', 'x/docs/a/b'], ['docs2/a']],
  [['docs/'], ['docs/a', 'x/docs/a'], ['docs', 'x/docs']],
  [['/docs'], ['docs', 'docs/a'], ['x/docs']],
  [['a/b'], ['a/b', 'a/b/c'], ['x/a/b']],
  [['a/**/z'], ['a/z', 'a/b/c/z'], ['z']],
  [
    ['*.html', '!index.html'],
    ['a.html', 'x/a.html'],
    ['index.html', 'x/index.html'],
  ],
  [['docs', '!docs/a'], ['docs/a', 'docs/b'], []],
  [['# note', '', '\\#a'], ['#a'], ['# note', 'a']],
  [
    ['{a,b}', '(a)'],
    ['{a,b}', '(a)'],
    ['a', 'b'],
  ],
  [[], [], ['a']],
];

test('patterns match as in .gitignore', () => {
  for (const [patterns, matched, others] of PATTERNS) {
    const matches = pathMatcher(patterns);
    assert.deepEqual([...matched, ...others].filter(matches), matched, patterns.join(' '));
  }
});
