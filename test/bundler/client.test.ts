import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Bundler } from '../../bundler/client.ts';
import { BuildFailure } from '../../bundler/failure.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';

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

test('one process answers the requests of many deploys', async () => {
  const bundler = start();
  assert.equal(bundler.pid, null, 'nothing is started before it is needed');
  const bundles = await Promise.all([1, 2, 3].map(() => bundler.bundle(hello(), out(), null, 500, 20_000)));
  assert.deepEqual(
    bundles.map(({ bundle }) => bundle.exports),
    [['default'], ['default'], ['default']],
  );
  const { pid } = bundler;
  await bundler.plan(hello(), null, 20_000);
  assert.equal(bundler.pid, pid);
});

test("a fault of the project comes back as its author's, and the process goes on", async () => {
  const bundler = start();
  await assert.rejects(
    bundler.bundle(worktrees.write({}), out(), null, 500, 20_000),
    /^BuildFailure: nothing to deploy/,
  );
  const { pid } = bundler;
  await bundler.bundle(hello(), out(), null, 500, 20_000);
  assert.equal(bundler.pid, pid);
});

test('a plan is the build command of Wrangler, read before anything has run', async () => {
  const bundler = start();
  const project = worktrees.write(wranglerProject({ build: { command: 'make', cwd: 'sub' } }));
  assert.deepEqual(await bundler.plan(project, null, 20_000), { command: 'make', cwd: 'sub' });
  assert.equal(
    await bundler.plan(worktrees.write({ 'package.json': '{"scripts": {"build": "x"}}' }), null, 20_000),
    null,
  );
});

test('a crash fails what the process worked on, and the next request starts another', async () => {
  const bundler = start();
  await bundler.plan(hello(), null, 20_000);
  const ended = bundler.bundle(hello(), out(), null, 500, 20_000);
  process.kill(bundler.pid!, 'SIGKILL');
  await assert.rejects(ended, new BuildFailure('the bundler ended (SIGKILL); push again'));
  await bundler.bundle(hello(), out(), null, 500, 20_000);
});

test('a request that takes too long fails, and its process is ended', async () => {
  const bundler = start();
  await assert.rejects(
    bundler.bundle(hello(), out(), null, 500, 1),
    /^BuildFailure: bundling took longer than 0\.001 s/,
  );
  assert.equal(bundler.pid, null);
});

test('a process that nobody needs goes after a while', async () => {
  const bundler = start(10);
  await bundler.plan(hello(), null, 20_000);
  const deadline = Date.now() + 5000;
  while (bundler.pid !== null) {
    assert.ok(Date.now() < deadline);
    await new Promise((resolve) => setImmediate(resolve));
  }
});

test('the process ends with the host', async () => {
  const bundler = start();
  await bundler.plan(hello(), null, 20_000);
  const { fork } = await import('node:child_process');
  const helper = fork(new URL('../../bundler/helper.ts', import.meta.url), { execArgv: [] });
  helper.disconnect();
  assert.deepEqual(await once(helper, 'exit'), [0, null]);
});
