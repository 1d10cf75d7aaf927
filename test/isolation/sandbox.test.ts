// The sandbox of builds when the host runs in a container. Bubblewrap stands for podman and Docker: it mounts
// files, and takes a filter of system calls.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { makeView } from '../../runtime/isolation/isolation.ts';
import { schedulesBySession } from '../../runtime/isolation/sandbox.ts';
import { ANSWERS, BPF, CALL, encodeFilter } from '../../runtime/isolation/seccomp.ts';
import { asUser, NOBODY, type User } from '../../runtime/isolation/users.ts';
import { findProgram } from '../../runtime/processes/programs.ts';
import { NEEDS_SANDBOX } from '../support/sandbox.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const isRoot = process.getuid?.() === 0;
const NEEDS_CONTAINER =
  isRoot && findProgram('bwrap') !== null ? NEEDS_SANDBOX : { skip: 'it needs root, and bubblewrap' };
const module = (name: string) =>
  JSON.stringify(fileURLToPath(new URL(`../../runtime/isolation/${name}.ts`, import.meta.url)));
/** A program that finds a sandbox and runs a command in it as a user. Without a sandbox, it prints the reason. */
const FIND_AND_RUN = `
import { spawnSync } from 'node:child_process';
import { findSandbox } from ${module('sandbox')};
const { probe, view, user, command } = JSON.parse(process.argv[1]);
const sandbox = await findSandbox(probe, user);
const [file, ...words] = typeof sandbox === 'string' ? ['echo', 'none:', sandbox] : [...sandbox(view, user), ...command];
process.exitCode = spawnSync(file, words, { cwd: '/', stdio: 'inherit' }).status;
`;
/** Opens the isolation of a host whose apps have no users, and prints whether builds have a sandbox. */
const PUT_UP = `
import { Isolation } from ${module('isolation')};
const walls = new Isolation('cellar-in-container');
await walls.open(null, JSON.parse(process.argv[1]), async () => [], { egress: [], ownPorts: [], proxies: [], openPorts: [] });
console.log(await walls.sandbox() === null ? 'no sandbox' : 'a sandbox');
await walls.close();
`;
/** The system call numbers of pivot_root(2). */
const PIVOT_ROOT = { x64: 155, arm64: 41 }[process.arch as string];

/** Returns a seccomp(2) filter in which the system call with this number fails with ENOSYS, as in Docker's own filter. */
function filterWithout(number: number): Buffer {
  return encodeFilter([
    [BPF.load, 0, 0, CALL.number],
    [BPF.isEqual, 0, 1, number],
    [BPF.answer, 0, 0, ANSWERS.error(38)],
    [BPF.answer, 0, 0, ANSWERS.allow],
  ]);
}

/** The container that a host runs in. */
interface Container {
  /** Flags of bubblewrap. */
  flags?: string[];
  filter?: Buffer;
  /** The user of the host; absent: root. */
  host?: User;
  /** A capability that root lacks in the container, named as in setpriv(1). */
  lacks?: string;
}

/** Runs a Node script in a container, with one argument. @returns its output */
function runInContainer(t: TestContext, container: Container, script: string, argument: unknown): string {
  const { flags = [], filter, host, lacks } = container;
  const filterPath = join(temporaryDirectory(t), 'filter');
  writeFileSync(filterPath, filter ?? '');
  const descriptor = openSync(filterPath, 'r');
  t.after(() => closeSync(descriptor));
  const base = ['--bind', '/', '/', '--dev-bind', '/dev', '/dev', '--cap-add', 'ALL'];
  const seccomp = filter ? ['--seccomp', '3'] : [];
  const node = [process.execPath, '--input-type=module', '-e', script, JSON.stringify(argument)];
  const without = lacks ? ['setpriv', '--bounding-set', `-${lacks}`] : [];
  const words = [...base, ...flags, ...seccomp, '--', ...without, ...(host ? asUser(host) : []), ...node];
  const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe', descriptor];
  const { status, stdout, stderr } = spawnSync('bwrap', words, { stdio, encoding: 'utf8', timeout: 60_000 });
  assert.equal(status, 0, stderr);
  return stdout;
}

interface Build {
  /** The user of the command; `null`: the user of the host. */
  user: User | null;
  read?: string[];
  apartMb?: number;
  command: string[];
}

/** Runs a command in the sandbox of a host in this container. @returns its output */
function runInSandbox(
  t: TestContext,
  container: Container,
  { user, read = [], command, ...apart }: Build,
): string {
  const scratch = temporaryDirectory(t);
  const probe = makeView(join(scratch, 'probe'));
  const view = { ...makeView(join(scratch, 'own')), read, cwd: '/tmp', ...apart };
  if (container.host) execFileSync('chown', ['-R', `${container.host.uid}:${container.host.gid}`, scratch]);
  if (user) for (const path of [view.temporary, view.shared]) chownSync(path, user.uid, user.gid);
  return runInContainer(t, container, FIND_AND_RUN, { probe, view, user, command });
}

test('a file mounted in a directory of a build shows the mounted content', NEEDS_CONTAINER, (t) => {
  const outside = temporaryDirectory(t);
  const mounted = join(temporaryDirectory(t), 'certificates');
  mkdirSync(mounted);
  writeFileSync(join(outside, 'company.crt'), 'the certificate');
  const path = join(mounted, 'company crt');
  writeFileSync(path, '');
  const flags = ['--ro-bind', join(outside, 'company.crt'), path];
  const command = ['sh', '-c', 'cat "$0"; echo > "$0" || echo " is read-only"', path];
  const printed = runInSandbox(t, { flags }, { user: NOBODY, read: [mounted], command });
  assert.equal(printed, 'the certificate is read-only\n');
});

// The allocator of older versions of workerd aborts without these files.
test('a build reads the numbers of the processors, and nothing else of /sys', NEEDS_CONTAINER, (t) => {
  const numbers = ['possible', 'online'].map((name) => `/sys/devices/system/cpu/${name}`);
  const command = ['sh', '-c', 'find /sys -type f | sort -r; cat "$@"', 'sh', ...numbers];
  const wanted = [...numbers, ...numbers.map((path) => readFileSync(path, 'utf8').trim()), ''].join('\n');
  for (const apart of [{}, { apartMb: 16 }]) {
    assert.equal(runInSandbox(t, {}, { user: NOBODY, ...apart, command }), wanted);
    assert.equal(runInSandbox(t, { host: NOBODY }, { user: null, ...apart, command }), wanted);
  }
});

test(
  'an ordinary user has a sandbox even with a mount in a directory that the user may not enter',
  NEEDS_CONTAINER,
  (t) => {
    const seen = temporaryDirectory(t);
    chmodSync(seen, 0o755);
    const closed = join(seen, 'closed');
    mkdirSync(join(closed, 'mounted'), { recursive: true });
    chmodSync(closed, 0o700);
    writeFileSync(join(seen, 'file'), 'seen');
    const flags = ['--tmpfs', join(closed, 'mounted')];
    const build = { user: null, read: [seen], command: ['cat', join(seen, 'file')] };
    assert.equal(runInSandbox(t, { flags, host: NOBODY }, build), 'seen');
  },
);

test(
  'a build of an ordinary user stays in one session, whose CPU weight it cannot change',
  NEEDS_CONTAINER,
  (t) => {
    if (!schedulesBySession()) return t.skip('the kernel does not share the processors out by sessions');
    // Inside the sandbox, a session that was started outside has the number 0.
    const tries = `setsid sh -c 'read -r pid name state parent group session rest < /proc/self/stat; echo "$session"'
      for f in autogroup oom_score_adj; do { echo 0 > /proc/self/$f; } 2> /dev/null && echo "wrote $f"; done
      unshare --user --mount sh -c 'mount -o remount,rw /proc; echo 0 > /proc/self/oom_score_adj' 2> /dev/null && echo 'wrote again'
      echo done`;
    const build = { user: null, command: ['sh', '-c', tries] };
    assert.equal(runInSandbox(t, { host: NOBODY }, build), '0\ndone\n');
  },
);

const NEEDS_FILTER =
  PIVOT_ROOT === undefined ? { skip: 'the number of pivot_root is not known here' } : NEEDS_CONTAINER;

test('without pivot_root, a build with a user has a sandbox all the same', NEEDS_FILTER, (t) => {
  const outside = temporaryDirectory(t);
  chmodSync(outside, 0o755);
  // Node is visible in every sandbox, and on this machine its directory may be in `/tmp`.
  const [, top, ofNode = ''] = process.execPath.split('/');
  const own = top === 'tmp' ? ofNode : '';
  const tries = `pwd; id -u; ls -d ${outside} /root /../../root 2>/dev/null; ls -A /tmp | grep -cvxF '${own}'
      ls -d /proc/1/root/ /proc/1/cwd/ /proc/1/fd/* /proc/1/task/1/root/ 2>/dev/null
      nsenter --target 1 --mount ls -d ${outside} 2>/dev/null
      unshare --user --map-root-user --mount sh -c 'umount -l / ; ls -d /root ${outside}' 2>/dev/null
      unshare --user --map-root-user nsenter --root=/usr --wd=/ bin/ls -d ../../..${outside} 2>/dev/null; echo done`;
  const build = { user: NOBODY, command: ['sh', '-c', tries] };
  const printed = runInSandbox(t, { filter: filterWithout(PIVOT_ROOT!) }, build);
  assert.equal(printed, '/tmp\n65534\n0\ndone\n');
});

test('without pivot_root, a build that is root has no sandbox', NEEDS_FILTER, (t) => {
  const container = { filter: filterWithout(PIVOT_ROOT!) };
  const command = ['cat', '/proc/1/root/etc/hostname'];
  assert.match(runInSandbox(t, container, { user: null, command }), /^none: .*pivot_root/);
  const printed = runInContainer(t, container, PUT_UP, temporaryDirectory(t));
  assert.match(printed, /warn {2}builds see this machine's files and processes/);
  assert.match(printed, /^no sandbox$/m);
});

test('without pivot_root, no process of a sandbox has the old root', NEEDS_FILTER, (t) => {
  const outside = temporaryDirectory(t);
  // Only root may read `/proc/1/root`.
  const user = { uid: 0, gid: 0 };
  const command = [
    'sh',
    '-c',
    `ls -d /proc/1/root/tmp /proc/1/root${outside} /proc/1/cwd/../root 2>/dev/null; echo done`,
  ];
  const printed = runInSandbox(t, { filter: filterWithout(PIVOT_ROOT!) }, { user, command });
  assert.equal(printed, '/proc/1/root/tmp\ndone\n');
});

test(
  'a build that is root finds nothing of the host through the first process of its sandbox',
  NEEDS_CONTAINER,
  (t) => {
    const outside = temporaryDirectory(t);
    const command = [
      'sh',
      '-c',
      `id -u; ls -d /proc/1/root/tmp /proc/1/root${outside} 2>/dev/null; echo done`,
    ];
    assert.equal(runInSandbox(t, {}, { user: null, command }), '0\ndone\n');
  },
);

test('a build that is root has no capabilities over the machine', NEEDS_CONTAINER, (t) => {
  const tries = `grep -E 'CapPrm|CapEff|CapBnd|NoNewPrivs' /proc/self/status
    mount -t tmpfs none /tmp 2> /dev/null && echo mounted
    mknod /tmp/device c 1 3 2> /dev/null && echo 'made a device'
    { true >> /proc/sys/kernel/core_pattern; } 2> /dev/null && echo 'changed a setting'
    touch /tmp/file; chown 4321 /tmp/file; stat -c %u /tmp/file`;
  const printed = runInSandbox(t, {}, { user: null, command: ['sh', '-c', tries] });
  const rights = '000000000000001b';
  assert.equal(printed, `CapPrm:\t${rights}\nCapEff:\t${rights}\nCapBnd:\t${rights}\nNoNewPrivs:\t1\n4321\n`);
});

test('a host that cannot drop capabilities of builds that are root says so', NEEDS_CONTAINER, (t) => {
  const warning = /warn {2}builds keep root's capabilities in their sandbox: .*CAP_SETPCAP/;
  const putUp = (container: Container) => runInContainer(t, container, PUT_UP, temporaryDirectory(t));
  const printed = putUp({ lacks: 'setpcap' });
  assert.match(printed, warning);
  assert.match(printed, /^a sandbox$/m);
  assert.doesNotMatch(putUp({}), warning);
});
