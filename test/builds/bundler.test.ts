import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { BuildFailure } from '../../bundler/failure.ts';
import { Bundler } from '../../runtime/builds/bundler.ts';
import { openBackground } from '../../runtime/machine/background.ts';
import { openControlGroups } from '../../runtime/machine/cgroup.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';
import { eventually } from '../support/e2e/processes.ts';

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
const out = () => join(worktrees.write({}), 'bundle');
/** An empty file. */
function openFile(path: string): string {
  writeFileSync(path, '');
  return path;
}

const bundle = (bundler: Bundler, worktree: string, timeoutMs = 60_000) => {
  const options = { worktree, out: out(), environment: null, assetsMb: 500, before: null };
  return bundler.bundle(options, timeoutMs);
};
const plan = (bundler: Bundler, worktree: string) => bundler.plan(worktree, null, [], 60_000);

test('its processes work in the background', async (t) => {
  const groups = openControlGroups(`cellar-test-${process.pid}`);
  if (typeof groups === 'string' || !groups.limits.processors)
    return t.skip('the processors cannot be shared out here');
  openBackground(groups.background());
  const bundler = start();
  await plan(bundler, hello());
  assert.match(readFileSync(`/proc/${bundler.pids[0]}/cgroup`, 'utf8'), /\/background$/m);
  openBackground(null);
  bundler.close();
  await eventually(() => bundler.pids.length === 0, 'it has ended');
  await groups.close();
});

test('one process answers one deploy after another, and those at the same time have one each', async () => {
  const bundler = start();
  assert.deepEqual(bundler.pids, [], 'nothing is started before it is needed');
  await plan(bundler, hello());
  const { pids } = bundler;
  assert.equal(pids.length, 1);
  await bundle(bundler, hello());
  assert.deepEqual(bundler.pids, pids);
  const bundles = await Promise.all([1, 2, 3].map(() => bundle(bundler, hello())));
  assert.deepEqual(
    bundles.map((bundled) => bundled.bundle.exports),
    [['default'], ['default'], ['default']],
  );
  await eventually(() => bundler.pids.length === 1, 'one stays warm');
});

test("a fault of the project comes back as its author's, and the process goes on", async () => {
  const bundler = start();
  await assert.rejects(bundle(bundler, worktrees.write({})), /^BuildFailure: nothing to deploy/);
  const { pids } = bundler;
  await bundle(bundler, hello());
  assert.deepEqual(bundler.pids, pids);
});

test('a plan says what is to run, read before anything has run', async () => {
  const bundler = start();
  const project = worktrees.write(wranglerProject({ build: { command: 'make', cwd: 'sub' } }));
  assert.deepEqual((await plan(bundler, project)).command, { command: 'make', cwd: 'sub' });
  const files = {
    'package.json':
      '{"scripts": {"build": "x"}, "packageManager": "pnpm@10.1.0", "dependencies": {"a": "1"}}',
    'pnpm-lock.yaml': `lockfileVersion: '9.0'\n${' '.repeat(5000)}`,
    'public/index.html': '',
  };
  const { pages, lockFiles, ...planned } = await plan(bundler, worktrees.write(files));
  assert.deepEqual(planned, {
    command: null,
    hasDependencies: true,
    hasBuildScript: true,
    packageManager: 'pnpm@10.1.0',
    installAnew: null,
  });
  assert.deepEqual(Object.keys(pages), ['public']);
  const [lockFile] = lockFiles;
  assert.equal(lockFile!.name, 'pnpm-lock.yaml');
  assert.ok(lockFile!.head.startsWith("lockfileVersion: '9.0'") && lockFile!.head.length <= 1000);
});

test('a project that holds up its process holds up no other', async () => {
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

test('a crash fails what the process worked on, and the next request starts another', async () => {
  const bundler = start();
  await plan(bundler, hello());
  const ended = bundle(bundler, hello());
  process.kill(bundler.pids[0]!, 'SIGKILL');
  await assert.rejects(ended, new BuildFailure('the bundler ended (SIGKILL); push again'));
  await bundle(bundler, hello());
});

test('a request that takes too long fails, and its process is ended', async () => {
  const bundler = start();
  await assert.rejects(bundle(bundler, hello(), 1), /^BuildFailure: bundling took longer than 0\.001 s/);
  await eventually(() => bundler.pids.length === 0, 'it has ended');
});

test('a process that nobody needs goes after a while', async () => {
  const bundler = start(10);
  await plan(bundler, hello());
  await eventually(() => bundler.pids.length === 0, 'it goes');
});

test('the process ends with the host', async () => {
  const bundler = start();
  await plan(bundler, hello());
  const { fork } = await import('node:child_process');
  const helper = fork(new URL('../../bundler/helper.ts', import.meta.url), { execArgv: [] });
  helper.disconnect();
  assert.deepEqual(await once(helper, 'exit'), [0, null]);
});

test('what a process has compiled of its own code is kept for the next one', async () => {
  const bundler = start();
  bundler.codeDirectory = join(worktrees.write({}), 'compiled');
  await plan(bundler, hello());
  const kept = () => (existsSync(bundler.codeDirectory!) ? readdirSync(bundler.codeDirectory!) : []);
  await eventually(() => kept().length > 0, 'it is written down');
  bundler.close();
  assert.deepEqual((await bundle(bundler, hello())).bundle.exports, ['default']);
});
