import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { watchUsage } from '../../../runtime/builds/usage/watch-usage.ts';
import { startJob } from '../../../runtime/processes/child.ts';
import { usageBelow } from '../../../runtime/processes/proc.ts';
import { eventually } from '../../support/processes.ts';

/** Starts a shell with children: some compute endlessly, others sleep. @returns the pid of the parent shell */
async function startShells(t: TestContext, busy: number, waiting: number): Promise<number> {
  const start = `for n in $(seq ${busy}); do while :; do :; done & done; for n in $(seq ${waiting}); do sleep 600 & done; wait`;
  const job = await startJob(['nice', '-n', '19', 'sh', '-c', start], { stdin: 'ignore' });
  t.after(() => job.end());
  await eventually(() => usageBelow(job.pid).busyThreads >= busy, 'they work');
  return job.pid;
}

const never = () => new AbortController().signal;

test('a command that keeps too many threads busy is killed and says so', async (t) => {
  const pid = await startShells(t, 4, 0);
  await assert.rejects(
    watchUsage(pid, { memoryMb: 1_000, busyThreads: 3 }, never()),
    /the build used more than 3 threads while other programs kept the processors of this machine busy/,
  );
});

test('a command that keeps many threads busy for moments only keeps running', async (t) => {
  const pid = await startShells(t, 4, 0);
  let looks = 0;
  const ended = new AbortController();
  const onMemory = () => {
    looks++;
    process.kill(-pid, looks % 2 === 1 ? 'SIGSTOP' : 'SIGCONT');
    if (looks === 12) ended.abort();
  };
  const watched = watchUsage(pid, { memoryMb: 1_000, busyThreads: 3, onMemory }, ended.signal);
  await assert.rejects(watched, { name: 'AbortError' });
});

test('a command whose threads mostly sleep keeps running', async (t) => {
  const pid = await startShells(t, 2, 8);
  const watched = watchUsage(pid, { memoryMb: 1_000, busyThreads: 6 }, AbortSignal.timeout(4_000));
  await assert.rejects(watched, { name: 'AbortError' });
});

test('the total memory is limited even without a limit of busy threads', async (t) => {
  const pid = await startShells(t, 2, 0);
  await assert.rejects(
    watchUsage(pid, { memoryMb: 0.001, busyThreads: null }, never()),
    /more than the 0\.001 MiB of memory that it may use/,
  );
});
