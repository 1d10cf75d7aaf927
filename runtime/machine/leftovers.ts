// Ends what builds and apps left running, daemons in sessions of their own and what a killed host left, and removes what
// builds left lying about.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { log, reason } from '../log.ts';
import { removeTree } from './remove.ts';
import { runAs, type User } from './users.ts';

/** Longest wait for killed processes to be gone, in ms. */
const GONE_TIMEOUT_MS = 5_000;
const GONE_POLL_MS = 5;
/** Longest run of the command that kills, in ms. */
const KILL_TIMEOUT_MS = 2_000;
/** Where every user of a machine may write. */
const OPEN_DIRECTORIES = ['/tmp', '/var/tmp', '/dev/shm'];

/**
 * Kills what builds and apps of a host that was killed left. Call it at boot, before anything of theirs is removed.
 * @param builds the directory of all builds
 * @param uids the users of builds and apps
 */
export function endLeftovers(builds: string, uids: number[]): void {
  for (const pid of findProcesses(builds, new Set(uids))) {
    if (kill(pid)) log('warn', 'ended a process that a build or an app left behind', { pid });
  }
}

/**
 * Ends every process of a user, and those that a build's directory tells, and waits until they are gone.
 * @param directory of the build: without a user of its own, its processes are known by it. `null` for what is no build
 * @throws {Error} when one does not go
 */
export async function endProcesses(user: User | null, directory: string | null): Promise<void> {
  const uids = new Set(user === null ? [] : [user.uid]);
  // All at one moment: whatever forks faster than a list of processes is read does not get away. As that user, who may
  // prevent it.
  if (user !== null) await runAs(user, ['sh', '-c', 'kill -KILL -1; true'], KILL_TIMEOUT_MS).catch(() => {});
  const deadline = performance.now() + GONE_TIMEOUT_MS;
  for (let left = findProcesses(directory, uids); left.length > 0; left = findProcesses(directory, uids)) {
    if (performance.now() > deadline) throw new Error(`these processes do not end: ${left.join(', ')}`);
    for (const pid of left) kill(pid);
    await sleep(GONE_POLL_MS);
  }
}

/** Ends every process of an app's user, and waits until they are gone; 5 s at most, then the log says what is left. */
export async function endProcessesOf(user: User): Promise<void> {
  await endProcesses(user, null).catch((error: unknown) =>
    log('warn', "an app's user still runs something", { uid: user.uid, error: reason(error) }),
  );
}

/** Removes what a build left where everybody may write. None of its processes runs any more. Never rejects. */
export async function removeLitter({ uid }: User): Promise<void> {
  for (const directory of OPEN_DIRECTORIES) {
    for (const name of await readdir(directory).catch(() => [])) {
      const path = join(directory, name);
      const owner = await lstat(path).catch(() => null);
      if (owner?.uid !== uid) continue;
      await removeTree(path).catch((error: unknown) =>
        log('warn', 'what a build left could not be removed', { path, error: reason(error) }),
      );
    }
  }
}

/** Processes of `uids`, and those that work below `directory` or have their home there. */
function findProcesses(directory: string | null, uids: Set<number>): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const status = readFileSync(`/proc/${name}/status`, 'latin1');
      if (/^State:\t[ZX]/m.test(status)) return [];
      const uid = Number(/^Uid:\t(\d+)/m.exec(status)![1]);
      return uids.has(uid) || (directory !== null && isBelow(directory, name)) ? [Number(name)] : [];
    } catch {
      // It has gone, or belongs to somebody else.
      return [];
    }
  });
}

function isBelow(directory: string, pid: string): boolean {
  const cwd = readlinkSync(`/proc/${pid}/cwd`);
  if (cwd === directory || cwd.startsWith(`${directory}/`)) return true;
  return `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`.includes(`\0HOME=${directory}/`);
}

function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}
