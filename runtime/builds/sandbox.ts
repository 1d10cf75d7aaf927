// The users that builds run as when the host is root: one for each app, which may read nothing of Cellar's but the
// build's own directories and the app's cache.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import { BUILD_UIDS } from '../../sqlite/host/build-users.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { type Layout, openToBuilds } from '../data-directory.ts';
import { log } from '../log.ts';
import { findProgram } from './environment.ts';

/** The user of an app's builds. Nobody else is in its group. */
export interface BuildUser {
  uid: number;
  gid: number;
}

const execute = promisify(execFile);
const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'];
const PROBE_TIMEOUT_MS = 10_000;
/** Ends with the path it cannot enter or run. */
const PROBE =
  'cd "$1" 2>/dev/null || { echo "$1"; exit 1; }; for p; do [ -x "$p" ] || { echo "$p"; exit 1; }; done';

/**
 * The words before a command that make it run as `user`: without other groups, without a way to more rights, and
 * not longer than this process.
 */
export function asUser({ uid, gid }: BuildUser): string[] {
  const user = ['--reuid', String(uid), '--regid', String(gid), '--clear-groups'];
  return [setpriv() ?? 'setpriv', ...user, '--no-new-privs', '--pdeathsig', 'KILL', '--'];
}

/**
 * Says which user an app's builds run as; `null`, for which the log has a warning, where this machine has none for them.
 * @param uids the users that apps were given
 */
export function buildUsers(
  paths: Layout,
  uids: HostStore['buildUsers'],
): (appId: string) => BuildUser | null {
  if (process.getuid?.() === 0) openToBuilds(paths);
  const why = whyNoBuildUsers(paths.builds);
  if (why === null) {
    return (appId) => {
      const uid = uids.uid(appId);
      return { uid, gid: uid };
    };
  }
  log('warn', "builds run as the host's own user and may read its data: deploy only code you trust", { why });
  return () => null;
}

/**
 * Why builds cannot have users of their own on this machine, for the operator; `null` when they can.
 * @param builds the directory that all builds lie in
 */
export function whyNoBuildUsers(builds: string): string | null {
  if (process.getuid?.() !== 0) return 'only root can run them as others';
  if (setpriv() === null) return `there is no ${SETPRIV[0]}; install util-linux`;
  const uid = BUILD_UIDS.first + BUILD_UIDS.count - 1;
  const programs = [process.execPath, findProgram('npm')].filter((path) => path !== null);
  const [file, ...words] = asUser({ uid, gid: uid });
  const probe = spawnSync(file!, [...words, 'sh', '-c', PROBE, 'sh', builds, ...programs], {
    cwd: '/',
    env: { PATH: '/usr/bin:/bin' },
    encoding: 'utf8',
    timeout: PROBE_TIMEOUT_MS,
  });
  if (probe.status === 0) return null;
  const path = probe.stdout?.trim();
  if (path) return `other users cannot reach ${path}: some directory above it is closed to them`;
  return `setpriv failed: ${probe.error?.message ?? probe.stderr.trim()}`;
}

/** Gives directories, with all that is in them, to a user. Those that are the user's already are left as they are. */
export async function handOver(
  directories: string[],
  { uid, gid }: BuildUser,
  timeoutMs: number,
): Promise<void> {
  const foreign = directories.filter((path) => statSync(path).uid !== uid);
  if (foreign.length === 0) return;
  // Of a symbolic link, the link itself.
  await execute('chown', ['-R', '-h', '-P', `${uid}:${gid}`, '--', ...foreign], {
    env: { PATH: '/usr/bin:/bin' },
    timeout: timeoutMs,
  });
}

function setpriv(): string | null {
  return SETPRIV.find((path) => existsSync(path)) ?? null;
}
