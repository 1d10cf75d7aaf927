// The build sandbox: a command sees the system's programs, Node, npm, and the build's own directories, each at its usual
// path. It sees no parent directories, no other processes and no other files.
import {
  existsSync,
  lstatSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { runChild } from '../processes/child.ts';
import { findProgram } from '../processes/programs.ts';
import { quote } from '../processes/shell.ts';
import { mountPoints } from './mount-points.ts';
import { buildFilter, PERL, underFilter } from './seccomp.ts';
import { asConfinedRoot, asUser, dieWithParent, type User } from './users.ts';

/** The files and directories that one command sees besides the system's. */
export interface View {
  /** Read-only files and directories, at their own paths. Missing ones are skipped. */
  read: string[];
  /** Writable directories, at their own paths. */
  write: string[];
  /** An empty directory, mounted as `/tmp` and `/var/tmp` unless `apartMb` is given. */
  temporary: string;
  /** Another empty directory, mounted as `/dev/shm` unless `apartMb` is given. */
  shared: string;
  /** An empty directory of the host, the mount point of the view. */
  root: string;
  /** The working directory. */
  cwd: string;
  /**
   * Given for a command that gets a network of its own, with only loopback. It sees no network configuration of this
   * machine, and `/tmp` and `/dev/shm` are in memory, each with this limit in MiB.
   */
  apartMb?: number;
}

/**
 * Returns the command prefix that runs a command as `user` inside `view`. The prefix runs with the host's rights: pass it no
 * variables of an app.
 */
export type Sandbox = (view: View, user: User | null) => string[];

interface Entry {
  how: 'read' | 'kernel' | 'write' | 'link' | 'memory';
  from: string;
  to: string;
}

const PROBE_TIMEOUT_MS = 20_000;
/** System directories with programs and their libraries. Some are symbolic links. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];
/** Files with the numbers of the CPUs. Memory allocators read them: without them, workerd versions of 2024 abort. */
const PROCESSORS = ['possible', 'online'].map((name) => `/sys/devices/system/cpu/${name}`);
/** System configuration that programs read. The rest may hold secrets of the machine's owner. */
const CONFIGURATION = [
  'alternatives',
  'ca-certificates',
  'crypto-policies',
  'fonts',
  'group',
  'host.conf',
  'hosts',
  'ld.so.cache',
  'localtime',
  'mime.types',
  'nsswitch.conf',
  'os-release',
  'passwd',
  'pki',
  'protocols',
  'resolv.conf',
  'services',
  'ssl',
].map((name) => `/etc/${name}`);
/** The part of `CONFIGURATION` for a command without this machine's network. */
const CONFIGURATION_APART = ['alternatives', 'fonts', 'ld.so.cache', 'localtime', 'mime.types', 'ssl'].map(
  (name) => `/etc/${name}`,
);
/** Brings loopback up in a new network namespace (SIOCSIFFLAGS with IFF_UP and IFF_RUNNING); see netdevice(7). */
const LOOPBACK_UP = `socket(my $socket, 2, 2, 0) or die "socket: $!\n";
my $request = pack('a16 s x22', 'lo', 0x41);
ioctl($socket, 0x8914, $request) or die "loopback cannot be set up: $!\n";`;
const DEVICES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((name) => `/dev/${name}`);
const DEVICE_LINKS = { fd: 'fd', stdin: 'fd/0', stdout: 'fd/1', stderr: 'fd/2' };
const MOUNT_OPTIONS = {
  read: 'bind,ro',
  // In a container, `/sys` may have these options locked. Then a mount without them fails.
  kernel: 'bind,ro,nosuid,nodev,noexec',
  write: 'bind,nosuid,nodev',
  device: 'bind',
};

/**
 * Finds the build sandbox of this machine: root uses the system's own tools, other users bubblewrap.
 * @param view for the probe
 * @param user for the probe: `null` where builds run as the host's own user, else any other user
 * @returns the sandbox; if there is none, the reason as text for the operator
 */
export async function findSandbox(view: View, user: User | null): Promise<Sandbox | string> {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot && findProgram('bwrap') === null) return 'there is no bwrap; install bubblewrap';
  const sandbox = isRoot ? ofRoot : bubblewrap;
  const words = [...sandbox(view, user), process.execPath, '--version'];
  try {
    await runChild(words, { title: isRoot ? 'unshare' : 'bwrap', timeoutMs: PROBE_TIMEOUT_MS });
    return sandbox;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether the kernel divides CPU time first among sessions, then among the processes of each (autogroup, see sched(7)). */
export function schedulesBySession(): boolean {
  try {
    return readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'latin1').trim() !== '0';
  } catch {
    return false;
  }
}

/**
 * Returns the prefix of the sandbox that needs only user namespaces. Where the kernel shares CPU time between sessions, each
 * new session would get as much as an app, and could set its own weight in `/proc`. So a build stays in one session, and
 * cannot write to `/proc`.
 */
function bubblewrap(view: View): string[] {
  const flags = { read: '--ro-bind', kernel: '--ro-bind', write: '--bind', link: '--symlink' };
  const filter = join(view.root, 'filter');
  writeFileSync(filter, buildFilter(schedulesBySession()));
  return [
    ...['/bin/sh', '-c', 'exec "$@" 9< "$0"', filter],
    ...[findProgram('bwrap')!, '--seccomp', '9'],
    '--die-with-parent',
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    ...(view.apartMb === undefined ? [] : ['--unshare-net']),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    ...entries(view).flatMap(({ how, from, to }) =>
      how === 'memory' ? ['--size', String(view.apartMb! * 2 ** 20), '--tmpfs', to] : [flags[how], from, to],
    ),
    '--remount-ro',
    '/proc',
    // `/dev` and `/` are in memory without a size limit, so they become read-only.
    '--remount-ro',
    '/dev',
    '--remount-ro',
    '/',
    '--chdir',
    view.cwd,
    '--',
  ];
}

/** Returns the prefix of root's sandbox, in mount and process namespaces. */
function ofRoot(view: View, user: User | null): string[] {
  return [
    ...dieWithParent(),
    '/usr/bin/unshare',
    '--mount',
    '--propagation=private',
    '--pid',
    '--ipc',
    ...(view.apartMb === undefined ? [] : ['--net']),
    '--fork',
    '--kill-child=KILL',
    '/bin/sh',
    '-c',
    rootScript(view, user !== null),
    'sh',
    ...(user === null ? asConfinedRoot() : asUser(user)),
    ...underFilter(buildFilter(false)),
  ];
}

/**
 * Returns the script that mounts the view in memory, makes it the root directory, and runs its arguments. A shell stays as
 * the first process of the namespace: it adopts orphans, and all processes end with it. Docker's system call filter forbids
 * pivot_root. There the view is moved over the old root, and the first process enters it too, so that no process keeps the
 * old root. A process that may unmount could still reach it, so root gets no such sandbox.
 * @param hasUser whether the arguments give up the rights of root
 */
function rootScript(view: View, hasUser: boolean): string {
  const { root, cwd, apartMb } = view;
  const mounted = mountPoints();
  const all = entries(view).flatMap((entry) => [entry, ...mountsInside(entry, mounted)]);
  const links = [
    ...all.filter(({ how }) => how === 'link').map(({ from, to }) => [from, to]),
    ...Object.entries(DEVICE_LINKS).map(([name, target]) => [`/proc/self/${target}`, `/dev/${name}`]),
  ];
  const mounts = [
    ...all.flatMap(({ how, from, to }) =>
      how === 'link' || how === 'memory' ? [] : [{ from, to, options: MOUNT_OPTIONS[how] }],
    ),
    ...DEVICES.map((path) => ({ from: path, to: path, options: MOUNT_OPTIONS.device })),
  ];
  const isFile = (path: string) => !statSync(path).isDirectory();
  const files = mounts.filter(({ from }) => isFile(from)).map(({ to }) => to);
  const places = [...files.map((path) => dirname(path)), ...links.map(([, to]) => dirname(to!))];
  const inRoot = (paths: string[]) => [...new Set(paths)].map((path) => quote(root + path)).join(' ');
  // `mount` creates missing directories, but not files.
  const line = ({ from, to, options }: (typeof mounts)[number]) =>
    [field(from), field(root + to), 'none', isFile(from) ? options : `${options},X-mount.mkdir=755`].join(
      ' ',
    );
  const table = quote(`${root}/mounts`);
  const mountAll = (lines: string[]) =>
    `cat > ${table} << 'END'\n${lines.join('\n')}\nEND\nmount -n --all --fstab ${table}`;
  // Read-only for root: a process with root's uid could change kernel settings in `/proc`.
  const procOptions = `${hasUser ? '' : 'ro,'}nosuid,nodev,noexec`;
  // These are mounted first, because other entries may be inside them.
  const own = mounts.filter(({ from }) => from === view.temporary || from === view.shared);
  const inMemory = all.filter(({ how }) => how === 'memory').map(({ to }) => quote(root + to));
  const memory = inMemory.map(
    (path) => `mkdir -p ${path}; mount -n -t tmpfs -o mode=1777,size=${apartMb}m,nosuid,nodev cellar ${path}`,
  );
  const others = mounts.filter((mount) => !own.includes(mount));
  return `set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mask=$(umask)
umask 022
mount -n -t tmpfs -o mode=755,size=4m,nosuid,nodev cellar ${quote(root)}
${apartMb === undefined ? '' : `${PERL} -e ${quote(LOOPBACK_UP)}`}
${mountAll(own.map(line))}
${memory.join('\n')}
mkdir -p ${inRoot(['/proc', ...places])}
touch ${inRoot(files)}
${links.map(([from, to]) => `ln -s ${quote(from!)} ${quote(root + to!)}`).join('\n')}
${mountAll([...others.map(line), `proc ${field(`${root}/proc`)} proc ${procOptions}`])}
rm ${table}
mount -n -o remount,ro,nosuid,nodev ${quote(root)}
cd ${quote(root)}
set -- /bin/sh -euc 'umask "$0"; cd "$1"; shift; "$@"; exit $?' "$mask" ${quote(cwd)} "$@"
${hasUser ? 'pivot_root . . 2> /dev/null || { mount -n --move . /; exec chroot . "$@"; }' : 'pivot_root . .'}
umount -n -l .
exec "$@"`;
}

/** Returns a view's entries in the order of mounting. Leaves out read-only ones inside an earlier read-only entry. */
function entries(view: View): Entry[] {
  const all: Entry[] = [];
  const add = (how: Entry['how'], from: string, to = from) => {
    const covers = ({ how: outer, to: path }: Entry) => outer === how && `${to}/`.startsWith(`${path}/`);
    if (!all.some(covers)) all.push({ how, from, to });
  };
  for (const path of SYSTEM.filter(existsSync)) {
    if (lstatSync(path).isSymbolicLink()) add('link', readlinkSync(path), path);
    else add('read', path);
  }
  for (const path of PROCESSORS.filter(existsSync)) add('kernel', path);
  if (view.apartMb === undefined) {
    add('write', view.temporary, '/tmp');
    add('write', view.temporary, '/var/tmp');
    add('write', view.shared, '/dev/shm');
  } else for (const to of ['/tmp', '/dev/shm']) all.push({ how: 'memory', from: to, to });
  const more =
    view.apartMb === undefined
      ? [...CONFIGURATION, ...programs(), ...view.read]
      : [...CONFIGURATION_APART, dirname(process.execPath), ...view.read];
  for (const path of more.filter((path) => isAbsolute(path))) {
    // The target of a symbolic link is mounted at the link's path.
    const from = realpath(path);
    if (from !== null) add('read', from, path);
  }
  for (const path of view.write) all.push({ how: 'write', from: path, to: path });
  return all;
}

/**
 * Returns the mounts inside a read-only entry, which `mount` skips and bubblewrap includes. Containers often get a
 * certificate or a program as a file mounted in a system directory.
 */
function mountsInside({ how, from, to }: Entry, mounted: string[]): Entry[] {
  if (how !== 'read') return [];
  // Skips mounts that the host cannot reach, such as another user's FUSE mount.
  const inside = mounted.filter((point) => point.startsWith(`${from}/`) && existsSync(point));
  return inside.map((point) => ({ how, from: point, to: to + point.slice(from.length) }));
}

/** Returns the directories of Node and npm. */
function programs(): string[] {
  const npm = findProgram('npm');
  // `bin/npm` links to `lib/node_modules/npm/bin/npm-cli.js`.
  const ofNpm = npm === null ? [] : [dirname(npm), dirname(dirname(realpathSync(npm)))];
  return [dirname(process.execPath), ...ofNpm];
}

function realpath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

/** Escapes a field of fstab(5). */
function field(path: string): string {
  return path.replace(/[\s\\#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
}
