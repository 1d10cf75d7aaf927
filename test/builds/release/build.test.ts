import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { Release } from '../../../bundler/release.ts';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import { type BuildInput, NO_SETTINGS } from '../../../runtime/builds/release/build-input.ts';
import {
  buildCommit,
  commit,
  exampleApp,
  type Files,
  makeDirectory,
  writeFiles,
} from '../../support/builds/projects.ts';
import { eventually } from '../../support/processes.ts';

const directory = makeDirectory();
after(() => {
  closeBundler();
  directory.remove();
});

const WORKER = 'export default { fetch() { return new Response("ok") } }';
const build = (content: Files | string, more: Partial<BuildInput> = {}) =>
  buildCommit(directory.path, content, more);

/** Asserts that a build fails with a message for the author and leaves no release. @returns the lines of the log */
async function assertFails(
  content: Files,
  message: RegExp,
  more: Partial<BuildInput> = {},
): Promise<string[]> {
  const { input, lines, result } = await build(content, more);
  await assert.rejects(result, (error: unknown) => {
    assert.ok(error instanceof BuildFailure, String(error));
    assert.match(error.message, message);
    return true;
  });
  for (const path of [input.releaseDirectory, `${input.releaseDirectory}.new`]) {
    assert.ok(!existsSync(path), `${path} is left`);
  }
  return lines;
}

function files(path: string): string[] {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .sort();
}

test('a one-file Worker becomes a release', async () => {
  const { input, lines, log, result } = await build(exampleApp('hello'));
  const { release } = await result;
  assert.deepEqual(files(input.releaseDirectory), [
    'modules/index.js',
    'modules/index.js.map',
    'release.json',
  ]);
  const written = JSON.parse(readFileSync(join(input.releaseDirectory, 'release.json'), 'utf8')) as Release;
  assert.deepEqual(written, JSON.parse(JSON.stringify(release)));
  assert.equal(written.sha, input.sha);
  assert.deepEqual(written.exports, ['default']);
  assert.deepEqual(
    log.steps.map(({ name, status }) => `${name} ${status}`),
    ['checkout done', 'install skipped', 'build skipped', 'bundle done', 'release done'],
  );
  assert.ok(lines.includes(`▸ checkout: ${input.sha.slice(0, 12)}`));
});

test('files in the folders above a project do not change its build', async (t) => {
  // By default the data directory is in Cellar's own folder, which has such files too.
  const above = {
    'tsconfig.json':
      '{"compilerOptions": {"verbatimModuleSyntax": true, "jsx": "react", "jsxFactory": "above"}}',
    'package.json': '{"sideEffects": false}',
    'node_modules/above/package.json': '{"main": "index.js"}',
    'node_modules/above/index.js': '',
  };
  writeFiles(directory.path, above);
  t.after(() => {
    for (const name of ['tsconfig.json', 'package.json', 'node_modules'])
      rmSync(join(directory.path, name), { recursive: true });
  });
  const project = {
    'wrangler.json': '{"main": "index.tsx", "compatibility_date": "2026-10-01"}',
    'types.ts': 'export interface Env { A: string }',
    'effect.ts': 'globalThis.effect = true;',
    'index.tsx': `import { Env } from './types';
import './effect';
const React = { createElement: String };
export default { fetch(_request: Request, env: Env) { return new Response(<a />) } };`,
  };
  const { input, result } = await build(project);
  await result;
  const code = readFileSync(join(input.releaseDirectory, 'modules/index.js'), 'utf8');
  assert.match(code, /React\.createElement/);
  assert.match(code, /effect = true/);
  await assertFails(
    { ...project, 'effect.ts': 'import "above";' },
    /effect\.ts:1:8: Could not resolve "above"/,
  );
});

test('the commands of a project find no package.json above it', async () => {
  // Yarn would take the folder of such a file as the project's root, and npm would install there.
  const settings = {
    ...NO_SETTINGS,
    build_command: 'test ! -e ../package.json && test ! -e ../tsconfig.json',
  };
  const { input, result } = await build(
    { 'index.js': WORKER, 'wrangler.json': '{"main": "index.js"}' },
    { settings },
  );
  await result;
  assert.ok(existsSync(join(input.releaseDirectory, 'modules/index.js')));
});

test('a Worker with packages and a database is installed and bundled with its migrations', async () => {
  const { input, result } = await build(exampleApp('guestbook'));
  const { release, storage } = await result;
  const [database] = release.databases;
  assert.equal(database!.binding, 'DB');
  assert.deepEqual(
    database!.migrations.map(({ name }) => name),
    ['0001_entries.sql', '0002_entry_times.sql'],
  );
  for (const { path } of database!.migrations) assert.ok(existsSync(join(input.releaseDirectory, path)));
  assert.deepEqual(storage.databases, { '6d1f6c1e-2f8e-4a53-9d7b-3c8f7f3b9a10': database!.storageId });
  assert.match(readFileSync(join(input.releaseDirectory, 'modules/index.js'), 'utf8'), /class.*Hono/);
});

test('a page built by Vite is released with its API Worker', async () => {
  const { input, lines, result } = await build(exampleApp('spa'));
  const { release } = await result;
  assert.deepEqual(release.assets, {
    directory: 'assets',
    binding: 'ASSETS',
    notFoundHandling: 'single-page-application',
    htmlHandling: 'auto-trailing-slash',
    runWorkerFirst: ['/api/*'],
    rules: {},
  });
  const assets = files(join(input.releaseDirectory, 'assets'));
  assert.ok(
    assets.includes('index.html') && assets.some((path) => /^assets\/index-.*\.js$/.test(path)),
    String(assets),
  );
  assert.ok(lines.some((line) => line.includes('observability ignored')));
});

test('a workspace package is built in its own folder with the other workspace packages available', async () => {
  const { lines, input, result } = await build(
    {
      'package.json': '{"workspaces": ["apps/*", "packages/*"]}',
      'packages/words/package.json': '{"name": "words", "version": "1.0.0"}',
      'packages/words/index.js': 'export const word = "of a neighbour";',
      'package-lock.json': JSON.stringify({
        lockfileVersion: 3,
        packages: {
          '': { workspaces: ['apps/*', 'packages/*'] },
          'apps/web': { dependencies: { words: '*' } },
          'packages/words': { version: '1.0.0' },
          'node_modules/web': { resolved: 'apps/web', link: true },
          'node_modules/words': { resolved: 'packages/words', link: true },
        },
      }),
      'apps/web/package.json': JSON.stringify({
        name: 'web',
        dependencies: { words: '*' },
        scripts: { build: 'exit 3' },
      }),
      'apps/web/wrangler.jsonc':
        '{ "name": "web", "main": "made.js", "compatibility_date": "2026-10-01", "d1_databases": [{ "binding": "DB" }] }',
      'apps/web/migrations/1_a.sql': 'SELECT 1',
      'apps/web/index.js': 'export { word } from "words"; export default { fetch() {} }',
      'apps/other/wrangler.jsonc': '{}',
    },
    { settings: { ...NO_SETTINGS, root_directory: 'apps/web', build_command: 'cp index.js made.js' } },
  );
  const { release } = await result;
  assert.ok(
    lines.some((line) => /^▸ install: npm ci, by package-lock\.json/.test(line)),
    lines.join('\n'),
  );
  assert.ok(
    lines.some((line) => line.startsWith('▸ build: cp index.js made.js')),
    lines.join('\n'),
  );
  assert.match(readFileSync(join(input.releaseDirectory, 'modules/made.js'), 'utf8'), /of a neighbour/);
  assert.equal(release.databases[0]!.migrations.length, 1);
});

test('the settings choose the install command and the output directory', async () => {
  const { input, lines, result } = await build(
    { 'package.json': '{"dependencies": {"no-such": "1"}}', 'src/page.html': '<h1>A page</h1>' },
    {
      settings: {
        ...NO_SETTINGS,
        install_command: 'mkdir web',
        build_command: 'cp src/page.html web/index.html',
        output_directory: 'web',
      },
    },
  );
  await result;
  assert.deepEqual(files(join(input.releaseDirectory, 'assets')), ['index.html']);
  assert.ok(
    lines.some((line) => line.startsWith('▸ install: mkdir web')),
    lines.join('\n'),
  );
});

test('the release command runs last, in the built project, with its packages and the build variables', async () => {
  const root = { name: 'root', workspaces: ['words'], scripts: { build: 'echo built > made.txt' } };
  const files = {
    'package.json': JSON.stringify(root),
    'package-lock.json': JSON.stringify({
      name: 'root',
      lockfileVersion: 3,
      requires: true,
      packages: {
        '': root,
        words: { version: '1.0.0' },
        'node_modules/words': { resolved: 'words', link: true },
      },
    }),
    'words/package.json': '{"name": "words", "version": "1.0.0", "main": "index.js"}',
    'words/index.js': 'module.exports = "installed";',
    'wrangler.jsonc': '{ "main": "index.js", "compatibility_date": "2026-10-01" }',
    'index.js': WORKER,
  };
  const release_command = 'cat made.txt && node -p "require(\'words\')" && echo $TOKEN at $WORKERS_CI_BRANCH';
  const more = { settings: { ...NO_SETTINGS, release_command }, env: { TOKEN: 'abc' } };
  const { lines, log, result } = await build(files, more);
  await result;
  for (const line of ['built', 'installed', 'abc at main']) assert.ok(lines.includes(line), lines.join('\n'));
  assert.deepEqual(log.steps.map(({ name, status }) => `${name} ${status}`).slice(-2), [
    'release done',
    'release_command done',
  ]);

  const preview = await build(files, { ...more, isPreview: true });
  assert.equal((await preview.result).beforeLive, null);
  assert.ok(!preview.log.steps.some(({ name }) => name === 'release_command'));

  const ends = { ...NO_SETTINGS, release_command: 'echo no; exit 3' };
  const failing = await build(files, { settings: ends });
  await assert.rejects(failing.result, /`echo no; exit 3` failed with exit code 3$/);
  assert.equal(failing.log.steps.at(-1)?.status, 'failed');
  const limits = { ...failing.input.limits, stepTimeoutMs: 5_000 };
  const endless = await build(
    { 'index.html': 'x' },
    { settings: { ...NO_SETTINGS, release_command: 'sleep 60' }, limits },
  );
  await assert.rejects(endless.result, /`sleep 60` took longer than 5 s/);
});

test('a Durable Object keeps its storage in the next deploy', async () => {
  const first = await (await build(exampleApp('chat'))).result;
  const [room] = first.release.classes;
  assert.equal(room!.className, 'Room');
  assert.equal(room!.sql, true);
  const second = await (await build(exampleApp('chat'), { storage: first.storage })).result;
  assert.deepEqual(second.release.classes, first.release.classes);
});

test('a static site is released without a Worker', async () => {
  const { input, result } = await build(exampleApp('site'));
  const { release } = await result;
  assert.equal(release.worker, null);
  assert.equal(release.assets?.notFoundHandling, '404-page');
  assert.deepEqual(files(join(input.releaseDirectory, 'assets')), [
    '404.html',
    'about.html',
    'index.html',
    'style.css',
  ]);
});

test('a syntax error is reported with its file, line and column', async () => {
  const source = 'export default {\n  fetch( {\n    return 1\n  }\n}';
  await assertFails(
    { 'src/worker.ts': source, 'package.json': '{"main": "src/worker.ts"}' },
    /^src\/worker\.ts:3:12: /,
  );
});

test('a project with nothing to deploy fails before the install and says what was looked for', async () => {
  const lines = await assertFails(
    { 'README.md': 'Hello', 'package.json': '{"dependencies": {"no-such": "1"}}' },
    /nothing to deploy: looked for wrangler\.json.*index\.html.*package\.json/,
  );
  assert.ok(!lines.some((line) => line.startsWith('▸ install')));
});

test('an impossible configuration fails before the install', async () => {
  const dependencies = '{"dependencies": {"no-such": "1"}}';
  const impossible: [config: object, message: RegExp][] = [
    [{ main: 'index.js', compatibility_date: '2999-01-01' }, /2999-01-01 is in the future/],
    [
      { main: 'src/gone.js' },
      /^wrangler\.jsonc: main: there is no src\/gone\.js: check the path, and that it is committed/,
    ],
    [
      { main: 'main.py', compatibility_flags: ['python_workers'] },
      /main\.py: Workers in Python are not supported: write it in JavaScript/,
    ],
    [
      { main: 'index.js', queues: { consumers: [{ queue: 'jobs', max_retries: 101 }] } },
      /consumers: jobs: max_retries must be/,
    ],
    [{}, /nothing to deploy: set "main"/],
    [{ assets: { directory: 'gone' } }, /^wrangler\.jsonc: assets\.directory: there is no gone/],
  ];
  for (const [config, message] of impossible) {
    const lines = await assertFails(
      {
        'wrangler.jsonc': JSON.stringify({ name: 'x', ...config }),
        'index.js': WORKER,
        'package.json': dependencies,
      },
      message,
    );
    assert.ok(!lines.some((line) => line.startsWith('▸ install')), lines.join('\n'));
  }
});

test('a configuration may name files that the build has not written yet', async () => {
  const { result } = await build({
    'wrangler.jsonc': '{ "name": "x", "main": "made/index.js", "compatibility_date": "2026-10-01" }',
    'package.json': JSON.stringify({ scripts: { build: 'mkdir made && cp worker.js made/index.js' } }),
    'worker.js': WORKER,
  });
  assert.deepEqual((await result).release.exports, ['default']);
});

test('a deploy script may call the package manager by npm_execpath', async () => {
  const scripts = {
    deploy: '"$npm_execpath" run write && wrangler deploy',
    write: 'mkdir made && cp worker.js made/index.js',
  };
  const { result } = await build({
    'wrangler.jsonc': '{ "name": "x", "main": "made/index.js", "compatibility_date": "2026-10-01" }',
    'package.json': JSON.stringify({ scripts }),
    'worker.js': WORKER,
  });
  assert.deepEqual((await result).release.exports, ['default']);
});

test('an invalid configuration is not reported as a failed checkout', async () => {
  const { log, lines, result } = await build({ 'wrangler.toml': 'name = ', 'index.js': WORKER });
  await assert.rejects(result, /^BuildFailure: wrangler\.toml:1:7/);
  assert.deepEqual(
    log.steps.map(({ name, status }) => `${name} ${status}`),
    ['checkout done'],
  );
  assert.ok(!lines.some((line) => line.includes('checkout failed')));
});

test('CLOUDFLARE_ENV selects the environment in wrangler.toml and in a configuration that the build writes', async () => {
  const config = ['top', 'staging'].map(
    (name) => `${name === 'top' ? '' : `[env.${name}]`}\nvars = { AT = "${name}" }`,
  );
  const wrangler = `name = "x"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\n${config.join('\n')}`;
  const project = { 'wrangler.toml': wrangler, 'index.js': WORKER };
  const write = `
    import { mkdirSync, writeFileSync } from 'node:fs';
    mkdirSync('.wrangler/deploy', { recursive: true });
    mkdirSync('dist');
    writeFileSync('.wrangler/deploy/config.json', '{"configPath": "../../dist/wrangler.json"}');
    const vars = { AT: 'built for ' + process.env.CLOUDFLARE_ENV };
    writeFileSync('dist/wrangler.json', JSON.stringify({ name: 'x-staging', main: '../index.js', vars }));`;
  const built = {
    ...project,
    'package.json': '{"scripts": {"build": "node write.mjs"}}',
    'write.mjs': write,
  };
  const at = async (files: Files, env: Record<string, string>) =>
    (await (await build(files, { env })).result).release.vars.AT;
  assert.equal(await at(project, {}), 'top');
  assert.equal(await at(project, { CLOUDFLARE_ENV: 'staging' }), 'staging');
  assert.equal(await at(built, { CLOUDFLARE_ENV: 'staging' }), 'built for staging');
});

test('a build step that times out is killed and named', async () => {
  await assertFails(
    { 'index.js': WORKER, 'package.json': '{"scripts": {"build": "sleep 1000"}}' },
    /`npm run build` took longer than 6 s/,
    { limits: { stepTimeoutMs: 6000, worktreeMb: 500, cacheMb: 512, floorMb: 256, memoryMb: 2048 } },
  );
});

test('a failing build script fails the deploy, and the log has its output', async () => {
  const lines = await assertFails(
    { 'index.js': WORKER, 'package.json': '{"scripts": {"build": "echo broken here; exit 7"}}' },
    /`npm run build` failed with exit code 7/,
  );
  assert.ok(lines.includes('broken here'));
});

test('a failing build script is only reported if the deploy does not need its output', async () => {
  const warningOf = async (script: string) => {
    const { lines, result } = await build({
      'wrangler.jsonc': '{ "name": "x", "main": "index.js", "compatibility_date": "2026-10-01" }',
      'index.js': WORKER,
      'package.json': JSON.stringify({ scripts: { build: script } }),
    });
    assert.equal((await result).release.worker?.main, 'index.js');
    return lines.find((line) => line.startsWith('warning: '));
  };
  const rest = 'the files to deploy exist without it, so the deploy continues';
  assert.equal(
    await warningOf('echo broken here; exit 7'),
    `warning: \`npm run build\` failed with exit code 7; ${rest}`,
  );
  const missing = await warningOf('no-such-program');
  assert.match(
    missing!,
    /failed with exit code 127: .*no-such-program: not found; the files to deploy exist/,
  );
});

test('a command before Wrangler may fail for want of a Cloudflare account, but not for another reason', async () => {
  const project = (prepare: string, deploy: string) => ({
    'wrangler.jsonc': '{ "name": "x", "main": "index.js", "compatibility_date": "2026-10-01" }',
    'index.js': WORKER,
    'prepare.js': `console.error(${JSON.stringify(prepare)}); process.exit(1);`,
    'package.json': JSON.stringify({ scripts: { deploy } }),
  });
  const wanted =
    "In a non-interactive environment, it's necessary to set a CLOUDFLARE_API_TOKEN environment variable for wrangler to work.";
  const { lines, result } = await build(project(wanted, 'node prepare.js && wrangler deploy'));
  assert.equal((await result).release.worker?.main, 'index.js');
  assert.ok(
    lines.includes(
      'warning: `node prepare.js` failed with exit code 1: it asks for a Cloudflare account; apps here need none, so the deploy continues',
    ),
    lines.join('\n'),
  );
  await assertFails(
    project('no such thing', 'node prepare.js && wrangler deploy'),
    /failed with exit code 1$/,
  );
  await assertFails(project(wanted, 'node prepare.js && ls && wrangler deploy'), /failed with exit code 1$/);
  const builds = {
    ...project(wanted, ''),
    'package.json': JSON.stringify({
      scripts: { deploy: 'npm run all && wrangler deploy', all: 'node prepare.js && vite build' },
    }),
  };
  await assertFails(builds, /failed with exit code 1$/);
});

test('packages for development are installed only if what is deployed needs one', async () => {
  const tools = { devDependencies: { missing: 'file:./missing.tgz' } };
  const project = { 'package.json': JSON.stringify(tools), 'index.js': WORKER };
  const { lines, log, result } = await build(project);
  assert.equal((await result).release.worker?.main, 'index.js');
  assert.ok(lines.includes('▸ install: skipped, nothing that is deployed uses a package'), lines.join('\n'));
  assert.equal(log.steps.find(({ name }) => name === 'bundle')?.status, 'done');
  const site = { 'package.json': project['package.json'], 'index.html': '<h1>x</h1>' };
  assert.equal((await (await build(site)).result).release.assets?.directory, 'assets');

  const failed = /`npm install` failed with exit code/;
  await assertFails({ ...project, 'index.js': `import 'missing';\n${WORKER}` }, failed);
  await assertFails({ ...project, 'index.js': `try { require('missing') } catch {}\n${WORKER}` }, failed);
  await assertFails({ ...project, 'tsconfig.json': '{"extends": "missing/tsconfig.json"}' }, failed);
  for (const scripts of [{ prepare: 'true' }, { build: 'true' }])
    await assertFails({ ...project, 'package.json': JSON.stringify({ ...tools, scripts }) }, failed);
  const settings = { ...NO_SETTINGS, release_command: 'true' };
  await assertFails(project, failed, { settings });
  const dependencies = { dependencies: tools.devDependencies };
  await assertFails({ ...project, 'package.json': JSON.stringify(dependencies) }, failed);
});

test('a failed install says why and hides paths of this machine and the npm command line', async () => {
  const manifest = { dependencies: { a: 'file:./a' }, scripts: { build: 'node missing.js' } };
  const lines = await assertFails(
    {
      'index.js': WORKER,
      'a/package.json': '{"name": "a", "version": "1.0.0"}',
      'package.json': JSON.stringify(manifest),
      'package-lock.json': JSON.stringify({ lockfileVersion: 3, packages: { '': {} } }),
    },
    /`npm ci` failed with exit code 1: .*can only install packages when your package\.json and package-lock\.json .* are in sync/,
  );
  assert.ok(
    lines.some((line) => /Missing: a@.* from lock file/.test(line)),
    lines.join('\n'),
  );
  assert.doesNotMatch(lines.join('\n'), /Usage:|--install-strategy|debug-0\.log|_logs/);
});

test('the errors of a failed build name files by their path in the project', async () => {
  const lines = await assertFails(
    { 'index.js': WORKER, 'package.json': '{"scripts": {"build": "node missing.js"}}' },
    /`npm run build` failed with exit code 1$/,
  );
  assert.ok(
    lines.some((line) => line.includes("Cannot find module '/project/missing.js'")),
    lines.join('\n'),
  );
});

test("the app's variables reach its build but not its bundle; the host's variables reach neither", async () => {
  process.env.CELLAR_TEST_SECRET = 'of the host';
  const { input, lines, result } = await build(
    {
      'wrangler.toml': 'name = "x"\nmain = "index.js"\n[build]\ncommand = "env; echo cwd=$PWD"\ncwd = "sub"',
      'sub/keep': '',
      'index.js':
        'export default { fetch() { return new Response(String(globalThis.process?.env.GREETING)) } }',
    },
    { env: { GREETING: 'from-the-app' } },
  );
  delete process.env.CELLAR_TEST_SECRET;
  await result;
  assert.ok(lines.includes('GREETING=from-the-app'));
  assert.ok(lines.includes('cwd=/project/sub'));
  assert.ok(lines.includes('HOME=/home'));
  assert.ok(!lines.some((line) => line.includes('of the host')));
  for (const path of files(input.releaseDirectory)) {
    assert.ok(!readFileSync(join(input.releaseDirectory, path), 'utf8').includes('from-the-app'), path);
  }
});

test('package managers keep no compile cache, which would be lost with the build', async () => {
  const root = { dependencies: { a: 'file:a' } };
  const { lines, result } = await build({
    'index.js': WORKER,
    'a/package.json': '{"name": "a", "version": "1.0.0"}',
    'package.json': JSON.stringify({ ...root, scripts: { build: 'echo temporary: $(ls $TMPDIR)' } }),
    'package-lock.json': JSON.stringify({
      lockfileVersion: 3,
      packages: { '': root, a: { version: '1.0.0' }, 'node_modules/a': { resolved: 'a', link: true } },
    }),
  });
  await result;
  const told = lines.join('\n');
  assert.match(told, /▸ install: npm ci,/);
  assert.match(told, /\ntemporary:\n/);
});

test('a worktree above its limit is refused, whether committed or built', async () => {
  const limits = { stepTimeoutMs: 600_000, worktreeMb: 2, cacheMb: 512, floorMb: 256, memoryMb: 2048 };
  await assertFails(
    { 'index.js': WORKER, 'big.txt': 'x'.repeat(3 * 2 ** 20) },
    /has 4 MiB, more than the 2 MiB/,
    { limits },
  );
  // The size may be measured while the build still writes, so it varies.
  const script = 'head -c 5000000 /dev/zero > big';
  await assertFails(
    { 'index.js': WORKER, 'package.json': JSON.stringify({ scripts: { build: script } }) },
    /^the build has [3-7] MiB, more than the 2 MiB/,
    { limits },
  );
});

test('the log mentions submodules and files in Git LFS', async () => {
  const attributes = { 'ä b/.gitattributes': '*.png filter=lfs diff=lfs merge=lfs -text' };
  const first = await build({ 'index.js': WORKER, '.gitattributes': '*.sh eol=lf', ...attributes });
  await first.result;
  assert.deepEqual(
    first.lines.filter((line) => line.includes('LFS')).map((line) => line.split(' assigns')[0]),
    ['ä b/.gitattributes'],
  );
  const { repository, sha: parent } = first.input;
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a'];
  const git = (...rest: string[]) =>
    execFileSync('git', ['--git-dir', repository, ...identity, ...rest], { encoding: 'utf8' }).trim();
  git('update-index', '--add', '--cacheinfo', `160000,${parent},vendor/library`);
  const sha = git('commit-tree', '-m', 'With a submodule', git('write-tree'));
  const second = await build({}, { repository, sha });
  await second.result;
  assert.ok(second.lines.some((line) => line.startsWith('vendor/library is a submodule')));
});

test("other processes of the same user do not count against a build's process limit", async (t) => {
  const others = Array.from({ length: 40 }, () => spawn('sleep', ['1234'], { stdio: 'ignore' }));
  t.after(() => others.forEach((other) => void other.kill()));
  const { lines, result } = await build({
    'index.html': 'hello',
    'package.json': JSON.stringify({ scripts: { build: 'grep processes /proc/self/limits' } }),
  });
  await result.catch(() => {});
  const limit = lines
    .map((line) => /Max processes +(\d+)/.exec(line)?.[1])
    .find((found) => found !== undefined);
  assert.ok(Number(limit) >= 2048 + others.length, lines.join('\n'));
});

test('an aborted build rejects with the reason and leaves no release', async () => {
  const abort = new AbortController();
  const { input, lines, result } = await build(
    { 'index.js': WORKER, 'package.json': '{"scripts": {"build": "echo started; sleep 1000"}}' },
    { signal: abort.signal },
  );
  const ended = assert.rejects(result, /the host stops/);
  await eventually(() => lines.includes('started'), 'the build runs');
  abort.abort(new Error('the host stops'));
  await ended;
  assert.ok(!existsSync(input.releaseDirectory) && !existsSync(`${input.releaseDirectory}.new`));
});

test('a lock file that an install replaces by a named pipe does not block the build', async () => {
  const { result, lines } = await build({
    'index.js': WORKER,
    'package-lock.json': JSON.stringify({ lockfileVersion: 3, packages: { '': {} } }),
    'package.json': JSON.stringify({
      workspaces: ['none'],
      scripts: { postinstall: 'rm package-lock.json && mkfifo yarn.lock', build: 'echo built' },
    }),
  });
  await result;
  assert.ok(lines.includes('built'));
});

test('oversized asset rules are refused, and so is a named pipe in their place', async () => {
  const site = (build: string) => ({
    'public/index.html': '',
    'package.json': JSON.stringify({ scripts: { build } }),
  });
  await assertFails(
    site('head -c 150000000 /dev/zero > public/_headers'),
    /^assets: _headers has more than 1 MiB$/,
  );
  const { result, input } = await build(site('mkfifo public/_redirects'));
  await result;
  assert.deepEqual(files(join(input.releaseDirectory, 'assets')), ['index.html']);
});

test('the sources of a project are never served as its site', async () => {
  const vite = {
    'index.html': '<script type="module" src="/src/main.ts"></script>',
    'vite.config.ts': 'export default { build: { outDir: "./pages" } }',
    'package.json': JSON.stringify({ scripts: { build: 'mkdir -p pages && echo built > pages/index.html' } }),
  };
  const { result, input, lines } = await build(vite);
  await result;
  assert.deepEqual(files(join(input.releaseDirectory, 'assets')), ['index.html']);
  assert.ok(lines.includes('static site: 1 file in pages'), lines.join('\n'));
  await assertFails(
    { ...vite, 'package.json': JSON.stringify({ scripts: { build: 'true' } }) },
    /the build wrote no folder with an index\.html, .* "assets": \{ "directory": "\.\/dist" \}/,
  );
});

test('the error of a killed build process names the memory setting and the peak memory', async () => {
  await assertFails(
    { 'package.json': '{"scripts": {"build": "sleep 2; exit 137"}}', 'index.js': WORKER },
    /exit code 137: a process of the build was killed.* \(peak: \d+ MiB\).* 2048 MiB \(RUNNER_BUILD_MEMORY_MB\)/,
  );
  // The script ends npm itself, not only a child of npm.
  await assertFails(
    { 'package.json': '{"scripts": {"build": "kill -9 $PPID"}}', 'index.js': WORKER },
    /was ended by SIGKILL: a process of the build was killed.*RUNNER_BUILD_MEMORY_MB/,
  );
});

const GIT_BUILD = `
  echo "sees $WORKERS_CI_COMMIT_SHA $WORKERS_CI_BRANCH $WORKERS_CI_BUILD_UUID"
  echo "at $(git rev-parse HEAD) $(git rev-parse --abbrev-ref HEAD) $(git describe --tags)"
  echo "log $(git log -1 --format=%s), $(git rev-list --count HEAD)"
  echo "changed [$(git diff-index HEAD && git status --porcelain && git remote)]"`;

/** Tags the current commit of a repository as v1.0.0, and adds commits after it. @returns the newest commit */
function addCommits(repository: string, count: number): string {
  const git = (...words: string[]) =>
    execFileSync('git', ['--git-dir', repository, ...words], { encoding: 'utf8' }).trim();
  git('tag', 'v1.0.0', 'HEAD');
  const author = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  for (let n = 1; n <= count; n++) {
    const sha = git(...author, 'commit-tree', '-m', `Commit ${n}`, '-p', 'HEAD', 'HEAD^{tree}');
    git('update-ref', 'HEAD', sha);
  }
  return git('rev-parse', 'HEAD');
}

test('git in a build sees the commit, its branch, earlier commits and their tags', async () => {
  const { repository } = commit(directory.path, { 'index.js': WORKER });
  const sha = addCommits(repository, 3);
  const settings = { ...NO_SETTINGS, build_command: GIT_BUILD };
  const { lines, input, result } = await build(
    {},
    { repository, sha, ref: 'refs/heads/feature/one', settings },
  );
  await result;
  for (const line of [
    `sees ${sha} feature/one ${input.deployId}`,
    `at ${sha} feature/one v1.0.0-3-g${sha.slice(0, 7)}`,
    'log Commit 3, 4',
    'changed []',
  ])
    assert.ok(lines.includes(line), lines.join('\n'));
});

test('a Pages project that is served from its root gets its address and does not serve its commits', async () => {
  for (const [name, text] of [
    ['wrangler.json', '{"name": "site", "pages_build_output_dir": "."}'],
    ['package.json', '{"scripts": {"deploy": "wrangler pages deploy ."}}'],
  ] as const) {
    const { lines, input, result } = await build(
      { 'index.html': '<h1>x</h1>', [name]: text },
      { settings: { ...NO_SETTINGS, build_command: 'git log --format=%s && env' } },
    );
    await result;
    assert.ok(lines.includes('A commit'), lines.join('\n'));
    for (const variable of [
      'CF_PAGES=1',
      `CF_PAGES_COMMIT_SHA=${input.sha}`,
      'CF_PAGES_BRANCH=main',
      'CF_PAGES_URL=http://app.localhost:8787',
    ])
      assert.ok(lines.includes(variable), variable);
    assert.ok(files(join(input.releaseDirectory, 'assets')).includes('index.html'));
  }
});

test('functions/ that the build writes become the Worker of a Pages project, and of no other project', async () => {
  const code = 'const a = () => new Response("ok");\nexport{a as onRequest};\n';
  const files = {
    'b.js': `const { mkdirSync, writeFileSync } = require('node:fs');
for (const name of ['functions', 'public/build']) mkdirSync(name, { recursive: true });
writeFileSync('functions/[[path]].js', ${JSON.stringify(code)});
writeFileSync('public/build/x.js', '');`,
    'public/robots.txt': '',
  };
  const scripts = { build: 'node b.js', deploy: 'npm run build && wrangler pages deploy ./public' };
  const { result } = await build({ ...files, 'package.json': JSON.stringify({ scripts }) });
  assert.equal((await result).release.worker?.main, 'functions/');

  const other = await build({
    ...files,
    'package.json': '{"scripts": {"build": "node b.js"}}',
    'wrangler.jsonc': '{"main": "index.js", "compatibility_date": "2026-10-01"}',
    'index.js': WORKER,
  });
  assert.equal((await other.result).release.worker?.main, 'index.js');
  assert.ok(!other.lines.join('\n').includes('functions build'), other.lines.join('\n'));
});

test('a Pages project without a page and without a Worker gets a warning', async () => {
  const files = {
    'package.json': '{"scripts": {"deploy": "wrangler pages deploy public"}}',
    'public/x.js': '',
  };
  const warning = 'public has no page, and the app has no Worker: ';
  const { lines, result } = await build(files);
  assert.ok((await result).release.warnings?.[0]?.startsWith(warning));
  assert.ok(
    lines.some((line) => line.startsWith(`warning: ${warning}`)),
    lines.join('\n'),
  );
  const page = await build({ ...files, 'public/a/index.html': '' });
  assert.equal((await page.result).release.warnings, undefined);
});
