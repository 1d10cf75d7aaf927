// An install whose inputs have not changed does not run.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { makeDirectories } from '../../../runtime/builds/commands/environment.ts';
import { InstallCache } from '../../../runtime/builds/commands/install-cache.ts';
import { packageManager } from '../../../runtime/builds/commands/package-manager.ts';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import { buildCommit, type Files, writeFiles } from '../../support/builds/projects.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

after(closeBundler);

const UNCHANGED = '▸ install: unchanged, taken from the last build';
const WORKER = 'import value from "a"; export default { fetch() { return new Response(value) } }';

/** A workspace with one package `a`. npm installs it without network access. */
function workspace(more: { files?: Files; root?: object } = {}): Files {
  const root = {
    name: 'root',
    workspaces: ['packages/*'],
    scripts: { build: 'node build.js' },
    ...more.root,
  };
  const a = { name: 'a', version: '1.0.0', type: 'module', main: 'index.js' };
  const packages = {
    '': root,
    'node_modules/a': { resolved: 'packages/a', link: true },
    'packages/a': { version: '1.0.0' },
  };
  return {
    'package.json': JSON.stringify(root),
    'package-lock.json': JSON.stringify({ name: 'root', lockfileVersion: 3, requires: true, packages }),
    'packages/a/package.json': JSON.stringify(a),
    'packages/a/index.js': 'export default "a"',
    'index.js': WORKER,
    'build.js': 'require("fs").mkdirSync("node_modules/.made", { recursive: true })',
    ...more.files,
  };
}

/** Makes an app. Each call of `build` builds it. In the result, `installed` says whether the install ran. */
function app(t: TestContext) {
  const directory = temporaryDirectory(t);
  const scratch = join(directory, 'scratch');
  const build = async (files: Files, env: Record<string, string> = {}) => {
    const limits = { stepTimeoutMs: 600_000, worktreeMb: 500, cacheMb: 512, floorMb: 256, memoryMb: 2048 };
    const { result, lines } = await buildCommit(directory, files, { scratch, env, limits });
    const error = await result.then(
      () => null,
      (reason: Error) => reason.message,
    );
    return { installed: !lines.includes(UNCHANGED), error, lines };
  };
  return { directory, kept: join(directory, 'cache', 'installed'), build };
}

test('an install runs again if and only if its inputs have changed', async (t) => {
  const { kept, build } = app(t);
  const installed = async (files: Files, env?: Record<string, string>) => {
    const built = await build(files, env);
    assert.equal(built.error, null, built.lines.join('\n'));
    return built.installed;
  };
  assert.equal(await installed(workspace()), true);
  assert.equal(readdirSync(kept).length, 1);
  assert.equal(await installed(workspace()), false);
  assert.equal(await installed(workspace({ files: { 'index.js': `${WORKER}\n// changed` } })), false);
  const [name] = readdirSync(kept);
  assert.deepEqual(readdirSync(join(kept, name!, 'node_modules')).sort(), [
    '.made',
    '.package-lock.json',
    'a',
  ]);
  assert.equal(await installed(workspace(), { NODE_ENV: 'production' }), true);
  assert.equal(await installed(workspace({ root: { version: '2.0.0' } })), true);
  assert.equal(await installed(workspace({ files: { '.npmrc': 'fund=false\n' } })), true);
  assert.equal(readdirSync(kept).length, 1, 'one install is kept');
});

test('an install that reads more than its declared inputs runs each time', async (t) => {
  const { kept, build } = app(t);
  const twice = async (files: Files) => {
    for (let n = 0; n < 2; n++) {
      const { installed, error, lines } = await build(files);
      assert.equal(error, null, lines.join('\n'));
      assert.equal(installed, true);
    }
  };
  await twice(workspace({ root: { scripts: { postinstall: 'true', build: 'node build.js' } } }));
  const { 'package-lock.json': _, ...unlocked } = workspace();
  await twice(unlocked);
  assert.deepEqual(existsSync(kept) ? readdirSync(kept) : [], []);
});

test('a failed build makes the next install run again', async (t) => {
  const { kept, build } = app(t);
  await build(workspace());
  const failed = await build(workspace({ files: { 'build.js': 'process.exit(1)' } }));
  assert.equal(failed.installed, false);
  assert.match(failed.error!, /failed with exit code 1/);
  assert.ok(!existsSync(kept));
  const after = await build(workspace());
  assert.deepEqual([after.installed, after.error], [true, null]);
});

test('a restored install does not follow links out of its directory', async (t) => {
  const { directory, kept, build } = app(t);
  await build(workspace());
  const [name] = readdirSync(kept);
  const outside = join(directory, 'outside');
  mkdirSync(join(outside, 'node_modules', 'secret'), { recursive: true });
  rmSync(join(kept, name!), { recursive: true });
  symlinkSync(outside, join(kept, name!));
  const built = await build(workspace());
  assert.equal(built.error, null, built.lines.join('\n'));
  assert.ok(
    built.lines.some((line) => line.startsWith('the packages of the last build cannot be used again')),
  );
  assert.ok(existsSync(join(outside, 'node_modules', 'secret')));
});

test('an install that wrote more than packages is not cached', async (t) => {
  const place = realpathSync(temporaryDirectory(t));
  const directories = makeDirectories(join(place, 'scratch'), join(place, 'cache'));
  const manager = packageManager(
    { packageManager: null, devManager: null, pnpmRange: null, lockFiles: [] },
    directories.cache,
  );
  const facts = { digest: 'x', environment: {}, manager, npm: process.execPath };
  const installed = async (path: string) => {
    const kept = new InstallCache(directories, null, facts);
    await kept.before();
    writeFiles(place, { 'scratch/project/node_modules/a/index.js': '', [path]: '' });
    await kept.after();
    await kept.keep();
    return kept.isThere;
  };
  assert.equal(await installed('scratch/project/node_modules/b/index.js'), true);
  assert.equal(await installed('scratch/project/generated.js'), false);
  assert.equal(await installed('scratch/home/.cache/browser'), false);
  assert.equal(await installed('scratch/home/.npm/_logs/x'), true);
});
