// Runs as root too.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { tasksOfBuild } from '../../runtime/builds/commands/confine.ts';
import { CellGroups, limitCell, openCellGroups, useCellGroups } from '../../runtime/resources/cell-groups.ts';
import { ControlGroup, ControlGroups, openControlGroups } from '../../runtime/resources/cgroup.ts';
import { delegate, mostTasks, ownControlGroup } from '../../runtime/resources/cgroup-place.ts';
import {
  openLowPriorityGroup,
  toLowPriority,
  toNormalPriority,
} from '../../runtime/resources/low-priority-group.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const NAME = `cellar-test-${process.pid}`;
const opened = openControlGroups(NAME);
const groups = opened instanceof ControlGroups ? opened : null;
await groups?.close();
const why = groups === null ? `no control groups here: ${opened}` : null;
const NEEDS_MEMORY = groups?.limits.memory
  ? {}
  : { skip: why ?? 'the memory of groups cannot be limited here' };
const NEEDS_PROCESSORS = groups?.limits.processors
  ? {}
  : { skip: why ?? 'the processors cannot be shared out here' };
const NEEDS_TASKS = groups?.limits.tasks
  ? {}
  : { skip: why ?? 'the processes of groups cannot be limited here' };

const NEEDS_VERSION_2 =
  groups?.limits.memory && ownControlGroup('memory', '/').version === 2
    ? {}
    : { skip: why ?? 'control groups are of version 1 here' };

async function makeGroup(
  t: TestContext,
  limits: Parameters<ControlGroups['create']>[1],
): Promise<ControlGroup> {
  const all = openControlGroups(NAME) as ControlGroups;
  const group = await all.create(`test-${t.name.length}`, limits);
  t.after(async () => {
    await group.remove();
    await all.close();
  });
  return group;
}

/** Runs a Node script in `group`. */
function runIn(group: ControlGroup, script: string) {
  const [file, ...words] = [...group.enter, process.execPath, '-e', script];
  return spawnSync(file!, words, { encoding: 'utf8', env: {}, timeout: 60_000 });
}

test('a group that exceeds its memory limit loses its process, and says so', NEEDS_MEMORY, async (t) => {
  const group = await makeGroup(t, { memoryMb: 128, tasks: null });
  const small = runIn(group, 'console.log(Buffer.alloc(2 ** 20, 1).length)');
  assert.equal(small.stdout.trim(), String(2 ** 20), small.stderr);
  assert.equal((await group.state()).memoryKills, 0);
  const large = runIn(
    group,
    'const all = []; for (let n = 0; n < 2000; n++) all.push(Buffer.alloc(2 ** 20, 1));',
  );
  assert.equal(large.signal, 'SIGKILL', large.stderr);
  assert.ok((await group.state()).memoryKills >= 1);
});

test(
  'an app’s process killed for the memory of a parent group is distinguished from one killed for its own',
  NEEDS_MEMORY,
  async (t) => {
    const outer = await makeGroup(t, { memoryMb: 128, tasks: null });
    const { version } = ownControlGroup('memory', '/');
    const directory = outer.directories.find((path) => version === 2 || path.includes('/memory/'))!;
    if (version === 2) delegate(directory, 'memory');
    const cells = new CellGroups({ version, directory }, NAME, 1024, false);
    const script = `process.stdin.once('data', () => { const all = []; for (;;) all.push(Buffer.alloc(2 ** 20, 1)); });`;
    const child = spawn(process.execPath, ['-e', script], { env: {} });
    const ended = once(child, 'exit');
    cells.add(child.pid!, ended);
    const members = join(directory, `${NAME}-cell-${child.pid}`, 'cgroup.procs');
    await eventually(() => existsSync(members) && readFileSync(members, 'utf8') !== '', 'it is in its group');
    const forMemory = cells.endsForMemory(child.pid!);
    child.stdin.on('error', () => {});
    child.stdin.write('\n');
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    assert.equal(await forMemory, 'machine');
    await eventually(() => cells.close(), 'its group has gone');
  },
);

test('a group has no more processes than its limit, and counts refused ones', NEEDS_TASKS, async (t) => {
  const group = await makeGroup(t, { memoryMb: null, tasks: 40 });
  const script = `
    const { spawn } = require('node:child_process');
    let running = 0;
    for (let i = 0; i < 60; i++) {
      const child = spawn('/bin/sleep', ['20']);
      child.on('error', () => {});
      if (child.pid) running++;
    }
    console.log(running);
    process.kill(0, 'SIGKILL');`;
  const [file, ...words] = [...group.enter, process.execPath, '-e', script];
  const child = spawn(file!, words, { detached: true, env: {} });
  let printed = '';
  child.stdout.on('data', (chunk) => (printed += chunk));
  await once(child, 'close');
  assert.ok(Number(printed) > 0 && Number(printed) < 40, printed);
  assert.ok((await group.state()).tasksRefused > 0);
});

test('a running process can be added to a group, and its memory is counted', NEEDS_MEMORY, async (t) => {
  const group = await makeGroup(t, { memoryMb: 256, tasks: null });
  const script = `process.stdin.once('data', () => { global.all = Buffer.alloc(64 * 2 ** 20, 1); console.log('filled'); });`;
  const child = spawn(process.execPath, ['-e', script], { env: {} });
  const ended = once(child, 'exit');
  await group.add(child.pid!);
  child.stdin.write('\n');
  await once(child.stdout, 'data');
  const { memoryBytes } = await group.state();
  assert.ok(memoryBytes > 64 * 2 ** 20 && memoryBytes < 256 * 2 ** 20, String(memoryBytes));
  child.kill('SIGKILL');
  await ended;
});

test('groups that a host left behind are removed at the next start', NEEDS_MEMORY, async () => {
  const before = openControlGroups(NAME) as ControlGroups;
  const group = await before.create('left', { memoryMb: 64, tasks: null });
  const directories = group.enter.slice(4);
  for (const directory of directories) assert.ok(existsSync(directory));
  const next = openControlGroups(NAME) as ControlGroups;
  for (const directory of directories) assert.ok(!existsSync(directory), directory);
  await next.close();
});

/** Returns the CPU time that a process has used, in ms. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Starts a busy process on the first core. It has a session of its own, as processes of apps do. */
function burn(t: TestContext): ChildProcess {
  const child = spawn('taskset', ['1', process.execPath, '-e', 'for (;;);'], { detached: true, env: {} });
  t.after(async () => {
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  return child;
}

/** Measures the CPU time of a process while `other` uses half a second. @returns its ratio to that half second */
async function share({ pid }: ChildProcess, other: ChildProcess): Promise<number> {
  const [from, beside] = [cpuMs(other.pid!), cpuMs(pid!)];
  const deadline = AbortSignal.timeout(60_000);
  while (cpuMs(other.pid!) - from < 500) await setTimeout(20, undefined, { signal: deadline });
  return (cpuMs(pid!) - beside) / 500;
}

test(
  'a low-priority process gets the idle time of a core, and its full share when it is released',
  NEEDS_PROCESSORS,
  async (t) => {
    // The processes start first, so that their hooks end them before the groups are removed.
    const [first, second] = [burn(t), burn(t)];
    const all = openControlGroups(NAME) as ControlGroups;
    t.after(() => all.close());
    const background = all.background()!;
    await background.add(second.pid!);
    assert.ok((await share(second, first)) < 0.2);
    await background.floor(true);
    const floor = await share(second, first);
    assert.ok(floor > 0.25 && floor < 0.8, String(floor));
    await background.floor(false);
    assert.ok((await share(second, first)) < 0.2);
    await background.release(second.pid!);
    assert.ok((await share(second, first)) > 0.5);
  },
);

test(
  'an app’s process at low priority gets the idle time of a core, in a group of its own',
  NEEDS_PROCESSORS,
  async (t) => {
    const [host, cell] = [burn(t), burn(t)];
    const all = openControlGroups(NAME) as ControlGroups;
    const cells = openCellGroups(NAME, 256);
    openLowPriorityGroup(all.background());
    useCellGroups(cells instanceof CellGroups ? cells : null);
    t.after(async () => {
      openLowPriorityGroup(null);
      useCellGroups(null);
      await all.close();
      if (cells instanceof CellGroups) await eventually(() => cells.close(), 'no group is left');
    });
    limitCell(cell.pid!, once(cell, 'exit'));
    await toLowPriority(cell.pid!);
    const behind = await share(cell, host);
    assert.ok(behind < 0.2, String(behind));
    await toNormalPriority(cell.pid!);
    const beside = await share(cell, host);
    assert.ok(beside > 0.5, String(beside));
  },
);

/** Prints what `openControlGroups` finds in its process. */
const OPENS = `
const { openControlGroups } = await import(${JSON.stringify(import.meta.resolve('../../runtime/resources/cgroup.ts'))});
const found = openControlGroups('inner');
console.log(JSON.stringify(found.limits ?? found));
if (found.limits) await found.close();`;

/** Runs `OPENS` in `group`, beside a child of the same shell and, unless it is null, an unrelated process. */
async function openBesides(group: ControlGroup, stranger: ChildProcess | null) {
  if (stranger !== null) await group.add(stranger.pid!);
  const script = `sleep 600 & "$0" --input-type=module -e "$1"; kill $!`;
  const [file, ...words] = [...group.enter, '/bin/sh', '-c', script, process.execPath, OPENS];
  const { stdout, stderr } = spawnSync(file!, words, { encoding: 'utf8', env: {}, timeout: 60_000 });
  assert.notEqual(stdout, '', stderr);
  const room = join(group.directories[0]!, 'cellar-host');
  await new ControlGroup({ memory: { version: 2, directory: room } }).remove();
  return JSON.parse(stdout);
}

test(
  'version 2: a group is emptied of the host and the processes started together with it',
  NEEDS_VERSION_2,
  async (t) => {
    const group = await makeGroup(t, { memoryMb: null, tasks: null });
    assert.deepEqual(await openBesides(group, null), { memory: true, tasks: true, processors: true });
  },
);

test(
  'version 2: a group with another process is not changed, and the error names that process',
  NEEDS_VERSION_2,
  async (t) => {
    const stranger = spawn('sleep', ['600'], { env: {} });
    t.after(() => stranger.kill('SIGKILL'));
    const group = await makeGroup(t, { memoryMb: null, tasks: null });
    const found = await openBesides(group, stranger);
    assert.match(found, new RegExp(`^memory, pids, cpu: process ${stranger.pid}, .* set Delegate=yes`));
    const written = (name: string) => readFileSync(join(group.directories[0]!, name), 'utf8').trim();
    assert.deepEqual([written('cgroup.type'), written('cgroup.subtree_control')], ['domain', '']);
  },
);

/** Makes a tree like `/`, with a cgroup v2 group that holds `members`. Plain files: the kernel's checks are missing. */
function tree(t: TestContext, members: number[]): { root: string; own: string } {
  const root = temporaryDirectory(t);
  const own = join(root, 'sys/fs/cgroup/unit');
  mkdirSync(join(root, 'proc/self'), { recursive: true });
  mkdirSync(own, { recursive: true });
  writeFileSync(join(root, 'proc/self/cgroup'), '0::/unit\n');
  writeFileSync(join(own, 'cgroup.controllers'), 'cpu memory pids\n');
  writeFileSync(join(own, 'cgroup.subtree_control'), '');
  writeFileSync(join(own, 'cgroup.procs'), `${members.join('\n')}\n`);
  return { root, own };
}

test("a container's process limit is the lowest limit of this process's group and those above it", (t) => {
  const { root, own } = tree(t, []);
  assert.equal(mostTasks(root), null);
  writeFileSync(join(own, 'pids.max'), 'max\n');
  assert.equal(mostTasks(root), null);
  writeFileSync(join(dirname(own), 'cgroup.procs'), '');
  writeFileSync(join(dirname(own), 'pids.max'), '2048\n');
  assert.equal(mostTasks(root), 2048);
  writeFileSync(join(own, 'pids.max'), '1000\n');
  assert.equal(mostTasks(root), 1000);
  const version1 = temporaryDirectory(t);
  mkdirSync(join(version1, 'proc/self'), { recursive: true });
  mkdirSync(join(version1, 'sys/fs/cgroup/pids'), { recursive: true });
  writeFileSync(join(version1, 'proc/self/cgroup'), '8:pids:/outside/of/the/container\n0::/\n');
  writeFileSync(join(version1, 'sys/fs/cgroup/pids/cgroup.procs'), '');
  writeFileSync(join(version1, 'sys/fs/cgroup/pids/pids.max'), '512\n');
  assert.equal(mostTasks(version1), 512);
  assert.equal(mostTasks(temporaryDirectory(t)), null);
});

test('each of four concurrent builds gets a fifth of the processes that a container may have', () => {
  assert.equal(tasksOfBuild(null), 2048);
  assert.equal(tasksOfBuild(100_000), 2048);
  assert.equal(tasksOfBuild(2048), 409);
});

test('version 2: all limits are written to one directory, and read from there', async (t) => {
  const { root, own } = tree(t, []);
  const all = openControlGroups('cellar-x', root) as ControlGroups;
  assert.deepEqual(all.limits, { memory: true, tasks: true, processors: true });
  assert.equal(readFileSync(join(own, 'cgroup.subtree_control'), 'utf8'), '+cpu');
  const group = await all.create('one', { memoryMb: 2, tasks: 5 });
  const directory = join(own, 'cellar-x', 'one');
  const written = (name: string) => readFileSync(join(directory, name), 'utf8');
  assert.equal(written('memory.max'), String(2 * 2 ** 20));
  assert.equal(written('pids.max'), '5');
  assert.deepEqual(group.enter.slice(4), [directory]);
  writeFileSync(join(directory, 'memory.current'), '5000\n');
  writeFileSync(join(directory, 'memory.peak'), '7000\n');
  writeFileSync(join(directory, 'memory.stat'), 'anon 1\ninactive_file 1000\n');
  writeFileSync(join(directory, 'memory.events'), 'oom 4\noom_kill 3\n');
  writeFileSync(join(directory, 'pids.events'), 'max 2\n');
  assert.deepEqual(await group.state(), {
    memoryBytes: 4000,
    memoryPeakBytes: 7000,
    memoryKills: 3,
    killsFromAbove: 0,
    tasksRefused: 2,
  });
  // The group itself has not reached its limit (`oom 0`), so the kills were caused above it.
  writeFileSync(join(directory, 'memory.events'), 'oom 0\noom_kill 3\n');
  const { memoryKills, killsFromAbove } = await group.state();
  assert.deepEqual([memoryKills, killsFromAbove], [0, 3]);
  await group.limit({ memoryMb: null, tasks: null });
  assert.deepEqual([written('memory.max'), written('pids.max')], ['max', 'max']);
});

test('version 2: the low-priority group has the least weight, or is idle where the kernel supports that', async (t) => {
  const { root, own } = tree(t, []);
  const all = openControlGroups('cellar-x', root) as ControlGroups;
  assert.equal(readFileSync(join(own, 'cellar-x', 'cpu.weight'), 'utf8'), '1');
  writeFileSync(join(own, 'cellar-x', 'cpu.idle'), '0');
  openControlGroups('cellar-x', root);
  assert.equal(readFileSync(join(own, 'cellar-x', 'cpu.idle'), 'utf8'), '1');
  await all.background()!.add(12);
  assert.equal(readFileSync(join(own, 'cellar-x/background/cgroup.procs'), 'utf8'), '12');
  await all.background()!.release(12);
  assert.equal(readFileSync(join(own, 'cgroup.procs'), 'utf8'), '12');
});

test('version 2: the group of a cell lies beside those of builds, limits its memory and has its own low priority', async (t) => {
  const { root, own } = tree(t, []);
  const cells = openCellGroups('cellar-x', 100, root) as CellGroups;
  assert.ok(cells instanceof CellGroups, String(cells));
  cells.add(12, Promise.withResolvers().promise);
  const directory = join(own, 'cellar-x-cell-12');
  const written = (name: string) => {
    const path = join(directory, name);
    return existsSync(path) ? readFileSync(path, 'utf8') : null;
  };
  const deadline = AbortSignal.timeout(10_000);
  while (written('cgroup.procs') !== '12') await setTimeout(5, undefined, { signal: deadline });
  assert.equal(written('memory.max'), String(164 * 2 ** 20));
  assert.equal(await cells.setLowPriority(12, true), true);
  assert.equal(written('cpu.weight'), '1');
  assert.equal(await cells.setLowPriority(12, false), true);
  assert.equal(written('cpu.weight'), '100');
  assert.equal(await cells.setLowPriority(13, true), false);
});

test('version 2: without the cpu controller the memory of a cell is limited all the same', async (t) => {
  const { root, own } = tree(t, []);
  writeFileSync(join(own, 'cgroup.controllers'), 'memory pids\n');
  const all = openControlGroups('cellar-x', root) as ControlGroups;
  assert.deepEqual(all.limits, { memory: true, tasks: true, processors: false });
  assert.match(all.problems, /^cpu: /);
  const cells = openCellGroups('cellar-x', 100, root) as CellGroups;
  assert.ok(cells instanceof CellGroups, String(cells));
  cells.add(12, Promise.withResolvers().promise);
  assert.equal(await cells.setLowPriority(12, true), false);
  const limit = join(own, 'cellar-x-cell-12/memory.max');
  const isLimited = () => existsSync(limit) && readFileSync(limit, 'utf8') === String(164 * 2 ** 20);
  await eventually(isLimited, 'its memory is limited');
});

test('version 2: a released process returns to the group to which the host has moved', async (t) => {
  const { root, own } = tree(t, []);
  mkdirSync(join(own, 'cellar-host'));
  const all = openControlGroups('cellar-x', root) as ControlGroups;
  await all.background()!.release(12);
  assert.equal(readFileSync(join(own, 'cellar-host/cgroup.procs'), 'utf8'), '12');
});

test('without a control group the reason is given', (t) => {
  assert.match(
    String(openControlGroups('cellar-x', temporaryDirectory(t))),
    /memory, pids, cpu: .*no control group/,
  );
});
