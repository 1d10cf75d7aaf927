import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { after, test } from 'node:test';
import { hasFunctions } from '../../bundler/project/cloudflare-pages.ts';
import { findFunctions, planBuild } from '../../bundler/project/plan.ts';
import {
  findProject,
  nothingDeployable,
  readPackageJson,
  siteFolders,
} from '../../bundler/project/project.ts';
import { NO_SETTINGS } from '../../runtime/builds/release/build-input.ts';
import { type Files, writeFiles } from '../support/builds/projects.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';
import { cpuTime } from '../support/cpu-time.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

/** Returns the kind of a project, and the file or directory that determines it. */
function find(...paths: string[]): string {
  const files: Files = Object.fromEntries(
    paths.map((path) => [path, path === 'package.json' ? '{"main": "lib/app.js"}' : '']),
  );
  const root = worktrees.write(files);
  const found = findProject({ root, folder: root }, null, null);
  if (found === null) return 'nothing';
  const at = found.kind === 'wrangler' ? found.config : found.kind === 'site' ? found.directory : found.main;
  return `${found.kind} ${at === null ? 'of the build' : at.slice(root.length + 1)}`.trim();
}

test('a Wrangler configuration takes precedence over everything else', () => {
  for (const name of ['wrangler.toml', 'wrangler.json', 'wrangler.jsonc']) {
    assert.equal(find(name, 'index.html', 'dist/index.html', 'index.js'), `wrangler ${name}`);
  }
});

test("a build tool's output configuration makes a Wrangler project too", () => {
  const written = '.wrangler/deploy/config.json';
  const files = { [written]: '\uFEFF{"configPath": "../../out/wrangler.json"}', 'out/wrangler.json': '{}' };
  const root = worktrees.write({ ...files, 'out/index.html': '' });
  assert.deepEqual(findProject({ root, folder: root }, null, null), {
    kind: 'wrangler',
    config: null,
    call: null,
  });
});

test("a build tool's output configuration may be missing until the build has written it", async () => {
  const stale: Files = {
    '.wrangler/deploy/config.json': '{"configPath": "../../dist/x/wrangler.json"}',
    'package.json': '{"scripts": {"build": "vite build"}}',
  };
  const own = { 'wrangler.jsonc': '{"name": "x", "main": "src/index.ts"}', 'src/index.ts': '' };
  for (const files of [stale, { ...stale, ...own }]) {
    const worktree = worktrees.write(files);
    const plan = await planBuild({ worktree, settings: NO_SETTINGS, environment: null, manifests: [] });
    assert.deepEqual(
      plan.build.map(({ kind }) => kind),
      ['script'],
    );
    assert.equal(plan.hasConfig, files !== stale);
    await assert.rejects(worktrees.bundle(files), /there is no dist\/x\/wrangler\.json: check the path/);
  }
  const outside = { ...stale, '.wrangler/deploy/config.json': '{"configPath": "../../../x/wrangler.json"}' };
  const root = worktrees.write(outside);
  assert.throws(() => findProject({ root, folder: root }, null, null), /lies outside the project/);
});

test('a site is searched for in the build output folders, and in the root last', () => {
  assert.equal(
    find('index.html', 'public/index.html', 'out/index.html', 'build/index.html', 'dist/index.html'),
    'site dist',
  );
  assert.equal(find('index.html', 'public/index.html', 'build/index.html'), 'site build');
  assert.equal(find('index.html', 'public/index.html', 'out/index.html'), 'site out');
  assert.equal(find('index.html', 'public/index.html', 'index.js'), 'site public');
  assert.equal(find('index.html', 'index.js', 'package.json', 'lib/app.js'), 'site');
});

test('what a script deploys is in the folder that it enters, which its build may write', async () => {
  const deployed = async (deploy: string, committed: Files, written: Files) => {
    const worktree = worktrees.write({
      'package.json': JSON.stringify({ scripts: { build: 'x', deploy } }),
      'src/index.html': '',
      ...committed,
    });
    const plan = await planBuild({ worktree, settings: NO_SETTINGS, environment: null, manifests: [] });
    writeFiles(worktree, written);
    const project = findProject({ root: worktree, folder: worktree }, plan.pages, null);
    const at = project?.kind === 'wrangler' ? project.config : project?.kind === 'site' && project.directory;
    return [plan.folder, plan.build[0]?.kind, project?.kind, at && relative(worktree, at)];
  };
  const page = { 'dist/index.html': '' };
  for (const committed of [{}, page])
    for (const deploy of ['cd dist && wrangler pages deploy .', 'wrangler --cwd dist pages deploy .'])
      assert.deepEqual(
        await deployed(`npm run build && ${deploy}`, committed, page),
        ['', 'script', 'site', 'dist'],
        deploy,
      );
  const config = { 'build/wrangler.jsonc': '{"main": "index.js"}' };
  assert.deepEqual(await deployed('cd build && wrangler deploy', {}, config), [
    '',
    'script',
    'wrangler',
    'build/wrangler.jsonc',
  ]);
});

test("a Worker is the package's main, else an index file", () => {
  assert.equal(find('package.json', 'lib/app.js', 'index.ts'), 'worker lib/app.js');
  assert.equal(find('package.json', 'index.ts', 'index.js'), 'worker index.ts');
  assert.equal(find('index.js'), 'worker index.js');
  assert.equal(find('README.md', 'src/index.js'), 'nothing');
  // `_worker.js` makes it a Pages project, whose site is the root folder.
  assert.equal(find('_worker.js', 'index.js'), 'site');
});

test('package.json determines what to install and run', () => {
  const read = (text: string) => readPackageJson(worktrees.write({ 'package.json': text }));
  assert.deepEqual(read('{"devDependencies": {"vite": "1"}, "scripts": {"build": "vite build"}}'), {
    name: null,
    main: null,
    scripts: { build: 'vite build' },
    packageManager: null,
    devManager: null,
    pnpmRange: null,
    hasDependencies: true,
    isForDevelopment: true,
    workspaces: [],
    dependencies: [['vite', '1']],
  });
  assert.equal(read('{"dependencies": {}}')?.hasDependencies, false);
  assert.equal(read('\uFEFF{"name": "a"}')?.name, 'a', 'with a byte order mark');
  assert.equal(read('{"packageManager": "pnpm@10.1.0"}')?.packageManager, 'pnpm@10.1.0');
  const devManager = (named: unknown) => read(JSON.stringify({ devEngines: named }))?.devManager;
  const pnpm = { name: 'pnpm', version: '^11.0.0', onFail: 'download' };
  assert.deepEqual(devManager({ packageManager: pnpm }), { name: 'pnpm', range: '^11.0.0' });
  assert.deepEqual(devManager({ packageManager: [{ name: 'vlt' }, { name: 'yarn' }] }), {
    name: 'yarn',
    range: null,
  });
  for (const other of [null, 'pnpm', {}, { packageManager: null }, { packageManager: [null, 'pnpm'] }])
    assert.equal(devManager(other), null);
  assert.equal(read('{"engines": {"pnpm": ">=9"}}')?.pnpmRange, '>=9');
  assert.throws(() => read('{'), /^BuildFailure: package\.json is not valid JSON/);
  assert.throws(() => read('[]'), /^BuildFailure: package\.json must hold an object/);
  assert.throws(
    () => readPackageJson(worktrees.write({ 'package.json': { link: '/etc/passwd' } })),
    /^BuildFailure: package\.json is a link that leaves the project/,
  );
  assert.throws(() => read(`{"x": "${'x'.repeat(3 * 2 ** 20)}"}`), /package\.json has more than 2 MiB/);
  assert.throws(
    () => readPackageJson(worktrees.write({ 'package.json/x': '' })),
    /^BuildFailure: package\.json is not a file/,
  );
});

test('a project cannot read files outside of it', () => {
  const told = (files: Files, output: string | null = null) => {
    const root = worktrees.write(files);
    try {
      findProject({ root, folder: root }, null, output);
    } catch (error) {
      return String(error);
    }
    return 'found';
  };
  for (const there of ['/etc/passwd', '/etc/no-such-file', '../../etc/passwd', '../no-such-file']) {
    const script = (deploy: string) => ({ 'package.json': JSON.stringify({ scripts: { deploy } }) });
    assert.equal(
      told(script(`wrangler deploy -c ${there}`)),
      `BuildFailure: "deploy" of package.json: ${there} lies outside the project`,
    );
    assert.match(told(script(`wrangler pages deploy ${there}`)), /lies outside the project$/);
    assert.match(told({}, there), /^BuildFailure: output_directory: .* lies outside the project$/);
    for (const name of ['wrangler.toml', 'index.js', 'dist'])
      assert.equal(
        told({ [name]: { link: there } }),
        `BuildFailure: ${name} is a link that leaves the project, or leads nowhere`,
      );
  }
});

test('links do not reveal whether something outside the project exists', async () => {
  const manifest = (more: object = {}) => JSON.stringify({ scripts: { build: 'x' }, ...more });
  const turbo = { packageManager: 'npm@11.0.0', workspaces: ['app'], devDependencies: { turbo: '2' } };
  const pages = wranglerProject({ main: undefined, pages_build_output_dir: 'dist' }, { 'dist/a.html': '' });
  const assets = wranglerProject({ assets: { directory: 'dist' } }, { 'dist/a.html': '' });
  const database = { binding: 'DB', database_name: 'rows', database_id: 'rows' };
  const found = { find_additional_modules: true, rules: [{ type: 'Text', globs: ['**/*.md'] }] };
  const projects: [Files, string][] = [
    [{ 'package.json': manifest() }, 'yarn.lock'],
    [{ 'package.json': manifest() }, 'pnpm-workspace.yaml'],
    [{ 'package.json': manifest(turbo), 'app/package.json': manifest() }, 'turbo.json'],
    [{ 'package.json': manifest() }, 'binding.gyp'],
    [wranglerProject({}), '.wrangler/deploy/config.json'],
    [wranglerProject({}), '.wrangler'],
    [wranglerProject({ d1_databases: [database] }), 'migrations'],
    [wranglerProject(found), 'page.md'],
    [pages, 'dist/_worker.js'],
    [pages, 'dist/_routes.json'],
    [pages, 'dist/404.html'],
    [pages, '.wrangler/cellar-functions/index.js'],
    [assets, 'dist/_worker.js'],
    [assets, 'functions'],
  ];
  for (const [files, name] of projects) {
    const tell = async (link: string) => {
      const all = { ...files, [name]: { link } };
      const root_directory = 'app/package.json' in files ? 'app' : null;
      const settings = { ...NO_SETTINGS, root_directory };
      const worktree = worktrees.write(all);
      const plan = await planBuild({ worktree, settings, environment: null, manifests: ['package.json'] })
        .then(({ build, installAnew }) => JSON.stringify([build, installAnew]))
        .catch(String);
      const { notes } = await worktrees.bundle(all).catch((error) => ({ notes: [String(error)] }));
      return [plan, ...notes];
    };
    const there = await tell('/etc/passwd');
    assert.deepEqual(await tell('/etc/no-such-file'), there, name);
    assert.deepEqual(await tell('/etc'), there, name);
    assert.ok(!there.join().includes('bundler'), `${there}`);
  }
});

test('without anything else the only folder with an index.html is the site', () => {
  assert.equal(find('README.md', 'src/index.html', 'src/index.js', 'docs/about.html'), 'site src');
  assert.equal(find('src/index.html', 'index.js'), 'worker index.js');
  assert.equal(find('a/b/index.html', '.hidden/index.html', 'node_modules/index.html'), 'nothing');
  assert.equal(find('src/index.html', 'vite.config.ts'), 'nothing');
  assert.equal(find('src/index.html', 'src/package.json'), 'nothing');
  assert.equal(find('src/index.html', 'api/wrangler.toml'), 'nothing');
  assert.throws(
    () => find('one/index.html', 'two/index.html'),
    /index\.html lies in .*(one|two)\/, .*output-directory/,
  );
  const inFolder = (files: Files) => {
    const root = worktrees.write(files);
    return findProject({ root, folder: root }, null, null);
  };
  assert.equal(inFolder({ 'src/index.html': '<script src="/main.tsx"></script>' }), null);
  for (const scripts of [{ build: 'x' }, { start: 'node server.js' }])
    assert.equal(inFolder({ 'src/index.html': '', 'package.json': JSON.stringify({ scripts }) }), null);
  assert.equal(inFolder({ 'src/index.html': { link: '/etc/passwd' } }), null);
});

test('a file with the name of an output folder is not a site', () => {
  assert.equal(find('build', 'index.js'), 'worker index.js');
});

test('a page that needs a build tool is not a site', () => {
  const found = (files: Files) => {
    const root = worktrees.write(files);
    return findProject({ root, folder: root }, null, null);
  };
  const vite = { 'index.html': '<script type="module" src="/src/main.ts"></script>' };
  assert.throws(
    () => found({ 'index.html': '', 'vite.config.ts': '' }),
    /belongs to vite\.config\.ts, and nothing/,
  );
  assert.throws(() => found(vite), /names a script that browsers cannot run, and nothing builds it/);
  // The build script of this project creates the site.
  assert.equal(found({ ...vite, 'package.json': '{"scripts": {"build": "vite build"}}' }), null);
  assert.equal(found({ 'index.html': '<script src="app.js"></script>' })?.kind, 'site');

  const jekyll = { '_config.yml': '', 'index.html': '---\nlayout: default\n---\n' };
  assert.throws(
    () => found(jekyll),
    /begins with front matter, and nothing runs Jekyll, which _config\.yml is for: commit the folder _site\/ .*--build-command 'jekyll build' --output-directory _site/,
  );
  assert.throws(
    () => found({ 'index.html': '---\n---\n' }),
    /begins with front matter, and nothing builds it/,
  );
  // Jekyll copies a page without front matter.
  assert.equal(found({ ...jekyll, 'index.html': '<h1>x</h1>' })?.kind, 'site');
  const page = '<html><head><title>{{ .Title }}</title></head><body></body>';
  const sources: [files: Files, output: string][] = [
    [jekyll, '_site'],
    [{ 'hugo.toml': '', 'layouts/index.html': page, 'content/index.html': '' }, 'public'],
    [{ 'mkdocs.yml': '', 'docs/index.html': '' }, 'site'],
    [{ 'book.toml': '', 'theme/index.html': '' }, 'book'],
  ];
  for (const [files, output] of sources) {
    if (files !== jekyll) assert.equal(found(files), null, output);
    const built = found({ ...files, [`${output}/index.html`]: '' });
    assert.ok(built?.kind === 'site' && built.directory.endsWith(`/${output}`), output);
  }
  for (const template of [page, '{% extends "base.html" %}', '{{ title }}'])
    assert.equal(found({ 'templates/index.html': template }), null, template);
  const vue = '<html><head></head><body><div id="app">{{ message }}</div></body>';
  assert.equal(found({ 'src/index.html': vue })?.kind, 'site');
  const bare = '<!doctype html><div id="app">{{ message }}</div>';
  assert.equal(found({ 'src/index.html': bare })?.kind, 'site');
  const root = worktrees.write({ 'hugo.toml': '' });
  assert.match(
    nothingDeployable({ root, folder: root }, null).message,
    /^nothing to deploy: nothing runs Hugo, which hugo\.toml is for: .*--build-command hugo --output-directory public/,
  );
});

test('a script of another name, or one that leaves the repository, does not choose the folder', async () => {
  const site = { 'public/index.html': '' };
  const found = async (files: Files, scripts: Record<string, string>) => {
    const root = worktrees.write({ ...site, ...files, 'package.json': JSON.stringify({ scripts }) });
    const plan = await planBuild({ worktree: root, settings: NO_SETTINGS, environment: null, manifests: [] });
    return [plan.folder, findProject({ root, folder: root }, null, null)?.kind];
  };
  const api = { 'api/wrangler.jsonc': '{"main": "index.js"}' };
  assert.deepEqual(await found(api, { 'api:deploy': 'cd api && wrangler deploy' }), ['', 'site']);
  assert.deepEqual(await found({}, { 'infra:deploy': 'cd ../infra && wrangler deploy' }), ['', 'site']);
  assert.deepEqual(await found({}, { deploy: 'npm run lint && cd ../infra && wrangler deploy' }), [
    '',
    'site',
  ]);
  const pages = { 'site/index.html': '', 'site/functions/api.js': '' };
  const deploy = 'npm run lint && cd site && wrangler pages deploy .';
  assert.equal((await found(pages, { deploy }))[0], 'site');
});

test('a page with front matter waits for the build command of the settings', async () => {
  const worktree = worktrees.write({ '_config.yml': '', 'index.html': '---\n---\n' });
  const settings = { ...NO_SETTINGS, build_command: 'jekyll build' };
  const plan = await planBuild({ worktree, settings, environment: null, manifests: [] });
  assert.deepEqual(
    plan.build.map((each) => each.kind === 'command' && each.command),
    ['jekyll build'],
  );
});

test('after a build its output folder is the site', () => {
  const build = (files: Files, written: Files) => {
    const root = worktrees.write(files);
    const before = siteFolders({ root, folder: root });
    writeFiles(root, written);
    const project = findProject({ root, folder: root }, before, null);
    return project?.kind === 'site' ? project.directory.slice(root.length + 1) : project?.kind;
  };
  const source = { 'index.html': '', 'package.json': '{"scripts": {"build": "x"}}' };
  assert.equal(build(source, { 'pages/index.html': '', 'pages/about/index.html': '' }), 'pages');
  assert.equal(build(source, { 'dist/app/browser/index.html': '' }), 'dist/app/browser');
  assert.equal(build(source, { 'dist/index.html': '', 'pages/index.html': '' }), 'dist');
  assert.equal(build(source, { 'docs/.vitepress/dist/index.html': '' }), 'docs/.vitepress/dist');
  assert.equal(build({ ...source, 'dist/index.html': 'old' }, { 'pages/index.html': '' }), 'pages');
  assert.equal(build({ ...source, 'dist/index.html': 'old' }, { 'dist/index.html': 'new' }), 'dist');
  assert.equal(build({ ...source, 'public/index.html': '' }, { 'public/app.js': '' }), 'public');
  assert.equal(build(source, { '.output/public/index.html': '', dist: { link: '.output/public' } }), 'dist');
  assert.equal(build({ ...source, 'index.ts': '' }, { 'dist/index.html': '' }), 'dist');
  assert.equal(build({ 'index.ts': '' }, { 'lib/x.js': '' }), 'worker');
  // Frameworks write a Pages project with a Worker and no page, or with pages of some paths.
  const sources = { 'package.json': source['package.json'], 'public/index.html': '' };
  const worker = { 'dist/_worker.js/index.js': '', 'dist/about/index.html': '' };
  assert.equal(build(sources, worker), 'dist');
  assert.equal(build(source, { '.svelte-kit/cloudflare/_worker.js': '' }), '.svelte-kit/cloudflare');
  assert.equal(build({ 'public/_worker.js': '' }, { 'pages/index.html': '' }), 'pages');
  assert.throws(
    () => build(source, { 'site/a.html': '' }),
    /the build wrote no folder with an index\.html, and the root has the project's sources: name the folder/,
  );
  assert.throws(
    () => build(source, { 'a/index.html': '', 'b/index.html': '' }),
    /the build wrote a\/, b\/\. .* whether to deploy a\/index\.html or b\/index\.html: name .* "directory": "\.\/a"/,
  );
  assert.throws(
    () => build({ ...source, 'index.ts': '' }, { 'docs/index.html': '' }),
    /whether to deploy docs\/index\.html or index\.ts/,
  );
});

test('a configuration beside the folder of its package has it installed, and built if files are missing', async () => {
  const plan = (files: Files) => {
    const worktree = worktrees.write(files);
    return planBuild({ worktree, settings: NO_SETTINGS, environment: null, manifests: ['web/package.json'] });
  };
  const manifest = JSON.stringify({ scripts: { build: 'vite build' }, dependencies: { hono: '4' } });
  const web = { 'web/package.json': manifest, 'web/package-lock.json': '{}', 'web/src/index.ts': '' };
  const worker = await plan({ ...web, 'wrangler.toml': 'name = "x"\nmain = "web/src/index.ts"' });
  assert.deepEqual([worker.folder, worker.installFolder, worker.hasDependencies], ['', 'web', true]);
  assert.deepEqual([worker.lockFiles.length, worker.build], [1, []]);
  assert.match(
    worker.notes.join(),
    /^web is the folder of the app's package: wrangler\.toml names files in it$/,
  );

  const site = 'name = "x"\nassets = { directory = "web/dist" }';
  const built = [{ kind: 'command', command: 'npm run build', cwd: 'web' }];
  assert.deepEqual((await plan({ ...web, 'wrangler.toml': site })).build, built);
  assert.deepEqual((await plan({ ...web, 'wrangler.toml': site, 'web/dist/a': '' })).build, []);
  // With a package.json beside the configuration, that package is the project, and `web` is not built.
  await assert.rejects(
    plan({ ...web, 'wrangler.toml': site, 'package.json': '{}' }),
    /web is a package that was not built/,
  );
});

test('a folder without a package.json gets the packages of the nearest one above, if its Worker uses one', async () => {
  const plan = async (files: Files, root_directory: string | null = null) => {
    const settings = { ...NO_SETTINGS, root_directory };
    const worktree = worktrees.write(files);
    const planned = await planBuild({ worktree, settings, environment: null, manifests: ['package.json'] });
    const { folder, installFolder, hasDependencies, mayNeedNoPackages, lockFiles } = planned;
    return [folder, installFolder, hasDependencies, mayNeedNoPackages, lockFiles.length];
  };
  const worker = { 'api/worker/wrangler.toml': 'name = "x"\nmain = "index.ts"', 'api/worker/index.ts': '' };
  const scripts = { deploy: 'cd api/worker && wrangler deploy' };
  const root = JSON.stringify({ scripts, dependencies: { hono: '4' } });
  const above = { ...worker, 'package.json': root, 'package-lock.json': '{}' };
  assert.deepEqual(await plan(above), ['api/worker', '', true, true, 1]);
  assert.deepEqual(await plan(above, 'api/worker'), ['api/worker', '', true, true, 1]);
  const workspace = { ...above, 'package.json': '{"workspaces": ["api"]}', 'api/package.json': '{}' };
  assert.deepEqual(await plan(workspace, 'api/worker'), ['api/worker', '', true, true, 1]);
  assert.deepEqual(await plan(worker, 'api/worker'), ['api/worker', 'api/worker', false, false, 0]);
});

test('the root of a workspace is built first if the app names a missing folder of another package', async () => {
  const plan = async (root: object, more: Files = {}, build_command: string | null = null) => {
    const worktree = worktrees.write({
      'package.json': JSON.stringify({ workspaces: ['apps/*'], ...root }),
      'apps/api/package.json': '{"name": "api", "scripts": {"deploy": "wrangler deploy"}}',
      'apps/api/wrangler.toml': 'name = "x"\nmain = "index.ts"\nassets = { directory = "../web/dist" }',
      'apps/api/index.ts': '',
      ...more,
    });
    const settings = { ...NO_SETTINGS, build_command };
    const { folder, build } = await planBuild({ worktree, settings, environment: null, manifests: [] });
    assert.equal(folder, 'apps/api');
    return build;
  };
  const inRoot = (command: string) => ({ kind: 'command', command, cwd: '../..' });
  const filtered = { scripts: { deploy: 'pnpm --filter web build && pnpm --filter api run deploy' } };
  assert.deepEqual(await plan(filtered), [inRoot('pnpm --filter web build')]);
  const entered = { scripts: { deploy: 'npm run all && cd apps/api && node make.js && wrangler deploy' } };
  const [first, second] = await plan(entered);
  assert.deepEqual(first, inRoot('npm run all'));
  assert.deepEqual(second, { kind: 'command', command: 'node make.js', cwd: '.', mayWantAccount: true });
  const built = { scripts: { build: 'pnpm -r build' } };
  assert.deepEqual(await plan(built), [inRoot('npm run build')]);
  const own = { 'apps/api/package.json': '{"scripts": {"build": "tsc"}}' };
  assert.deepEqual(await plan(built, own), [inRoot('npm run build'), { kind: 'script' }]);
  assert.deepEqual(await plan(built, { 'apps/web/dist/index.html': '' }), []);
  assert.deepEqual(await plan(filtered, { 'apps/web/dist/index.html': '' }), []);
  assert.deepEqual(await plan(built, {}, 'make'), [{ kind: 'command', command: 'make', cwd: '.' }]);
});

test('a Pages project of functions is planned with the crons and queues that Pages does not run', async () => {
  const files = {
    'package.json': '{"scripts": {"deploy": "wrangler pages deploy public"}}',
    'wrangler.toml':
      'name = "x"\n[triggers]\ncrons = ["* * * * *"]\n[[queues.producers]]\nbinding = "Q"\nqueue = "q"',
    'public/index.html': '<h1>x</h1>',
    'functions/api.js': 'export const onRequest = () => new Response("ok");',
  };
  const worktree = worktrees.write(files);
  const plan = await planBuild({ worktree, settings: NO_SETTINGS, environment: null, manifests: [] });
  assert.deepEqual([plan.isPages, plan.build], [true, []]);
  const built = { worktree, settings: NO_SETTINGS, environment: null, deployLine: null, before: null };
  assert.equal(await findFunctions(built), true);

  const compiled = { '.wrangler/cellar-functions/index.js': 'export default { fetch() {} }' };
  const { bundle } = await worktrees.bundle({ ...files, ...compiled });
  assert.deepEqual(bundle.triggers, { crons: [], producers: [{ binding: 'Q', queue: 'q' }], consumers: [] });
  assert.deepEqual(bundle.warnings, [
    'wrangler.toml: triggers.crons has no effect: a Cloudflare Pages project handles requests only',
  ]);
});

/** Plans a build. @returns the adapter that the plan adds to the project, the build commands and the notes */
const adapterPlan = async (files: Files, settings = NO_SETTINGS) => {
  const worktree = worktrees.write(files);
  const before = readdirSync(worktree);
  const { adapter, build, notes } = await planBuild({
    ...{ worktree, settings, environment: null, manifests: ['package.json'] },
  });
  assert.deepEqual(readdirSync(worktree), before, 'a plan writes nothing');
  const commands = build.map((each) => (each.kind === 'command' ? each.command : 'the script build'));
  return { adapter, commands, notes };
};

test('Next.js without a configuration gets the adapter of OpenNext, unless something else says how it is built', async () => {
  const manifest = (more: object = {}, scripts: object = {}) => ({
    'package.json': JSON.stringify({
      scripts: { build: 'next build', start: 'next start', ...scripts },
      dependencies: { next: '16.4.6', ...more },
    }),
  });
  const { wrangler } = JSON.parse(readFileSync('package.json', 'utf8')).dependencies;
  const added = await adapterPlan(manifest());
  assert.deepEqual(added.commands, ['opennextjs-cloudflare build']);
  assert.deepEqual(added.adapter!.packages, ['@opennextjs/cloudflare@1.20.17', `wrangler@${wrangler}`]);
  assert.match(
    added.notes.join(),
    /^Next\.js without .*this build adds its adapter for Cloudflare.*opennextjs\/cloudflare migrate/,
  );
  const files = ['wrangler.jsonc', 'open-next.config.ts'];
  // OpenNext refuses a project without a Next.js configuration, so the plan adds one.
  assert.deepEqual(Object.keys(added.adapter!.files), [...files, 'next.config.mjs']);
  const config = { 'next.config.ts': 'export default { reactStrictMode: true };' };
  assert.deepEqual(Object.keys((await adapterPlan({ ...manifest(), ...config })).adapter!.files), files);

  const own = 'name = "x"\nmain = "index.js"';
  for (const files of [
    { ...manifest(), 'next.config.mjs': "export default { output: 'export' };" },
    manifest({}, { build: 'vite build' }),
    manifest({ '@cloudflare/next-on-pages': '1' }),
    { ...manifest(), 'wrangler.toml': own, 'index.js': '' },
    { ...manifest({}, { deploy: 'wrangler deploy index.js' }), 'index.js': '' },
  ]) {
    const { adapter, commands } = await adapterPlan(files);
    assert.deepEqual([adapter, commands], [null, ['the script build']], JSON.stringify(files));
  }
  assert.deepEqual((await adapterPlan(manifest(), { ...NO_SETTINGS, build_command: 'mine' })).commands, [
    'mine',
  ]);
  await assert.rejects(
    adapterPlan({ ...manifest(), 'open-next.config.ts': { link: '/etc/passwd' } }),
    /package\.json lacks/,
  );
});

test('a framework that renders on a server gets its adapter by Wrangler, unless something else says how it is built', async () => {
  const manifest = (packages: string[], scripts: object = { build: 'vite build' }) => ({
    'package.json': JSON.stringify({
      scripts,
      devDependencies: Object.fromEntries(packages.map((name) => [name, '1'])),
    }),
  });
  const astro = (config: string) => ({
    ...manifest(['astro']),
    'astro.config.mjs': `export default {${config}};`,
  });
  const tanstack = (options: string) => ({
    ...manifest(['@tanstack/react-start']),
    'vite.config.ts': `export default { plugins: [tanstackStart({ ${options} })] };`,
  });
  for (const [name, files, commands] of [
    ['Astro', astro("output: 'server'"), ['setup']],
    ['Astro', astro('output: "server", adapter: node()'), ['setup']],
    ['React Router', manifest(['@react-router/dev']), ['setup']],
    [
      'React Router',
      { ...manifest(['@react-router/dev']), 'react-router.config.ts': '{ ssr: true }' },
      ['setup'],
    ],
    ['SvelteKit', manifest(['@sveltejs/kit', '@sveltejs/adapter-auto']), ['setup', 'types']],
    ['TanStack Start', manifest(['@tanstack/react-start']), ['setup']],
    ['TanStack Start', manifest(['@tanstack/solid-start']), ['setup']],
    ['TanStack Start', tanstack('prerender: { enabled: true }'), ['setup']],
    ['TanStack Start', tanstack('spa: { maskPath: "/", enabled: false }'), ['setup']],
  ] as const) {
    const { adapter, commands: build, notes } = await adapterPlan(files);
    assert.equal(adapter?.framework, name, JSON.stringify(files));
    assert.deepEqual(
      adapter.wrangler.map(([command]) => command),
      commands,
    );
    const written =
      name === 'React Router' && !('react-router.config.ts' in files) ? ['react-router.config.ts'] : [];
    assert.deepEqual(
      [Object.keys(adapter.files), adapter.packages, build],
      [written, [], ['the script build']],
    );
    assert.match(notes.join(), /this build adds its adapter for Cloudflare\. .*`npx wrangler setup`/);
  }
  for (const files of [
    manifest(['astro']),
    astro("output: 'static'"),
    astro('adapter: netlify()'),
    { ...astro("output: 'server'"), ...manifest(['astro', '@astrojs/cloudflare']) },
    { ...manifest(['@react-router/dev']), 'react-router.config.ts': '{ ssr: false }' },
    manifest(['@sveltejs/kit', '@sveltejs/adapter-static']),
    tanstack('spa: { enabled: true }'),
    tanstack('spa: {}, prerender: { enabled: true }'),
    manifest(['@tanstack/react-start', 'nitro']),
    manifest(['@tanstack/react-start', 'vinxi']),
    manifest(['nuxt']),
    { ...manifest(['@react-router/dev']), 'wrangler.toml': 'main = "index.js"', 'index.js': '' },
    {
      ...manifest(['@sveltejs/kit'], { build: 'vite build', deploy: 'wrangler deploy index.js' }),
      'index.js': '',
    },
  ])
    assert.equal((await adapterPlan(files)).adapter, null, JSON.stringify(files));
  for (const setting of [{ build_command: 'mine' }, { output_directory: 'out' }]) {
    const { adapter } = await adapterPlan(manifest(['@react-router/dev']), { ...NO_SETTINGS, ...setting });
    assert.equal(adapter, null);
  }
});

test('a framework without its adapter fails with the command that adds it', () => {
  const root = worktrees.write({ 'package.json': '{"devDependencies": {"@react-router/dev": "7"}}' });
  const { message } = nothingDeployable({ root, folder: root }, null);
  assert.match(message, /@react-router\/dev wrote no site.* run `npx wrangler setup` in the project/);
  const adapted = worktrees.write({
    'package.json': '{"dependencies": {"astro": "5", "@astrojs/cloudflare": "12"}}',
  });
  assert.match(
    nothingDeployable({ root: adapted, folder: adapted }, null).message,
    /@astrojs\/cloudflare wrote no Wrangler configuration.* --output-directory FOLDER/,
  );
});

test('a workspace whose root has nothing to deploy names the folders of its frameworks', () => {
  const root = worktrees.write({
    'package.json': '{"workspaces": ["apps/*"], "scripts": {"build": "turbo build"}}',
    'apps/web/package.json': '{"dependencies": {"next": "16"}}',
    'apps/docs/package.json': '{"dependencies": {"astro": "5"}}',
    'packages/ui/package.json': '{"dependencies": {"react": "19"}}',
  });
  const { message } = nothingDeployable({ root, folder: root }, null);
  assert.match(
    message,
    /projects of frameworks lie in apps\/\w+, apps\/\w+: say which .*--root-directory apps\//,
  );
});

test('a handler is found at the start and at the end of a long function', () => {
  const [code, lines] = ['export{a as onRequest};', '// code\n'.repeat(100_000)];
  const finds = (text: string) => {
    const root = worktrees.write({ 'functions/a.js': text });
    return hasFunctions({ root, folder: root });
  };
  assert.deepEqual([code + lines, lines + code, lines].map(finds), [true, true, false]);
});

test('long pages and functions that repeat an opening are parsed in little time', () => {
  for (const page of ['<script '.repeat(30_000), `<script ${'src='.repeat(60_000)}`]) {
    const root = worktrees.write({ 'index.html': page, 'functions/a.js': 'export{'.repeat(30_000) });
    const spent = cpuTime();
    assert.equal(hasFunctions({ root, folder: root }), false);
    assert.deepEqual(findProject({ root, folder: root }, null, null), { kind: 'site', directory: root });
    assert.ok(spent() < 500, `${spent()} ms`);
  }
});
