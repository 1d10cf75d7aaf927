// Runs as root too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { ChildError, runChild, startChild } from '../../runtime/processes/child.ts';

const sh = (script: string) => ['sh', '-c', script];

test("a child gets its input, and nothing of the host's environment", async () => {
  process.env.CELLAR_TEST_SECRET = 'secret';
  const { output, cut } = await runChild(sh('cat; env; pwd'), { input: 'read\n', timeoutMs: 10_000 });
  const lines = output.toString().trim().split('\n');
  assert.equal(lines[0], 'read');
  assert.equal(lines.at(-1), '/');
  assert.ok(!output.includes('secret'));
  assert.equal(cut, false);
});

test('a child that fails says why, and with which code', async () => {
  await assert.rejects(runChild(sh('echo half; echo why >&2; exit 3'), { timeoutMs: 10_000 }), (error) => {
    assert.ok(error instanceof ChildError);
    assert.deepEqual([error.message, error.exitCode, error.output], ['sh failed: why', 3, 'half\n']);
    return true;
  });
  await assert.rejects(
    runChild(sh('kill -TERM $$'), { timeoutMs: 10_000 }),
    /^Error: sh failed: ended by SIGTERM$/,
  );
  await assert.rejects(startChild(['/nowhere/at/all']), /could not start: spawn \/nowhere\/at\/all ENOENT/);
  await assert.rejects(startChild(['true', 'x'.repeat(3 * 2 ** 20)]), /could not start: .*E2BIG/);
});

test('a child over its timeout or output limit is killed with its descendants', async () => {
  const began = performance.now();
  // The `setsid` child leaves the process group and holds the output open.
  const script = 'sleep 1234 & setsid sleep 20 & sleep 1234';
  await assert.rejects(runChild(sh(script), { timeoutMs: 300 }), /^Error: sh took longer than 0\.3 s/);
  assert.ok(performance.now() - began < 15_000, 'the end does not wait for a process that left the group');
  await assert.rejects(
    runChild(['yes'], { timeoutMs: 10_000, limitBytes: 100 }),
    /^Error: yes printed more than 100 bytes/,
  );
  const { output, cut } = await runChild(['yes'], { timeoutMs: 10_000, limitBytes: 4, longer: 'cut' });
  assert.deepEqual([output.toString(), cut], ['y\ny\n', true]);
  const abort = new AbortController();
  const running = runChild(['sleep', '1234'], { timeoutMs: 60_000, signal: abort.signal });
  abort.abort(new Error('given up'));
  await assert.rejects(running, /^Error: given up/);
});

test('without file descriptors a child fails, and the process goes on', () => {
  const script = `
    import { openSync, closeSync } from 'node:fs';
    import { runChild } from ${JSON.stringify(new URL('../../runtime/processes/child.ts', import.meta.url))};
    import { runGit } from ${JSON.stringify(new URL('../../runtime/git/git.ts', import.meta.url))};
    // It is found out at the host's start how processes end with it.
    await runGit('/', ['version']);
    const open = [];
    try { for (;;) open.push(openSync('/dev/null')); } catch {}
    const tries = [runChild(['true'], { timeoutMs: 5000 }), runGit('/', ['version'])];
    for (const { reason } of await Promise.allSettled(tries)) console.log(reason.message);
    for (const descriptor of open) closeSync(descriptor);
    await runChild(['true'], { timeoutMs: 5000 });
    console.log('goes on');`;
  const child = spawnSync(
    'sh',
    ['-c', 'ulimit -n 64; exec "$0" --input-type=module --eval "$1"', process.execPath, script],
    { encoding: 'utf8', timeout: 30_000 },
  );
  assert.equal(child.stderr, '');
  assert.deepEqual(child.stdout.trim().split('\n'), [
    "`true` could not start: EMFILE: too many open files, open '/dev/null'",
    "`git version` could not start: EMFILE: too many open files, open '/dev/null'",
    'goes on',
  ]);
});
