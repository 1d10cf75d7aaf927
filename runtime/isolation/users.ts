// Machine users for apps when the host is root: one for an app's builds and one for its process. Neither user can
// read files of Cellar or other apps, nor reach processes of the other user.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { BUILD_UIDS } from '../../sqlite/host/build-users.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { directoriesOfUsers, type Layout, openToUsers } from '../disk/data-directory.ts';
import { runChild } from '../processes/child.ts';
import { findProgram } from '../processes/programs.ts';
import { warnOfWeakness } from './weakness.ts';

/** A user of the machine, with a group of its own. */
export interface User {
  uid: number;
  gid: number;
}

/** The users that run an app's builds and its process (`cell`); `null`: the host's own user. */
export interface AppUsers {
  build: User | null;
  cell: User | null;
}

/** A user without files, for probing what users can do. */
export const NOBODY: User = { uid: 65_534, gid: 65_534 };
const CLEAN = { PATH: '/usr/bin:/bin' };
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv', '/usr/local/bin/setpriv'];
/** Arguments of setpriv: the command gains no rights, and dies with its parent. */
const BOUND = ['--no-new-privs', '--pdeathsig', 'KILL', '--'];
/**
 * Capabilities that root keeps in the sandbox, because package installs unpack files of other owners. See capabilities(7).
 */
const RIGHTS_OVER_FILES = '-all,+chown,+dac_override,+fowner,+fsetid';
const PROBE_TIMEOUT_MS = 10_000;
/** Shell script: prints the first of its arguments that is a directory it cannot enter, or a file it cannot run. */
const PROBE =
  'for p; do if [ -d "$p" ]; then cd "$p"; else [ -x "$p" ]; fi 2>/dev/null || { echo "$p"; exit 1; }; done';
/** Capabilities that root needs to manage users, by number: see capabilities(7). */
const CAPABILITIES = {
  CAP_CHOWN: 0,
  CAP_DAC_OVERRIDE: 1,
  CAP_FOWNER: 3,
  CAP_KILL: 5,
  CAP_SETGID: 6,
  CAP_SETUID: 7,
};
/** Capability that root needs to drop rights for good, by number. */
const CAP_SETPCAP = 8;

/**
 * Returns the command prefix that runs a command as `user`: without other groups, and bound like all processes of an app.
 */
export function asUser({ uid, gid }: User): string[] {
  const user = ['--reuid', String(uid), '--regid', String(gid), '--clear-groups'];
  return [setpriv() ?? 'setpriv', ...user, ...BOUND];
}

/**
 * Returns the command prefix that runs a command as root with only its rights over files. It cannot change the machine, nor
 * reach processes with more rights.
 */
export function asConfinedRoot(): string[] {
  return [setpriv() ?? 'setpriv', '--inh-caps', '-all', '--bounding-set', RIGHTS_OVER_FILES, ...BOUND];
}

/** Whether `asConfinedRoot` drops capabilities. Without CAP_SETPCAP, `setpriv` silently keeps them all. */
export function canBindRoot(): boolean {
  return hasCapability(CAP_SETPCAP);
}

/** Runs a system command as `user`. @throws when it fails or times out */
export async function runAs(user: User, command: string[], timeoutMs: number): Promise<void> {
  await run([...asUser(user), ...command], timeoutMs);
}

/** Runs a system command. @throws when it fails or times out */
export async function run(command: string[], timeoutMs: number): Promise<void> {
  await runChild(command, { environment: CLEAN, timeoutMs });
}

let dying: string[] | undefined;

/** Returns the command prefix that makes the kernel kill a command with its parent; empty where `setpriv` cannot do that. */
export function dieWithParent(): string[] {
  if (dying === undefined) {
    const words = [setpriv() ?? 'setpriv', ...BOUND];
    const { status, error } = spawnSync(words[0]!, [...words.slice(1), '/bin/true']);
    // A failure for lack of descriptors or processes may be temporary.
    if (error !== undefined && (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    dying = status === 0 ? words : [];
  }
  return dying;
}

/**
 * Returns a function for the users of an app's builds and process. If apps cannot have users of their own here, these are
 * null, and a warning is logged.
 * @param uids the stored user ids of apps' builds
 * @param workerd path of the program that the processes run
 */
export function appUsers(
  paths: Layout,
  uids: HostStore['buildUsers'],
  workerd: string,
): { hasUsers: boolean; users: (appId: string) => AppUsers } {
  if (process.getuid?.() === 0) openToUsers(paths);
  const why = whyNoUsers([...directoriesOfUsers(paths), workerd]);
  if (why === null) {
    const users = (appId: string) => {
      const uid = uids.uid(appId);
      return { build: sameGroup(uid), cell: cellUser(uid) };
    };
    return { hasUsers: true, users };
  }
  warnOfWeakness("builds and apps share the host's own user", why, 'docs/security.md#apps');
  return { hasUsers: false, users: () => ({ build: null, cell: null }) };
}

/** Returns the ids of all users that apps were given so far: those of builds and of processes. */
export function allUids(uids: HostStore['buildUsers']): number[] {
  return uids.all().flatMap((uid) => [uid, cellUser(uid).uid]);
}

/**
 * Returns why apps cannot have users of their own on this machine, for the operator; `null` when they can.
 * @param paths directories to enter and programs to run, besides Node and npm
 */
export function whyNoUsers(paths: string[]): string | null {
  if (process.getuid?.() !== 0) return 'only root can run them as others';
  if (setpriv() === null) return `there is no ${SETPRIV[0]}; install util-linux`;
  const lacking = lackingCapability();
  if (lacking !== undefined) return `this root lacks ${lacking}`;
  const all = [...paths, process.execPath, findProgram('npm')].filter((path) => path !== null);
  const last = sameGroup(BUILD_UIDS.first + 2 * BUILD_UIDS.count - 1);
  if (!(['uid_map', 'gid_map'] as const).every((map) => isMapped(map, last.uid))) {
    return `this container has no user ${last.uid}; if it is rootless, give the user who runs it ${last.uid + 1} ids in /etc/subuid and /etc/subgid`;
  }
  const [file, ...words] = asUser(last);
  const probe = spawnSync(file!, [...words, 'sh', '-c', PROBE, 'sh', ...all], {
    cwd: '/',
    env: CLEAN,
    encoding: 'utf8',
    timeout: PROBE_TIMEOUT_MS,
  });
  if (probe.status === 0) return null;
  const path = probe.stdout?.trim();
  if (path) return `other users cannot reach ${path}: some directory above it is closed to them`;
  return `setpriv failed: ${probe.error?.message ?? probe.stderr.trim()}`;
}

/** Whether the user namespace of this process has an id. See user_namespaces(7). */
function isMapped(map: 'uid_map' | 'gid_map', id: number): boolean {
  const ranges = readFileSync(`/proc/self/${map}`, 'latin1').trim().split('\n');
  return ranges.some((range) => {
    const [first, , count] = range.trim().split(/\s+/).map(Number);
    return first! <= id && id < first! + count!;
  });
}

function lackingCapability(): string | undefined {
  return Object.entries(CAPABILITIES).find(([, number]) => !hasCapability(number))?.[0];
}

/** Whether this process has a capability, by its number. */
function hasCapability(number: number): boolean {
  const status = readFileSync('/proc/self/status', 'latin1');
  const effective = BigInt(`0x${/^CapEff:\t([0-9a-f]+)$/m.exec(status)![1]}`);
  return ((effective >> BigInt(number)) & 1n) === 1n;
}

/** Returns the user of the process of an app whose builds run as `uid`. */
function cellUser(uid: number): User {
  return sameGroup(uid + BUILD_UIDS.count);
}

function sameGroup(uid: number): User {
  return { uid, gid: uid };
}

function setpriv(): string | null {
  return SETPRIV.find((path) => existsSync(path)) ?? null;
}
