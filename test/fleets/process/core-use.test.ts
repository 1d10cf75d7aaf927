// Apps that keep a core busy: their processes run at low priority until they calm down.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { CoreUse } from '../../../runtime/fleets/process/core-use.ts';
import { ControlGroups, openControlGroups } from '../../../runtime/resources/cgroup.ts';
import { openLowPriorityGroup } from '../../../runtime/resources/low-priority-group.ts';
import { harness } from '../../support/fleets/harness.ts';
import { eventually } from '../../support/processes.ts';

const opened = openControlGroups(`cellar-test-${process.pid}`);
const groups = opened instanceof ControlGroups && opened.limits.processors ? opened : null;
const NEEDS_PROCESSORS = groups === null ? { skip: 'the processors cannot be shared out here' } : {};
openLowPriorityGroup(groups?.background() ?? null);
process.once('exit', () => void groups?.close());

const BURNING = 'export default { fetch() { for (;;); } };';

/** Resolves when a process has entered or left low priority. */
async function until(isLowPriority: boolean, pid: number): Promise<void> {
  const isNow = () => readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes('/background');
  await eventually(() => isNow() === isLowPriority, `it has low priority: ${isLowPriority}`);
}

function startProcess(t: TestContext): number {
  const child = spawn('sleep', ['600'], { env: {} });
  t.after(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  return child.pid!;
}

test(
  'a process that uses half a core gets low priority, and loses it after ten calm seconds',
  NEEDS_PROCESSORS,
  async (t) => {
    const pid = startProcess(t);
    const use = new CoreUse();
    use.begin(pid, 0);
    use.look(400, 1_000);
    await until(false, pid);
    use.look(1_000, 2_000);
    await until(true, pid);
    use.look(1_100, 3_000);
    // Calm for seven seconds only.
    use.look(1_800, 10_000);
    use.look(2_400, 11_000);
    use.look(2_500, 20_000);
    await until(true, pid);
    use.look(2_600, 21_500);
    await until(false, pid);
  },
);

test('the next process of a busy app starts at low priority', NEEDS_PROCESSORS, async (t) => {
  const use = new CoreUse();
  use.begin(startProcess(t), 0);
  use.look(900, 1_000);
  const next = startProcess(t);
  use.begin(next, 1_100);
  await until(true, next);
});

test('CPU readings too close together are ignored', NEEDS_PROCESSORS, async (t) => {
  const pid = startProcess(t);
  const use = new CoreUse();
  use.begin(pid, 0);
  use.look(20, 10);
  use.look(30, 20);
  use.look(100, 1_000);
  await until(false, pid);
});

test('an app in an endless loop and its next process use only idle CPU time', NEEDS_PROCESSORS, async (t) => {
  const app = harness(t);
  await app.fleet.start(await app.release(1, { code: BURNING, migrations: {} }));
  const look = setInterval(app.tick, 200);
  t.after(() => clearInterval(look));
  const asked = app.ask('/loop').catch(() => 'cut');
  const pid = app.fleet.pid!;
  await until(true, pid);
  process.kill(pid, 'SIGKILL');
  await asked;
  await app.until(() => app.fleet.pid !== null && app.fleet.pid !== pid);
  await until(true, app.fleet.pid!);
});
