// The part of this machine that a build's commands see: the system's programs, Node, npm, and the build's own directories,
// each at its usual path, with nothing above them. No process but theirs, no file of anybody else's.
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
import { buildFilter, underFilter } from './seccomp.ts';
import { asBoundRoot, asUser, dieWithParent, type User } from './users.ts';

/** What one command sees besides the system. */
export interface View {
  /** Files and directories that it reads, by their own paths. Those that are not there are left out. */
  read: string[];
  /** Directories that it reads and writes, by their own paths. */
  write: string[];
  /** A directory of its own that takes the place of `/tmp` and `/var/tmp`. Empty. */
  temporary: string;
  /** Another, for `/dev/shm`. */
  shared: string;
  /** An empty directory of the host's, to put the view together in. */
  root: string;
  /** Where the command runs. */
  cwd: string;
}

/**
 * The words before a command that make it run as `user`, and see no more than `view`. They run with the host's rights:
 * give them no variables of an app's.
 */
export type Sandbox = (view: View, user: User | null) => string[];

/** One entry of a view. */
interface Entry {
  how: 'read' | 'write' | 'link';
  from: string;
  to: string;
}

const PROBE_TIMEOUT_MS = 20_000;
/** Directories of the system's that hold programs and what they need. Some are links to others. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];
/** What programs read of the system's configuration. The rest may hold secrets of the machine's owner. */
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
const DEVICES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((name) => `/dev/${name}`);
const DEVICE_LINKS = { fd: 'fd', stdin: 'fd/0', stdout: 'fd/1', stderr: 'fd/2' };
const MOUNT_OPTIONS = { read: 'bind,ro', write: 'bind,nosuid,nodev', device: 'bind' };

/**
 * The sandbox that this machine has for builds: root makes it with the system's own tools, others with bubblewrap.
 * @param view to try it in
 * @param user to try it as: `null` where builds run as the host's own user, else any other
 * @returns why there is none, for the operator, when there is none
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

/** Whether the kernel shares the processors out by sessions. */
export function weighsSessions(): boolean {
  try {
    return readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'latin1').trim() !== '0';
  } catch {
    return false;
  }
}

/**
 * The sandbox that needs no right but that of user namespaces. Where the kernel shares the processors out by sessions, each new
 * one would have as much as an app, and each may say how much its own has: so a build stays in one, and cannot write to `/proc`.
 */
function bubblewrap(view: View): string[] {
  const flags = { read: '--ro-bind', write: '--bind', link: '--symlink' };
  const filter = join(view.root, 'filter');
  writeFileSync(filter, buildFilter(weighsSessions()));
  return [
    ...['/bin/sh', '-c', 'exec "$@" 9< "$0"', filter],
    ...[findProgram('bwrap')!, '--seccomp', '9'],
    '--die-with-parent',
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    ...entries(view).flatMap(({ how, from, to }) => [flags[how], from, to]),
    '--remount-ro',
    '/proc',
    // Both are in memory, and bounded by nothing.
    '--remount-ro',
    '/dev',
    '--remount-ro',
    '/',
    '--chdir',
    view.cwd,
    '--',
  ];
}

/** The sandbox that root makes, in namespaces for mounts and processes. */
function ofRoot(view: View, user: User | null): string[] {
  return [
    ...dieWithParent(),
    '/usr/bin/unshare',
    '--mount',
    '--propagation=private',
    '--pid',
    '--ipc',
    '--fork',
    '--kill-child=KILL',
    '/bin/sh',
    '-c',
    rootScript(view, user !== null),
    'sh',
    ...(user === null ? asBoundRoot() : asUser(user)),
    ...underFilter(buildFilter(false)),
  ];
}

/**
 * Puts the view together in memory, goes to it for good, and runs its arguments. A shell stays, as the first process of
 * the namespace: it takes in orphans, and whatever is left ends with it. Docker's filter of system calls has no pivot_root:
 * there the view is moved over what was the root, and the first process goes to it too, so that no process of the namespace
 * has the old root. Whoever may unmount could still reach that, so root gets no such sandbox.
 * @param hasUser whether the arguments give up the rights of root
 */
function rootScript(view: View, hasUser: boolean): string {
  const { root, cwd } = view;
  const mounted = mountPoints();
  const all = entries(view).flatMap((entry) => [entry, ...mountsInside(entry, mounted)]);
  const links = [
    ...all.filter(({ how }) => how === 'link').map(({ from, to }) => [from, to]),
    ...Object.entries(DEVICE_LINKS).map(([name, target]) => [`/proc/self/${target}`, `/dev/${name}`]),
  ];
  const mounts = [
    ...all.flatMap(({ how, from, to }) =>
      how === 'link' ? [] : [{ from, to, options: MOUNT_OPTIONS[how] }],
    ),
    ...DEVICES.map((path) => ({ from: path, to: path, options: MOUNT_OPTIONS.device })),
  ];
  const isFile = (path: string) => !statSync(path).isDirectory();
  const files = mounts.filter(({ from }) => isFile(from)).map(({ to }) => to);
  const places = [...files.map((path) => dirname(path)), ...links.map(([, to]) => dirname(to!))];
  const inRoot = (paths: string[]) => [...new Set(paths)].map((path) => quote(root + path)).join(' ');
  // `mount` makes directories to mount on, and no files.
  const line = ({ from, to, options }: (typeof mounts)[number]) =>
    [field(from), field(root + to), 'none', isFile(from) ? options : `${options},X-mount.mkdir=755`].join(
      ' ',
    );
  const table = quote(`${root}/mounts`);
  const mountAll = (lines: string[]) =>
    `cat > ${table} << 'END'\n${lines.join('\n')}\nEND\nmount -n --all --fstab ${table}`;
  // Root by its uid alone changes settings of the kernel there.
  const procOptions = `${hasUser ? '' : 'ro,'}nosuid,nodev,noexec`;
  // First what other entries may lie in.
  const own = mounts.filter(({ from }) => from === view.temporary || from === view.shared);
  const others = mounts.filter((mount) => !own.includes(mount));
  return `set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mask=$(umask)
umask 022
mount -n -t tmpfs -o mode=755,size=4m,nosuid,nodev cellar ${quote(root)}
${mountAll(own.map(line))}
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

/** All that a view holds, outer directories before what lies in them. */
function entries(view: View): Entry[] {
  const all: Entry[] = [];
  const add = (how: Entry['how'], from: string, to = from) => {
    const requestQueues = ({ how: outer, to: path }: Entry) =>
      outer === how && `${to}/`.startsWith(`${path}/`);
    if (!all.some(requestQueues)) all.push({ how, from, to });
  };
  for (const path of SYSTEM.filter(existsSync)) {
    if (lstatSync(path).isSymbolicLink()) add('link', readlinkSync(path), path);
    else add('read', path);
  }
  add('write', view.temporary, '/tmp');
  add('write', view.temporary, '/var/tmp');
  add('write', view.shared, '/dev/shm');
  const more = [...CONFIGURATION, ...programs(), ...view.read];
  for (const path of more.filter((path) => isAbsolute(path))) {
    // A link is seen as what it leads to.
    const from = realpath(path);
    if (from !== null) add('read', from, path);
  }
  for (const path of view.write) all.push({ how: 'write', from: path, to: path });
  return all;
}

/**
 * What is mounted inside an entry that is read, which `mount` leaves out and bubblewrap takes along. A container is often given
 * a certificate, or a program, as a file that is mounted in a directory of the system's.
 */
function mountsInside({ how, from, to }: Entry, mounted: string[]): Entry[] {
  if (how !== 'read') return [];
  // What the host cannot reach, a FUSE mount of somebody else's, is left out.
  const inside = mounted.filter((point) => point.startsWith(`${from}/`) && existsSync(point));
  return inside.map((point) => ({ how, from: point, to: to + point.slice(from.length) }));
}

/** Node, and npm wherever it lies. */
function programs(): string[] {
  const npm = findProgram('npm');
  // `bin/npm` leads to `lib/node_modules/npm/bin/npm-cli.js`.
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

/** A field of fstab(5). */
function field(path: string): string {
  return path.replace(/[\s\\#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
}
