import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { BuildSettings } from '../../../handlers/contract/host/host-calls.ts';
import { NO_SETTINGS } from '../../../runtime/builds/release/build-input.ts';
import { Bundler } from '../../../runtime/builds/release/bundler.ts';
import { openControlGroups } from '../../../runtime/resources/cgroup.ts';
import { openLowPriorityGroup } from '../../../runtime/resources/low-priority-group.ts';
import { outOfMemoryScore } from '../../../runtime/resources/out-of-memory.ts';
import type { Files } from '../../support/builds/projects.ts';
import { makeWorktrees, wranglerProject } from '../../support/bundler/worktree.ts';
import { descendants, eventually } from '../../support/processes.ts';

const worktrees = makeWorktrees();
const bundlers: Bundler[] = [];
after(() => {
  for (const bundler of bundlers) bundler.close();
  worktrees.remove();
});

function start(idleMs?: number): Bundler {
  const bundler = new Bundler(idleMs);
  bundlers.push(bundler);
  return bundler;
}

const hello = () => worktrees.write({ 'index.js': 'export default { fetch: () => new Response("hello") }' });
const newOut = () => join(worktrees.write({}), 'bundle');
/** Creates an empty file. @returns its path */
function openFile(path: string): string {
  writeFileSync(path, '');
  return path;
}

const bundle = (bundler: Bundler, worktree: string, { timeoutMs = 60_000, out = newOut() } = {}) => {
  const options = {
    worktree,
    settings: NO_SETTINGS,
    out,
    environment: null,
    deployLine: null,
    assetsMb: 500,
    before: null,
  };
  return bundler.bundle(options, timeoutMs);
};
const plan = (bundler: Bundler, worktree: string, set: Partial<BuildSettings> = {}) =>
  bundler.plan({ worktree, settings: { ...NO_SETTINGS, ...set }, environment: null, manifests: [] }, 60_000);

test("the bundler's processes run at low priority", async (t) => {
  const groups = openControlGroups(`cellar-test-${process.pid}`);
  if (typeof groups === 'string' || !groups.limits.processors)
    return t.skip('the processors cannot be shared out here');
  openLowPriorityGroup(groups.background());
  const bundler = start();
  await plan(bundler, hello());
  assert.match(readFileSync(`/proc/${bundler.pids[0]}/cgroup`, 'utf8'), /\/bundler$/m);
  openLowPriorityGroup(null);
  bundler.close();
  await eventually(() => bundler.pids.length === 0, 'it has ended');
  await groups.close();
});

test('one process serves requests in sequence, and concurrent requests get one process each', async () => {
  const bundler = start();
  assert.deepEqual(bundler.pids, [], 'nothing is started before it is needed');
  await plan(bundler, hello());
  const { pids } = bundler;
  assert.equal(pids.length, 1);
  // When memory is short, the kernel kills the bundler's process before the apps.
  const score = Number(readFileSync(`/proc/${pids[0]}/oom_score_adj`, 'utf8'));
  assert.equal(score, outOfMemoryScore('build'));
  await bundle(bundler, hello());
  assert.deepEqual(bundler.pids, pids);
  const bundles = await Promise.all([1, 2, 3].map(() => bundle(bundler, hello())));
  assert.deepEqual(
    bundles.map((bundled) => bundled.bundle.exports),
    [['default'], ['default'], ['default']],
  );
  await eventually(() => bundler.pids.length === 1, 'one stays warm');
});

test('a project error is reported to its author, and the process keeps running', async () => {
  const bundler = start();
  await assert.rejects(bundle(bundler, worktrees.write({})), /^BuildFailure: nothing to deploy/);
  const { pids } = bundler;
  await bundle(bundler, hello());
  assert.deepEqual(bundler.pids, pids);
});

test('a plan lists the commands to run before anything has run', async () => {
  const bundler = start();
  const project = worktrees.write(wranglerProject({ build: { command: 'make', cwd: 'sub' } }));
  const own = { kind: 'command', command: 'make', cwd: 'sub' };
  assert.deepEqual((await plan(bundler, project)).build, [own]);
  const { build } = await plan(bundler, project, { build_command: 'ninja' });
  assert.deepEqual(build, [{ kind: 'command', command: 'ninja', cwd: '.' }]);
  const committed = {
    '.wrangler/deploy/config.json': '{"configPath": "../../wrangler.out.json"}',
    'wrangler.out.json': '{"main": "index.js", "build": {"command": "make"}}',
    'index.js': '',
  };
  assert.equal(
    (await plan(bundler, worktrees.write(committed))).build.length,
    1,
    'of what a build tool wrote before',
  );
  const files = {
    'package.json':
      '{"scripts": {"build": "x"}, "packageManager": "pnpm@10.1.0", "dependencies": {"a": "1"}}',
    'pnpm-lock.yaml': `lockfileVersion: '9.0'\n${' '.repeat(5000)}`,
    'public/index.html': '',
  };
  const { pages, lockFiles, ...planned } = await plan(bundler, worktrees.write(files));
  assert.deepEqual(planned, {
    folder: '',
    deployLine: null,
    installFolder: '',
    build: [{ kind: 'script' }],
    adapter: null,
    notes: [],
    hasDependencies: true,
    mayNeedNoPackages: false,
    packageManager: 'pnpm@10.1.0',
    devManager: null,
    pnpmRange: null,
    installAnew: null,
    hasConfig: false,
    isPages: false,
    outside: null,
  });
  assert.deepEqual(Object.keys(pages!), ['public']);
  const [lockFile] = lockFiles;
  assert.equal(lockFile!.name, 'pnpm-lock.yaml');
  assert.ok(lockFile!.head.startsWith("lockfileVersion: '9.0'") && lockFile!.head.length <= 1000);
});

test('a project in a folder is installed there, or in the workspace that it belongs to', async () => {
  const bundler = start();
  const at = async (files: Files, root_directory = 'apps/web') => {
    const worker = { 'apps/web/index.js': 'export default { fetch() {} }', 'apps/web/package.json': '{}' };
    const planned = await plan(bundler, worktrees.write({ ...worker, ...files }), { root_directory });
    return [planned.folder, planned.installFolder, planned.lockFiles.map(({ name }) => name).join()];
  };
  const npm = { 'package.json': '{"workspaces": ["apps/*"]}', 'package-lock.json': '{}' };
  assert.deepEqual(await at(npm), ['apps/web', '', 'package-lock.json']);
  const yarn = { 'package.json': '{"workspaces": {"packages": ["./apps/web/"]}}', 'yarn.lock': '' };
  assert.deepEqual(await at(yarn, './apps/web'), ['apps/web', '', 'yarn.lock']);
  const pnpm = (packages: string) => ({ 'pnpm-workspace.yaml': packages, 'pnpm-lock.yaml': '' });
  assert.deepEqual(await at(pnpm('packages:\n  # ours\n  - "apps/**" # all\n')), [
    'apps/web',
    '',
    'pnpm-lock.yaml',
  ]);
  for (const flow of [
    'packages: ["apps/*", "packages/*"]',
    'packages: # ours\n  - apps/*\n',
    '"packages":\n- >-\n  apps/*',
  ])
    assert.deepEqual(await at(pnpm(flow)), ['apps/web', '', 'pnpm-lock.yaml']);
  for (const settings of ['', 'catalog:\n  react: 19\n'])
    assert.deepEqual(await at(pnpm(settings)), ['apps/web', 'apps/web', '']);
  await assert.rejects(
    at(pnpm('packages: apps')),
    /^BuildFailure: pnpm-workspace\.yaml: packages must be a list/,
  );
  await assert.rejects(
    at(pnpm('packages: [')),
    /^BuildFailure: pnpm-workspace\.yaml is not YAML: .* line 1/s,
  );
  assert.deepEqual(await at(pnpm("packages:\n- 'apps/*'\n- '!apps/web'\ncatalog:\n- x\n")), [
    'apps/web',
    'apps/web',
    '',
  ]);
  assert.deepEqual(await at({ ...npm, 'package.json': '{"workspaces": ["packages/*"]}' }), [
    'apps/web',
    'apps/web',
    '',
  ]);
  assert.deepEqual(await at({ ...npm, 'apps/web/yarn.lock': '' }), ['apps/web', 'apps/web', 'yarn.lock']);
});

test('a `build` script may fail if everything that is deployed exists without it', async () => {
  const bundler = start();
  const mayFail = async (config: object, files: Files) => {
    const all = {
      'wrangler.jsonc': JSON.stringify(config),
      'package.json': '{"scripts": {"build": "x"}, "dependencies": {"shop": "1"}}',
      ...files,
    };
    const { build } = await plan(bundler, worktrees.write(all));
    return build.length === 1 && build[0]!.kind === 'script' && build[0]!.mayFail === true;
  };
  const [main, assets] = ['index', { directory: 'public' }];
  const [entry, page] = [{ 'index.ts': '' }, { 'public/index.html': '' }];
  assert.equal(await mayFail({ main }, entry), true);
  assert.equal(await mayFail({ main, assets }, { ...entry, ...page }), true);
  assert.equal(await mayFail({ main, assets }, entry), false);
  assert.equal(await mayFail({ main: 'dist/index.js' }, entry), false);
  assert.equal(await mayFail({ main, build: { command: 'x' } }, entry), false);
  // A project without a Worker is a site, which the build creates.
  assert.equal(await mayFail({ assets }, page), false);
  // This site exists only after the install.
  assert.equal(await mayFail({ main, assets: { directory: 'node_modules/shop/dist' } }, entry), false);
});

test('a project is built with the build command of its framework or workspace tool', async () => {
  const bundler = start();
  const command = async (files: Files, set = {}) => {
    const { build } = await plan(bundler, worktrees.write(files), set);
    const [first = null] = build;
    assert.ok(build.length <= 1);
    return first?.kind === 'command' ? first.command : first;
  };
  const next = (build: string) => ({
    'wrangler.jsonc': '{"main": ".open-next/worker.js"}',
    'package.json': JSON.stringify({ scripts: { build }, dependencies: { '@opennextjs/cloudflare': '1' } }),
  });
  assert.equal(await command(next('next build')), 'opennextjs-cloudflare build');
  assert.deepEqual(await command(next('opennextjs-cloudflare build')), { kind: 'script' });
  assert.equal(await command(next('next build'), { build_command: 'make' }), 'make');
  const turbo = {
    'package.json':
      '{"workspaces": ["apps/*"], "devDependencies": {"turbo": "2"}, "packageManager": "npm@11.6.0"}',
    'turbo.json': '{}',
    'apps/a/package.json': '{"scripts": {"build": "x"}}',
    'apps/a/index.js': '',
  };
  assert.equal(await command(turbo, { root_directory: 'apps/a' }), 'turbo run build');
  const unnamed = { ...turbo, 'package.json': turbo['package.json'].replace('packageManager', 'x') };
  assert.deepEqual(await command(unnamed, { root_directory: 'apps/a' }), { kind: 'script' });
});

test('several projects without a choice fail with the way to choose one', async () => {
  const bundler = start();
  const config = '{"main": "index.js"}';
  const two = {
    'apps/a/wrangler.jsonc': config,
    'apps/b/wrangler.toml': '',
    'package.json': '{"scripts": {"build": "turbo build"}}',
  };
  const named = /apps\/a, apps\/b.*: say which is the app.*cellar builds set --root-directory apps\/a/;
  await plan(bundler, worktrees.write(two));
  await assert.rejects(bundle(bundler, worktrees.write(two)), named);
  const workspace = { ...two, 'pnpm-workspace.yaml': 'packages: \n  - apps/*' };
  await assert.rejects(plan(bundler, worktrees.write(workspace)), named);
  // A folder outside of the workspace is no candidate, because the build of the root does not build it.
  const beside = { ...workspace, 'aside/wrangler.jsonc': config };
  await assert.rejects(plan(bundler, worktrees.write(beside)), /lie in apps\/a, apps\/b: say which/);
  const one = { 'apps/a/wrangler.jsonc': config, 'apps/a/index.js': '', 'README.md': '' };
  assert.equal((await plan(bundler, worktrees.write(one))).folder, 'apps/a');
  const missing = plan(bundler, worktrees.write(two), { root_directory: 'apps/c' });
  await assert.rejects(missing, /^BuildFailure: root_directory: there is no apps\/c/);
  const out = plan(bundler, worktrees.write({ 'a.txt': '' }), { output_directory: 'web' });
  await assert.rejects(out, /^BuildFailure: output_directory: there is no web/);
  const both = plan(bundler, worktrees.write({ 'wrangler.jsonc': config, 'index.js': '' }), {
    output_directory: 'web',
  });
  await assert.rejects(both, /output_directory is set, but wrangler\.jsonc says what is deployed/);
});

test('a project that blocks its process delays no other project', async () => {
  const bundler = start();
  const stuck = worktrees.write({ 'index.js': 'import "./pipe.txt"; export default { fetch() {} }' });
  execFileSync('mkfifo', [join(stuck, 'pipe.txt')]);
  await assert.rejects(bundle(bundler, stuck), /pipe\.txt/);
  const large = worktrees.write({});
  truncateSync(openFile(join(large, 'index.js')), 3 * 2 ** 30);
  const [heavy, light] = await Promise.allSettled([bundle(bundler, large), bundle(bundler, hello())]);
  assert.equal(heavy.status, 'rejected');
  assert.equal(light.status, 'fulfilled');
});

test('a crash fails the current request, and the next request starts another process', async () => {
  const bundler = start();
  const ended = bundle(bundler, hello());
  await eventually(() => bundler.pids.length > 0, 'it has started');
  process.kill(bundler.pids[0]!, 'SIGKILL');
  await assert.rejects(ended, /^BuildFailure: the bundler ended \(SIGKILL\); deploy again$/);
  await bundle(bundler, hello());
});

test('a process that ended while idle is replaced, even before the host has noticed its end', async () => {
  const bundler = start();
  await plan(bundler, hello());
  process.kill(bundler.pids[0]!, 'SIGKILL');
  assert.deepEqual((await bundle(bundler, hello())).bundle.exports, ['default']);
});

/** Kills the esbuild process below the bundler's only process. @returns whether there was one */
function killEsbuild(bundler: Bundler): boolean {
  const running = descendants(bundler.pids[0]!).find(({ command }) => command[0]!.endsWith('/esbuild'));
  if (running !== undefined) process.kill(running.pid, 'SIGKILL');
  return running !== undefined;
}

test('a process whose esbuild ended while idle is replaced', async () => {
  const bundler = start();
  await bundle(bundler, hello());
  const { pids } = bundler;
  assert.ok(killEsbuild(bundler));
  assert.deepEqual((await bundle(bundler, hello())).bundle.exports, ['default']);
  assert.notDeepEqual(bundler.pids, pids);
});

test('a project that makes esbuild end fails with the reason, and its process serves no other project', async () => {
  const bundler = start();
  const ended = bundle(bundler, worktrees.write({ 'index.js': '['.repeat(3_000_000) }));
  // Without this, esbuild would end by itself, but only after it had filled 1 GB.
  await eventually(() => bundler.pids.length > 0 && killEsbuild(bundler), 'esbuild has started');
  await assert.rejects(ended, /^BuildFailure: esbuild ended .* 2 GiB of memory/);
  assert.deepEqual(bundler.pids, []);
  await bundle(bundler, hello());
});

test('a process that ends while it bundles is replaced by one that starts with an empty folder', async () => {
  const bundler = start();
  await plan(bundler, hello());
  const [pid] = bundler.pids;
  const files = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`public/${i}.html`, 'x']));
  const site = worktrees.write({ 'public/index.html': '', ...files });
  const target = newOut();
  const bundled = bundle(bundler, site, { out: target });
  await eventually(() => existsSync(join(target, 'assets')), 'it copies');
  process.kill(pid!, 'SIGKILL');
  assert.notEqual((await bundled).bundle.assets, null);
  assert.equal(readdirSync(join(target, 'assets')).length, 1_001);
});

test('a request that times out fails, and its process is killed', async () => {
  const bundler = start();
  await assert.rejects(
    bundle(bundler, hello(), { timeoutMs: 1 }),
    /^BuildFailure: bundling took longer than 0\.001 s/,
  );
  await eventually(() => bundler.pids.length === 0, 'it has ended');
});

test('an idle process ends after a while', async () => {
  const bundler = start(10);
  await plan(bundler, hello());
  await eventually(() => bundler.pids.length === 0, 'it goes');
});

test('the process ends with the host', async () => {
  const bundler = start();
  await plan(bundler, hello());
  const { fork } = await import('node:child_process');
  const helper = fork(new URL('../../../bundler/helper.ts', import.meta.url), { execArgv: [] });
  helper.disconnect();
  assert.deepEqual(await once(helper, 'exit'), [0, null]);
});

test('the next process reuses the compile cache', async () => {
  const bundler = start();
  bundler.codeDirectory = join(worktrees.write({}), 'compiled');
  await plan(bundler, hello());
  const kept = () => (existsSync(bundler.codeDirectory!) ? readdirSync(bundler.codeDirectory!) : []);
  await eventually(() => kept().length > 0, 'it is written down');
  bundler.close();
  assert.deepEqual((await bundle(bundler, hello())).bundle.exports, ['default']);
});

test('the folder that the root `deploy` script names is the app', async () => {
  const bundler = start();
  const app = { 'wrangler.jsonc': '{"main": "index.js"}', 'index.js': '', 'package.json': '{"name": "web"}' };
  const inFolders = (script: string, root: Files = {}): Files => ({
    'package.json': JSON.stringify({ scripts: { build: 'tsc', deploy: script }, workspaces: ['apps/*'] }),
    ...Object.fromEntries(Object.entries(app).map(([name, text]) => [`apps/site/${name}`, text])),
    'apps/api/wrangler.jsonc': '{"main": "index.js"}',
    'apps/api/index.js': '',
    ...root,
  });
  for (const script of [
    'cd apps/site && wrangler deploy',
    'npm run build && (cd apps/site && npx wrangler deploy index.js)',
    'cd apps && cd site && npm run deploy',
    'npm run deploy --workspace apps/site',
    'npm run deploy -w web',
    'npm --prefix ./apps/site run deploy',
    'pnpm --filter web run deploy',
    'pnpm -F=./apps/site deploy',
    'pnpm -C apps/site deploy:production',
    'yarn workspace web deploy',
    'turbo run deploy --filter=web...',
    'nx deploy web',
    'nx run web:deploy',
    'bun run --filter web deploy',
    'wrangler deploy --cwd apps/site',
  ]) {
    const { folder, notes } = await plan(bundler, worktrees.write(inFolders(script)));
    assert.equal(folder, 'apps/site', script);
    assert.deepEqual(notes, ['apps/site is deployed: the script "deploy" of package.json names it'], script);
  }
  const line = inFolders('cd apps/site && node make.js && wrangler deploy --env production');
  const { deployLine, build } = await plan(bundler, worktrees.write(line));
  assert.equal(deployLine, 'node make.js && wrangler deploy --env production');
  assert.deepEqual(build, [{ kind: 'command', command: 'node make.js', cwd: '.', mayWantAccount: true }]);
  const own = await plan(bundler, worktrees.write(inFolders('cd apps/site && wrangler deploy', app)));
  assert.equal(own.folder, '');
  const back = inFolders('cd apps/site && npm i && cd ../.. && wrangler deploy a.ts', { 'a.ts': '' });
  assert.equal((await plan(bundler, worktrees.write(back))).folder, '');
  const built = {
    'package.json':
      '{"scripts": {"build": "vite build", "deploy": "npm run build && cd dist && wrangler deploy"}}',
  };
  assert.equal((await plan(bundler, worktrees.write(built))).folder, '');
  const written = {
    'package.json': built['package.json'].replace('cd dist && wrangler', 'wrangler --cwd .output'),
  };
  assert.equal((await plan(bundler, worktrees.write(written))).folder, '');
  await assert.rejects(
    plan(bundler, worktrees.write(inFolders('pnpm --filter shop deploy'))),
    /"deploy" of package\.json deploys shop, and no folder or package is called that: .* --root-directory/,
  );
});
