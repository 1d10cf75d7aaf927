// Low-priority processes on a busy machine. The tests stop the probe process, as if it got no CPU time.
// Runs as root too.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { run } from '../../runtime/builds/commands/run.ts';
import { startJob } from '../../runtime/processes/child.ts';
import { findProgram } from '../../runtime/processes/programs.ts';
import { openControlGroups } from '../../runtime/resources/cgroup.ts';
import { ownControlGroup } from '../../runtime/resources/cgroup-place.ts';
import { atLowPriority, atLowPriorityAsMany, minimumCpuShare } from '../../runtime/resources/low-priority.ts';
import { openLowPriorityGroup } from '../../runtime/resources/low-priority-group.ts';
import { MinimumCpuShare } from '../../runtime/resources/minimum-cpu-share.ts';
import { eventually } from '../support/processes.ts';

const HAS_SESSIONS = existsSync('/proc/self/autogroup');

/** Keeps `watch` running until the end of the test. */
function keep(t: TestContext, watch: MinimumCpuShare): void {
  const end = Promise.withResolvers<void>();
  const ended = watch.during(() => end.promise);
  t.after(async () => {
    end.resolve();
    await ended;
    await eventually(() => watch.pid === null, 'the probe has ended');
    assert.equal(watch.starved, false);
  });
}

const halt = (watch: MinimumCpuShare) => process.kill(-watch.pid!, 'SIGSTOP');
const letGoOn = (watch: MinimumCpuShare) => process.kill(-watch.pid!, 'SIGCONT');

/** How the kernel schedules a command: `SCHED_OTHER` is policy 0, `SCHED_IDLE` 5. */
interface Treatment {
  policy: string;
  nice: string;
  /** The niceness of its session; `null` where sessions have none. */
  session: string | null;
}

function treatmentOf(pid: number): Treatment {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const session = HAS_SESSIONS ? readFileSync(`/proc/${pid}/autogroup`, 'utf8') : '';
  return { policy: fields[38]!, nice: fields[16]!, session: / nice (\S+)/.exec(session)?.[1] ?? null };
}

/** Asserts how a command with this prefix is scheduled, soon after its start. */
async function assertTreated(words: string[], wanted: Treatment): Promise<void> {
  const job = await startJob([...words, 'sleep', '600'], { stdin: 'ignore' });
  try {
    const isSo = () => isDeepStrictEqual(treatmentOf(job.pid), wanted);
    await eventually(isSo, `a command is treated so: ${JSON.stringify(wanted)}`);
  } finally {
    job.end();
  }
}

test('a low-priority command is idle, and has a minimum CPU share while it would get nothing', async (t) => {
  if (findProgram('chrt') === null) return t.skip('chrt is not installed');
  const idle = { policy: '5', nice: '0', session: HAS_SESSIONS ? '19' : null };
  await assertTreated(await atLowPriority(), idle);
  const many = await atLowPriorityAsMany(true);
  assert.equal(many.tasks, null);
  await assertTreated(many.words, idle);
  keep(t, minimumCpuShare);
  await minimumCpuShare.known();
  halt(minimumCpuShare);
  await eventually(() => minimumCpuShare.starved, 'the probe is missed');
  const floor = HAS_SESSIONS ? '3' : null;
  await assertTreated(await atLowPriority(), { policy: '0', nice: '3', session: floor });
  const few = await atLowPriorityAsMany(true);
  assert.equal(few.tasks, Math.max(128, 32 * availableParallelism()));
  await assertTreated(few.words, { policy: '0', nice: '13', session: floor });
  const unlimited = await atLowPriorityAsMany(false);
  assert.equal(unlimited.tasks, null);
  await assertTreated(unlimited.words, { ...idle, session: floor });
  const late = run({
    arguments: ['sleep', '1000'],
    title: 'build',
    cwd: '/',
    environment: { PATH: '/usr/bin:/bin' },
    timeoutMs: 50,
    signal: new AbortController().signal,
    onLine: () => {},
  });
  await assert.rejects(
    late,
    /took longer than 0.05 s and was ended, since other programs kept the processors/,
  );
});

test('a low-priority group has a minimum CPU share while it gets nothing, and no longer', async (t) => {
  const name = `cellar-test-${process.pid}`;
  const groups = openControlGroups(name);
  if (typeof groups === 'string' || !groups.limits.processors)
    return t.skip('the processors cannot be shared out here');
  openLowPriorityGroup(groups.background());
  const { version, directory } = ownControlGroup('cpu', '/');
  const weight = () =>
    readFileSync(join(directory, name, version === 2 ? 'cpu.weight' : 'cpu.shares'), 'utf8').trim();
  const floor = version === 2 ? '50' : '512';
  assert.notEqual(weight(), floor);
  const watch = new MinimumCpuShare(() => [], { patience: 300, floor: 100, pause: 50 });
  keep(t, watch);
  t.after(async () => {
    openLowPriorityGroup(null);
    await groups.close();
  });
  await watch.known();
  assert.match(readFileSync(`/proc/${watch.pid}/cgroup`, 'utf8'), /\/probe$/m);
  halt(watch);
  await eventually(() => weight() === floor, 'it has a floor');
  assert.ok(watch.starved);
  letGoOn(watch);
  await eventually(() => weight() !== floor, 'it has none');
});

test('concurrent jobs share one probe, and a killed probe is started again for the next job', async (t) => {
  const watch = new MinimumCpuShare(() => []);
  keep(t, watch);
  await watch.known();
  const { pid } = watch;
  await watch.during(async () => assert.equal(watch.pid, pid));
  process.kill(-pid!, 'SIGKILL');
  await eventually(() => watch.pid === null, 'it is missed');
  const next = new MinimumCpuShare(() => ['/nowhere/at/all']);
  await next.during(() => next.known());
  assert.equal(next.starved, false);
});
