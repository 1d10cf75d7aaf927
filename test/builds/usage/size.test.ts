// The disk limits of a build, checked while it runs and after it has ended.
import assert from 'node:assert/strict';
import diagnosticsChannel from 'node:diagnostics_channel';
import { mkdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { BuildFailure } from '../../../bundler/failure.ts';
import { run } from '../../../runtime/builds/commands/run.ts';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import {
  checkSize,
  requireDisk,
  type SizeLimits,
  sizeLimits,
  watchSize,
} from '../../../runtime/builds/usage/size.ts';
import { buildCommit } from '../../support/builds/projects.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

after(closeBundler);

const { signal } = new AbortController();

/** Limits that these tests never reach. */
const wide = (path: string): SizeLimits => ({
  directories: [{ path, what: 'the build', megabytes: 1000 }],
  files: 100_000,
  freeMb: 0,
});

/** Runs a script in `directory` as a build step under `limits`. */
function step(directory: string, script: string, limits: Partial<SizeLimits>): Promise<void> {
  return run({
    arguments: ['sh', '-c', script],
    title: 'script',
    cwd: directory,
    environment: { PATH: '/usr/bin:/bin' },
    timeoutMs: 60_000,
    signal,
    onLine: () => {},
    watch: (ended) => watchSize({ ...wide(directory), ...limits }, ended),
  });
}

test('a step that makes too many files is killed while it runs', async (t) => {
  const directory = temporaryDirectory(t);
  // Fast enough to exceed the limit by far at the first check, but slow enough that the files are removed quickly.
  const script = 'i=0; while :; do mkdir d$i; (cd d$i; seq 1000 | xargs touch); i=$((i+1)); sleep 0.1; done';
  await assert.rejects(step(directory, script, { files: 5000 }), (error: Error) => {
    assert.ok(error instanceof BuildFailure);
    const [, count = ''] = /^the build has (\d+) files and folders, more than the 5000 it may have$/.exec(
      error.message,
    )!;
    assert.ok(Number(count) > 5000 && Number(count) < 200_000, count);
    return true;
  });
});

test('a step that writes too much to any of its directories is killed while it runs', async (t) => {
  const [project, cache] = [temporaryDirectory(t), temporaryDirectory(t)];
  const script = `while :; do head -c 1000000 /dev/zero >> ${cache}/large; sleep 0.02; done`;
  const { directories } = sizeLimits(project, cache, { worktreeMb: 6, cacheMb: 4, floorMb: 256 });
  await assert.rejects(
    step(project, script, { directories }),
    /^BuildFailure: the cache of the build has \d+ MiB, more than the 10 MiB it may use$/,
  );
});

test('a step is killed when the disk runs full, whoever fills it', async (t) => {
  const directory = temporaryDirectory(t);
  const { bavail, bsize } = statfsSync(directory);
  await assert.rejects(
    step(directory, 'sleep 1000', { freeMb: Math.ceil((bavail * bsize) / 2 ** 20) + 1000 }),
    /^BuildFailure: the disk of this machine has \d+ MiB free, and \d+ MiB must stay free \(RUNNER_DISK_FLOOR_MB\)$/,
  );
});

test("a project's build script runs under the limits", async (t) => {
  const build = 'while :; do head -c 1000000 /dev/zero >> big; sleep 0.05; done';
  const files = { 'index.html': '', 'package.json': JSON.stringify({ scripts: { build } }) };
  const limits = { stepTimeoutMs: 600_000, worktreeMb: 10, cacheMb: 10, floorMb: 256, memoryMb: 2048 };
  const { result } = await buildCommit(temporaryDirectory(t), files, { limits });
  await assert.rejects(result, /^BuildFailure: the build has \d+ MiB, more than the 10 MiB it may use$/);
});

test('files that come and go while they are counted do not disturb a step, and one child process counts them', async (t) => {
  const directory = temporaryDirectory(t);
  let children = 0;
  const count = () => children++;
  diagnosticsChannel.subscribe('child_process', count);
  t.after(() => diagnosticsChannel.unsubscribe('child_process', count));
  const script = 'for i in $(seq 15); do mkdir x; seq -f x/%g 200 | xargs touch; rm -r x; sleep 0.1; done';
  await step(directory, script, {});
  assert.equal(children, 2, 'the step, and who looks at it');
});

test('the files and bytes that a step leaves are counted', async (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'many'));
  for (let n = 0; n < 100; n++) writeFileSync(join(directory, 'many', `${n}`), '');
  const limits = { ...wide(directory), files: 102 };
  await checkSize(limits, signal);
  await assert.rejects(
    checkSize({ ...limits, files: 101 }, signal),
    /has 102 files and folders, more than the 101/,
  );
  writeFileSync(join(directory, 'large'), Buffer.alloc(4 * 2 ** 20, 1));
  const directories = [{ path: directory, what: 'the build', megabytes: 3 }];
  await assert.rejects(
    checkSize({ ...wide(directory), directories }, signal),
    /has 5 MiB, more than the 3 MiB/,
  );
});

test('a deploy is refused if the free disk space is less than a build may need', (t) => {
  const directory = temporaryDirectory(t);
  const { bavail, bsize } = statfsSync(directory);
  const free = Math.floor((bavail * bsize) / 2 ** 20);
  requireDisk(directory, 1, 1);
  assert.throws(
    () => requireDisk(directory, 1, free + 1000),
    /^BuildFailure: the disk of this machine has \d+ MiB free\. A build may need 1 \(RUNNER_BUILD_MAX_MB\), and \d+ must stay free \(RUNNER_DISK_FLOOR_MB\): free disk space, or lower one of these settings$/,
  );
});
