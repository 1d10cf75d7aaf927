// Ending the orphaned processes of builds and apps.
// Runs as root too.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  endProcesses,
  removeOrphanedFiles,
  stillRunningMessage,
} from '../../runtime/processes/orphaned-processes.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';
import { NEEDS_USERS } from '../support/users.ts';

/** The freezer of cgroup version 1: a frozen process ends only when it is thawed, like one that gets no CPU time. */
const FREEZER = '/sys/fs/cgroup/freezer';
const NEEDS_FREEZER =
  process.getuid?.() === 0 && existsSync(join(FREEZER, 'tasks')) && existsSync('/proc/self/autogroup')
    ? {}
    : { skip: 'it needs root, the freezer of control groups of version 1, and sessions with a weight' };

/** Freezes a process. @returns a function that thaws it */
function freeze(t: TestContext, pid: number): () => void {
  const group = join(FREEZER, `cellar-test-${process.pid}`);
  mkdirSync(group);
  const state = join(group, 'freezer.state');
  const letGo = () => writeFileSync(state, 'THAWED');
  t.after(async () => {
    letGo();
    await eventually(() => readFileSync(join(group, 'tasks'), 'utf8') === '', 'the process has gone');
    rmdirSync(group);
  });
  writeFileSync(join(group, 'tasks'), String(pid));
  writeFileSync(state, 'FROZEN');
  return letGo;
}

test(
  'a session with minimal CPU weight has the normal weight while its processes are ended',
  NEEDS_FREEZER,
  async (t) => {
    const directory = temporaryDirectory(t);
    const script = 'echo 19 > /proc/self/autogroup && echo begun && exec sleep 600';
    const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit'];
    const child = spawn('sh', ['-c', script], { cwd: directory, detached: true, stdio });
    const ended = once(child, 'exit');
    t.after(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    const session = () => readFileSync(`/proc/${child.pid}/autogroup`, 'utf8');
    assert.match(session(), / nice 19$/m);
    const letGo = freeze(t, child.pid!);
    const gone = endProcesses(null, directory);
    await eventually(() => / nice 0$/m.test(session()), 'the session has the weight of any other');
    letGo();
    await gone;
    assert.deepEqual(await ended, [null, 'SIGKILL']);
  },
);

test('a message about processes that do not end names a few of them', () => {
  assert.equal(stillRunningMessage([7]), 'a process was killed and does not end: 7');
  assert.equal(stillRunningMessage([7, 8]), '2 processes were killed and do not end: 7, 8');
  const many = Array.from({ length: 2_047 }, (_, n) => 1_000 + n);
  assert.equal(
    stillRunningMessage(many),
    '2047 processes were killed and do not end: 1000, 1001, 1002, 1003, 1004 and 2042 more',
  );
});

test(
  'the files of a user in world-writable directories are removed, and those of others stay',
  NEEDS_USERS,
  async (t) => {
    const [own, other] = [temporaryDirectory(t), temporaryDirectory(t)];
    const uid = 2_000_000_000 + process.pid;
    writeFileSync(join(own, 'file'), '');
    chownSync(own, uid, uid);
    await removeOrphanedFiles({ uid, gid: uid });
    assert.deepEqual([existsSync(own), existsSync(other)], [false, true]);
  },
);
