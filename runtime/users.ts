// The users of the machine that apps get when the host is root: one for an app's builds and one for its process, so that
// neither may read anything of Cellar's or of other apps, nor touch the other.
import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { BUILD_UIDS } from '../sqlite/host/build-users.ts';
import type { HostStore } from '../sqlite/host/index.ts';
import { findProgram } from './builds/environment.ts';
import { type Layout, openToUsers } from './data-directory.ts';
import { log } from './log.ts';

/** A user of the machine. Nobody else is in its group. */
export interface User {
  uid: number;
  gid: number;
}

/** Who runs what is an app's; `null`: the host's own user. */
export interface AppUsers {
  build: User | null;
  cell: User | null;
}

const execute = promisify(execFile);
const CLEAN = { PATH: '/usr/bin:/bin' };
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv', '/usr/local/bin/setpriv'];
/** Without a way to more rights, and not longer than this process. */
const BOUND = ['--no-new-privs', '--pdeathsig', 'KILL', '--'];
const PROBE_TIMEOUT_MS = 10_000;
/** Ends with the path it cannot enter or run. */
const PROBE =
  'cd "$1" 2>/dev/null || { echo "$1"; exit 1; }; for p; do [ -x "$p" ] || { echo "$p"; exit 1; }; done';
/** Files whose rights are changed before others get their turn. */
const ENTRIES_AT_ONCE = 256;
/** Rights to pass through a directory: its owner's and its group's, not to see what is in it. */
const PASSED_BY_GROUP = 0o710;

/**
 * The words before a command that make it run as `user`: without other groups, without a way to more rights, and
 * not longer than this process.
 */
export function asUser({ uid, gid }: User): string[] {
  const user = ['--reuid', String(uid), '--regid', String(gid), '--clear-groups'];
  return [setpriv() ?? 'setpriv', ...user, ...BOUND];
}

let dying: string[] | undefined;

/** The words before a command that make the kernel end it with this process, where `setpriv` can do that. */
export function dieWithParent(): string[] {
  if (dying === undefined) {
    const words = [setpriv() ?? 'setpriv', ...BOUND];
    dying = spawnSync(words[0]!, [...words.slice(1), '/bin/true']).status === 0 ? words : [];
  }
  return dying;
}

/**
 * Says which users an app's builds and process run as. Where this machine has none for them, the log has a warning.
 * @param uids the users that apps were given
 * @param workerd path of the program that the processes run
 */
export function appUsers(
  paths: Layout,
  uids: HostStore['buildUsers'],
  workerd: string,
): (appId: string) => AppUsers {
  if (process.getuid?.() === 0) openToUsers(paths);
  const why = whyNoUsers(paths.builds, [workerd]);
  if (why === null) {
    return (appId) => {
      const uid = uids.uid(appId);
      return { build: own(uid), cell: own(uid + BUILD_UIDS.count) };
    };
  }
  const what = "builds and apps run as the host's own user, and builds may read its data";
  log('warn', `${what}: deploy only code you trust`, { why });
  return () => ({ build: null, cell: null });
}

/**
 * Why apps cannot have users of their own on this machine, for the operator; `null` when they can.
 * @param directory that they must reach
 * @param more programs that they must be able to run, beside Node and npm
 */
export function whyNoUsers(directory: string, more: string[] = []): string | null {
  if (process.getuid?.() !== 0) return 'only root can run them as others';
  if (setpriv() === null) return `there is no ${SETPRIV[0]}; install util-linux`;
  const programs = [process.execPath, findProgram('npm'), ...more].filter((path) => path !== null);
  const last = own(BUILD_UIDS.first + 2 * BUILD_UIDS.count - 1);
  const [file, ...words] = asUser(last);
  const probe = spawnSync(file!, [...words, 'sh', '-c', PROBE, 'sh', directory, ...programs], {
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

/** Gives directories, with all that is in them, to a user. Those that are the user's already are left as they are. */
export async function handOver(directories: string[], { uid, gid }: User, timeoutMs: number): Promise<void> {
  const foreign = directories.filter((path) => statSync(path).uid !== uid);
  if (foreign.length === 0) return;
  // Of a symbolic link, the link itself.
  await execute('chown', ['-R', '-h', '-P', `${uid}:${gid}`, '--', ...foreign], {
    env: CLEAN,
    timeout: timeoutMs,
  });
}

/** Makes a directory of the host's, if it is missing, through which `user` may pass as well, and nobody else. */
export function makePassage(directory: string, user: User | null): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (user === null) return;
  const { uid, gid, mode } = statSync(directory);
  if (gid === user.gid && (mode & 0o777) === PASSED_BY_GROUP) return;
  chownSync(directory, uid, user.gid);
  chmodSync(directory, PASSED_BY_GROUP);
}

/** Makes a directory of `user`'s own, if it is missing, in one of the host's. */
export function makeOwn(directory: string, user: User | null): void {
  makePassage(dirname(directory), user);
  const made = mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (made !== undefined && user !== null) chownSync(directory, user.uid, user.gid);
}

/** Lets `user` read a directory of the host's with all that is in it. Nothing is done where it may already. */
export async function letRead(directory: string, user: User): Promise<void> {
  makePassage(dirname(directory), user);
  if (statSync(directory).gid === user.gid) return;
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  for (const [index, entry] of entries.entries()) {
    const mode = entry.isDirectory() ? 0o750 : 0o640;
    if (entry.isDirectory() || entry.isFile()) open(join(entry.parentPath, entry.name), mode, user);
    if (index % ENTRIES_AT_ONCE === 0) await setImmediate();
  }
  // Last of all: cut short, it is done again.
  open(directory, 0o750, user);
}

function open(path: string, mode: number, { gid }: User): void {
  chmodSync(path, mode);
  chownSync(path, statSync(path).uid, gid);
}

function own(uid: number): User {
  return { uid, gid: uid };
}

function setpriv(): string | null {
  return SETPRIV.find((path) => existsSync(path)) ?? null;
}
