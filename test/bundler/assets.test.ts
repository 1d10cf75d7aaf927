import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Files } from '../support/builds/projects.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

const index = { 'index.html': '<h1>Site</h1>' };

test("a site in the project's root is served without the files of its tools", async () => {
  const { bundle, list, notes } = await worktrees.bundle({
    ...index,
    _headers: '/*\n  x-a: b',
    _redirects: '/a /b',
    '.assetsignore': 'drafts',
    '.well-known/security.txt': 'contact',
    'package.json': '{}',
    'package-lock.json': '{}',
    'node_modules/a/index.js': '',
    '.gitignore': '',
    '.env': 'SECRET=1',
    '.github/workflows/ci.yml': '',
    'sub/.env.local': 'SECRET=1',
    'sub/page.html': '',
    '_routes.json': '{}',
    'functions/api.js': 'exports.api = onRequest(() => {});',
  });
  assert.deepEqual(list(), [
    'assets/.assetsignore',
    'assets/.well-known/security.txt',
    'assets/_headers',
    'assets/_redirects',
    'assets/index.html',
    'assets/sub/page.html',
  ]);
  assert.deepEqual(bundle.assets?.rules, {
    headers: '/*\n  x-a: b',
    redirects: '/a /b',
    ignore: 'drafts',
  });
  assert.deepEqual(notes, ['static site: 6 files in .']);
});

test('a built site is served whole, except local secrets', async () => {
  const { list } = await worktrees.bundle({
    'dist/index.html': '',
    'dist/assets/node_modules/font.woff2': '',
    'dist/.hidden': '',
    'dist/.dev.vars': 'SECRET=1',
    'index.html': 'the source',
  });
  assert.deepEqual(list(), ['assets/.hidden', 'assets/assets/node_modules/font.woff2', 'assets/index.html']);
});

test('the modification time of an asset only depends on its bytes', async () => {
  const times = async (end: string) => {
    const { out } = await worktrees.bundle({ ...index, 'a.bin': 'x'.repeat(100_000) + end });
    return ['index.html', 'a.bin'].map(
      (name) => statSync(join(out, 'assets', name), { bigint: true }).mtimeNs,
    );
  };
  const [page, file] = await times('a');
  assert.deepEqual(await times('a'), [page, file]);
  const [samePage, changed] = await times('b');
  assert.equal(samePage, page);
  assert.notEqual(changed, file);
  for (const time of [page!, file!, changed!]) {
    assert.equal(time % 1_000_000_000n, 0n);
    assert.ok(time > 0 && time < 2n ** 30n * 1_000_000_000n + 1_000_000_000n);
  }
});

test('links inside the project are followed, and links out of it are refused', async () => {
  const outside = worktrees.write({ secret: 's3cret', 'folder/secret': 's3cret' });
  const { read } = await worktrees.bundle({
    ...index,
    'real/a.txt': 'a',
    'linked.txt': { link: 'real/a.txt' },
    shared: { link: 'real' },
  });
  assert.equal(read('assets/linked.txt'), 'a');
  assert.equal(read('assets/shared/a.txt'), 'a');
  for (const link of [join(outside, 'secret'), join(outside, 'folder'), '../..', '/etc/passwd']) {
    await assert.rejects(
      worktrees.bundle({ ...index, 'sub/link': { link } }),
      /^BuildFailure: assets: sub\/link is a link that leaves the project/,
    );
  }
  await assert.rejects(
    worktrees.bundle({ ...index, 'sub/broken': { link: 'nowhere' } }),
    /^BuildFailure: assets: sub\/broken is a link that leaves the project or leads nowhere/,
  );
});

test('a link to one of its own parent folders does not loop forever', async () => {
  await assert.rejects(
    worktrees.bundle({ ...index, 'sub/again': { link: '..' } }),
    /^BuildFailure: assets: sub\/again is a link to a folder that contains the link/,
  );
});

test('folders with many links to them are refused before their copies fill the disk', async () => {
  const links = (levels: number): Files =>
    Object.fromEntries(
      Array.from({ length: levels }, (_, level) => {
        const next = { link: `../${level + 1}` };
        return Object.entries({ [`${level}/a`]: next, [`${level}/b`]: next });
      }).flat(),
    );
  const big = { ...index, ...links(9), '9/big.bin': 'x'.repeat(2 ** 20) };
  const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`11/${i}`, '']));
  await assert.rejects(
    worktrees.bundle(big, null, 20),
    /^BuildFailure: assets: \. has more than the 20 MiB that a build may use \(RUNNER_BUILD_MAX_MB\); a linked folder counts once for each/,
  );
  await assert.rejects(
    worktrees.bundle({ ...index, ...links(11), ...many }),
    /^BuildFailure: assets: \. has more than 100000 files and folders; a linked folder counts once/,
  );
  const { list } = await worktrees.bundle({ ...index, ...links(3), '3/big.bin': 'x' }, null, 20);
  assert.equal(list().length, 16);
});

test('the assets directory of a Wrangler project must exist inside the project', async () => {
  const assets = (directory: string | undefined) =>
    worktrees.bundle(wranglerProject({ assets: { directory, binding: 'A' } }));
  await assert.rejects(assets('dist'), /^BuildFailure: assets\.directory: there is no dist/);
  await assert.rejects(
    assets('../..'),
    /^BuildFailure: assets\.directory: \.\.\/\.\. lies outside the project/,
  );
  await assert.rejects(assets(undefined), /^BuildFailure: assets\.directory is missing/);
});

test('the error for missing assets that a package builds says how to build them', async () => {
  const files = { 'web/package.json': '{"scripts":{"build":"vite build"}}', 'docs/x': '' };
  const assets = (directory: string) =>
    worktrees.bundle({ ...files, 'wrangler.jsonc': JSON.stringify({ name: 'x', assets: { directory } }) });
  await assert.rejects(
    assets('web/dist/client'),
    /there is no web\/dist\/client: .* built\. web is a package that was not built: set .* `cd web && npm ci && npm run build`$/,
  );
  await assert.rejects(assets('docs/dist'), /there is no docs\/dist: [^.]* built$/);
  await assert.rejects(
    worktrees.bundle({ 'wrangler.toml': 'name = "x"\npages_build_output_dir = ".vercel/output/static"' }),
    /next-on-pages writes it: set the app's build_command to `npx @cloudflare\/next-on-pages@1`$/,
  );
});

test('a Wrangler project may have assets and no Worker', async () => {
  const { bundle, list } = await worktrees.bundle({
    'wrangler.toml': 'name = "x"\n[assets]\ndirectory = "site"\nnot_found_handling = "404-page"',
    'site/index.html': '',
  });
  assert.equal(bundle.worker, null);
  assert.equal(bundle.assets?.notFoundHandling, '404-page');
  assert.deepEqual(list(), ['assets/index.html']);
});

test('the log says that a site without an index.html answers 404 at its address', async () => {
  const assets = { main: undefined, assets: { directory: 'site' } };
  const notes = async (...paths: string[]) => {
    const files = Object.fromEntries(paths.map((path) => [path, '']));
    return (await worktrees.bundle(wranglerProject(assets, files))).notes;
  };
  assert.ok((await notes('site/a.html')).includes('/ answers 404: site has no index.html'));
  assert.doesNotMatch((await notes('site/index.html')).join(), /answers 404/);
  assert.doesNotMatch((await notes('site/a.html', 'site/_redirects')).join(), /answers 404/);
});

test('a one-page site filled by a script is a single-page app; any other site has a 404 page', async () => {
  const page = '<!doctype html><div id="app"></div><script type="module" src="/app.js"></script>';
  const handling = async (files: Files) => (await worktrees.bundle(files)).bundle.assets?.notFoundHandling;
  const app = { 'dist/index.html': page, 'dist/app.js': '' };
  assert.equal(await handling(app), 'single-page-application');
  assert.equal(await handling({ ...app, 'dist/404.html': 'Not here' }), '404-page');
  assert.equal(await handling({ ...app, 'dist/about/index.html': page }), '404-page');
  const imports = '<script type="module">import "/a.js";</script>';
  assert.equal(await handling({ 'index.html': imports }), 'single-page-application');
  assert.equal(await handling({ 'index.html': '<h1>One page</h1>' }), '404-page');
});

test('Worker code in an assets folder is never served, and runs if it is the main file', async () => {
  const files = {
    'out/a.txt': '',
    'out/_worker.js': 'export default { fetch() {} }',
    'out/sub/_worker.js': '',
  };
  const assets = { assets: { directory: 'out' } };
  const alone = await worktrees.bundle(wranglerProject({ main: undefined, ...assets }, files));
  assert.deepEqual(alone.list(), ['assets/a.txt', 'assets/sub/_worker.js']);
  assert.ok(alone.notes.includes('_worker.js is not run: name it as "main" in wrangler.jsonc'));
  const main = await worktrees.bundle(wranglerProject({ main: 'out/_worker.js', ...assets }, files));
  assert.ok(main.list().includes('modules/_worker.js') && !main.list().includes('assets/_worker.js'));
  assert.doesNotMatch(main.notes.join(), /is not run/);
});

test('asset rules as long as on Cloudflare are taken, and longer ones fail by name before they are read', async () => {
  const _redirects = `/from /to?${'a'.repeat(480)}\n`.repeat(2100);
  assert.equal(
    (await worktrees.bundle({ ...index, _redirects })).bundle.assets?.rules?.redirects,
    _redirects,
  );
  await assert.rejects(
    worktrees.bundle({ ...index, _headers: '/*\n  x-a: b\n'.repeat(400_000) }),
    /^BuildFailure: assets: _headers has more than 1 MiB$/,
  );
});

test('a Pages project has the default headers of Pages, which its own rules replace', async () => {
  const pages = wranglerProject(
    { main: undefined, pages_build_output_dir: 'dist' },
    { 'dist/index.html': '' },
  );
  const worker = { 'dist/index.html': '', 'dist/_worker.js': 'export default { fetch() {} };' };
  const headers = async (files: Files) => (await worktrees.bundle(files)).bundle.assets?.rules?.headers;
  const defaults = await headers(pages);
  assert.match(defaults!, /^\/:cellar\*\n(.*\n)+https:\/\/\*\n(.*\n)+ {2}X-Content-Type-Options: nosniff\n$/);
  assert.equal(await headers(worker), defaults);
  const own = '/*\n\n\treferrer-policy : a\r\n  X-A: b\n  X-Content-Type-Options:\n  # Referrer-Policy: c';
  assert.equal(
    await headers({ ...worker, 'dist/_headers': own }),
    `${defaults}${own.replace('\treferrer', '  ! referrer-policy\n\treferrer')}`,
  );
  const many = '/a\n  Referrer-Policy: a\n'.repeat(99);
  assert.equal(await headers({ ...pages, 'dist/_headers': many }), many);
  const large = `/*\n  X-A: ${'b'.repeat(2 ** 20 - 50)}`;
  assert.equal(await headers({ ...pages, 'dist/_headers': large }), large);
  assert.equal(await headers({ ...index, _headers: own }), own);
});

test('the routes of a Pages project are accepted or refused as Pages does, and the error names the rule', async () => {
  const routed = (routes: object) =>
    worktrees.bundle({
      'dist/index.html': '',
      'dist/_worker.js': 'export default { fetch() {} };',
      'dist/_routes.json': `\uFEFF${JSON.stringify({ version: 1, ...routes })}`,
    });
  const taken = async (routes: object) => (await routed(routes)).bundle.assets?.runWorkerFirst;
  const forms = async (include: string[], exclude?: string[]) =>
    ((await taken({ include, exclude })) as string[]).join(' ');
  assert.equal(await forms(['/api/*', '/*/edit']), '/api/* /*/edit /api /*/edit/');
  assert.equal(await forms(['/*'], ['/a/*.png', '/b/']), '/* !/a/*.png !/b/ !/a/*.png/ !/b');
  assert.equal(await forms(['/a/*', '/a', '/b', '/b/', '/b', '/']), '/a/* /a /b /b/ /');
  assert.equal(await forms(['/c*', '/c/*', '/cd', `/${'e'.repeat(99)}`]), `/c* /${'e'.repeat(99)}`);
  const many = Array.from({ length: 98 }, (_, n) => `/${n}`);
  assert.equal(await forms([...many, '/x', '/y/']), [...many, '/x', '/y/'].join(' '));
  assert.equal(await forms([...many, '/x']), [...many, '/x', '/0/'].join(' '));
  for (const [routes, message] of [
    [{ include: [] }, /_routes\.json: "include" has no rule/],
    [{ include: many, exclude: ['/a', '/b', '/c'] }, /there are 101 rules, more than 100/],
    [{ include: [`/${'a'.repeat(100)}`] }, /the rule \/a+ has more than 100 characters/],
    [{ include: ['/api/*', '/api/a'] }, /the rule \/api\/\* covers \/api\/a, which Cloudflare Pages refuses/],
    [{ include: ['api'] }, /must be lists of paths/],
  ] as const)
    await assert.rejects(routed(routes), message);
});

test('a Workers Sites project without a Worker is served as assets', async () => {
  const config = 'name = "x"\ntype = "javascript"\n[site]\nbucket = "./dist"';
  const { bundle, list } = await worktrees.bundle({
    'wrangler.toml': config,
    'dist/index.html': 'site',
  });
  assert.equal(bundle.worker, null);
  assert.ok(list().includes('assets/index.html'));
});
