// Ends what builds and apps left running, daemons in sessions of their own and what a killed host left, and removes what
// builds left lying about.
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type * as litter from '../disk/orphaned-files.ts';
import { runAs, type User } from '../isolation/users.ts';
import { log, reason } from '../log.ts';
import { threads } from '../threads/worker.ts';
import { killProcesses as killProcessesNow } from './proc.ts';
import { killProcesses } from './processes.ts';

/** Longest wait for killed processes to be gone, in ms. Two thousand take a second or two beside busy processors. */
const GONE_TIMEOUT_MS = 20_000;
const GONE_POLL_MS = 5;
/** Longest run of the command that kills, in ms. */
const KILL_TIMEOUT_MS = 2_000;
const LITTER = new URL('../disk/orphaned-files.ts', import.meta.url);
/** Longest time for removing what a build left, in ms. */
const LITTER_TIMEOUT_MS = 60_000;
/** By so many of the processes that are left their session is looked for. */
const HASTENED_BY = 10;
/** So many process ids are named where some do not end. */
const NAMED_PIDS = 5;
/** Where every user of a machine may write. */
const OPEN_DIRECTORIES = ['/tmp', '/var/tmp', '/dev/shm'];

/**
 * Kills what builds and apps of a host that was killed left. Call it at boot, before anything of theirs is removed.
 * @param builds the directory of all builds
 * @param uids the users of builds and apps
 */
export function endOrphanedProcesses(builds: string, uids: number[]): void {
  for (const pid of killProcessesNow(builds, uids))
    log('warn', 'killed a process that a build or an app left behind', { pid });
}

/**
 * Ends every process of a user, and those that a build's directory tells, and waits until they are gone.
 * @param directory of the build: without a user of its own, its processes are known by it. `null` for what is no build
 * @throws {Error} when one does not go
 */
export async function endProcesses(user: User | null, directory: string | null): Promise<void> {
  const uids = user === null ? [] : [user.uid];
  // All at one moment: whatever forks faster than a list of processes is read does not get away. As that user, who may
  // prevent it.
  if (user !== null) await runAs(user, ['sh', '-c', 'kill -KILL -1; true'], KILL_TIMEOUT_MS).catch(() => {});
  const deadline = performance.now() + GONE_TIMEOUT_MS;
  while (true) {
    const left = await killProcesses(directory, uids);
    if (left.length === 0) return;
    if (performance.now() > deadline) throw new Error(doNotEnd(left));
    await hasten(left);
    await sleep(GONE_POLL_MS);
  }
}

/** Says that these processes, of which there is one at least, do not end. */
export function doNotEnd(pids: number[]): string {
  const named = pids.slice(0, NAMED_PIDS).join(', ');
  const more = pids.length - NAMED_PIDS;
  const which = more > 0 ? `${named} and ${more} more` : named;
  return pids.length === 1
    ? `a process was killed and does not end: ${which}`
    : `${pids.length} processes were killed and do not end: ${which}`;
}

/** Ends every process of an app's user, and waits until they are gone; 20 s at most, then the log says what is left. */
export async function endProcessesOf(user: User): Promise<void> {
  await endProcesses(user, null).catch((error: unknown) =>
    log('warn', "an app's user still runs something", { uid: user.uid, error: reason(error) }),
  );
}

/** Removes what a build left where everybody may write. None of its processes runs any more. Never rejects. */
export async function removeOrphanedFiles({ uid }: User): Promise<void> {
  await threads
    .run<typeof litter.removeOrphanedFiles>(LITTER, 'removeLitter', [OPEN_DIRECTORIES, uid], {
      deadlineMs: LITTER_TIMEOUT_MS,
    })
    .catch((error: unknown) =>
      log('warn', 'what a build left could not be removed', { uid, error: reason(error) }),
    );
}

/**
 * Gives a session of killed processes the weight of any other, where the kernel weighs sessions. A process needs a processor to end,
 * and the session of a build gets next to nothing of one while others keep them busy: two thousand processes took over a minute.
 */
async function hasten(pids: number[]): Promise<void> {
  // Those that started last are mostly the last to end.
  for (const pid of pids.slice(-HASTENED_BY).reverse()) {
    const session = `/proc/${pid}/autogroup`;
    try {
      if (!(await readFile(session, 'latin1')).endsWith(' nice 0\n')) await writeFile(session, '0');
      return;
    } catch (error) {
      // Of all ordinary users' sessions the kernel changes one in 100 ms: the next round tries again.
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return;
      // It has gone, or all but gone: then its files are root's. Another one may be of the same session.
    }
  }
}
