// Ends orphaned processes of builds and apps: daemons that have left their process group, and the builds and apps of a
// killed host. Removes orphaned files of builds.
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { someOf } from '../../handlers/contract/text.ts';
import type * as orphans from '../disk/orphaned-files.ts';
import { runAs, type User } from '../isolation/users.ts';
import { log, reason } from '../log.ts';
import { threads } from '../threads/worker.ts';
import { killProcesses as killProcessesNow } from './proc.ts';
import { killProcesses } from './processes.ts';

/** Timeout for killed processes to be gone, in ms. Two thousand processes take a second or two on busy processors. */
const GONE_TIMEOUT_MS = 20_000;
const GONE_POLL_MS = 5;
/** Timeout of the kill command, in ms. */
const KILL_TIMEOUT_MS = 2_000;
const ORPHANS = new URL('../disk/orphaned-files.ts', import.meta.url);
/** Timeout for removing the orphaned files of a build, in ms. */
const ORPHANS_TIMEOUT_MS = 60_000;
/** Maximum remaining processes that one call of `hasten` tries. */
const HASTENED_BY = 10;
/** Directories that every user of a machine may write to. */
const OPEN_DIRECTORIES = ['/tmp', '/var/tmp', '/dev/shm'];

/**
 * Kills the builds and apps of a host that was killed. Call it at boot, before any of their files are removed.
 * @param builds the directory of all builds
 * @param uids the users of builds and apps
 */
export function endOrphanedProcesses(builds: string, uids: number[]): void {
  for (const pid of killProcessesNow(builds, uids))
    log('warn', 'killed a process that a build or an app left behind', { pid });
}

/**
 * Ends every process of a user and of a build's directory, and waits until they are gone.
 * @param directory of the build, which identifies the processes of a build without its own user. `null`: not a build
 * @throws {Error} when a process does not end within 20 s
 */
export async function endProcesses(user: User | null, directory: string | null): Promise<void> {
  const uids = user === null ? [] : [user.uid];
  // Kills all at once, so that a process that forks faster than we list processes cannot escape. The kill command runs as
  // `user`, whose processes may end it first. So the loop below kills again.
  if (user !== null) await runAs(user, ['sh', '-c', 'kill -KILL -1; true'], KILL_TIMEOUT_MS).catch(() => {});
  const deadline = performance.now() + GONE_TIMEOUT_MS;
  while (true) {
    const left = await killProcesses(directory, uids);
    if (left.length === 0) return;
    if (performance.now() > deadline) throw new Error(stillRunningMessage(left));
    await hasten(left);
    await sleep(GONE_POLL_MS);
  }
}

/** Returns the message that these processes do not end. Pass at least one. */
export function stillRunningMessage(pids: number[]): string {
  const which = someOf(pids);
  return pids.length === 1
    ? `a process was killed and does not end: ${which}`
    : `${pids.length} processes were killed and do not end: ${which}`;
}

/** Ends every process of an app's user and waits until they are gone, 20 s at most. Logs those that remain. */
export async function endProcessesOf(user: User): Promise<void> {
  await endProcesses(user, null).catch((error: unknown) =>
    log('warn', 'processes of the user of an app could not be ended', {
      uid: user.uid,
      error: reason(error),
    }),
  );
}

/** Removes the files that a build left in world-writable directories. All its processes must have ended. Never rejects. */
export async function removeOrphanedFiles({ uid }: User): Promise<void> {
  await threads
    .run<typeof orphans.removeOrphanedFiles>(ORPHANS, 'removeOrphanedFiles', [OPEN_DIRECTORIES, uid], {
      deadlineMs: ORPHANS_TIMEOUT_MS,
    })
    .catch((error: unknown) =>
      log('warn', 'files of a build could not be removed', { uid, error: reason(error) }),
    );
}

/**
 * Gives the session of killed processes the normal weight, where the kernel weighs sessions (autogroup). A process needs CPU
 * time to end, and a build's session gets almost none on busy processors: two thousand processes took over a minute.
 */
async function hasten(pids: number[]): Promise<void> {
  // The processes that started last mostly end last.
  for (const pid of pids.slice(-HASTENED_BY).reverse()) {
    const session = `/proc/${pid}/autogroup`;
    try {
      if (!(await readFile(session, 'latin1')).endsWith(' nice 0\n')) await writeFile(session, '0');
      return;
    } catch (error) {
      // The kernel allows ordinary users together one such change per 100 ms. The next call tries again.
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return;
      // The process has ended, or is ending: root then owns its files in `/proc`. The next one may have the same session.
    }
  }
}
