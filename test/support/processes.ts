// Reads processes from `/proc`.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Process {
  pid: number;
  parent: number;
  command: string[];
}

/** `PF_EXITING` and `PF_KTHREAD` of `include/linux/sched.h`: the process is exiting, or is a kernel thread. */
const WITHOUT_COMMAND = 0x4 | 0x200000;

/** Returns all readable processes whose command is `wanted`. The filter saves reads: tests poll many times a second. */
export function processes(wanted: (command: string[]) => boolean = () => true): Process[] {
  const found: Process[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const process = read(Number(name), wanted);
      if (process !== null) found.push(process);
    } catch {
      // The process has ended meanwhile.
    }
  }
  return found;
}

/** Returns a process; null for a zombie, a kernel thread or an unwanted one. @throws when its files in `/proc` are gone */
function read(pid: number, wanted: (command: string[]) => boolean): Process | null {
  while (true) {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
    if (command.length > 0 && !wanted(command)) return null;
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || Number(fields[6]) & WITHOUT_COMMAND) return null;
    // A process in the middle of `execve` has an empty command line for a moment: read it again.
    if (command.length > 0) return { pid, parent: Number(fields[1]), command };
  }
}

export function descendants(pid: number): Process[] {
  const all = processes();
  const below = new Set([pid]);
  const found: Process[] = [];
  for (let grew = true; grew; ) {
    grew = false;
    for (const process of all) {
      if (below.has(process.parent) && !below.has(process.pid)) {
        below.add(process.pid);
        found.push(process);
        grew = true;
      }
    }
  }
  return found;
}

/** Returns the processes of an app. */
export function cells(appId: string): Process[] {
  return processes((command) => command.some((word) => word.includes(`/run/${appId}/new/http.sock`)));
}

/** Returns the process of the control plane of the host `host`. */
export function controlPlane(host: number): Process | undefined {
  return descendants(host).find(({ command }) => command.some((word) => word.endsWith('/control.capnp')));
}

/** Lets a stopped process go on, unless it has ended meanwhile: the host ends a control plane that does not answer. */
export function resume(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Returns the storage readers below process `host`: the only ones that run code from `--eval=`. */
export function readers(host: number): Process[] {
  return descendants(host).filter(({ command }) => command.some((word) => word.startsWith('--eval=')));
}

/** Polling intervals of `eventually`, in ms. They grow, so that long waits use little CPU time. */
const POLL_MS = { first: 20, longest: 100 };

/** Polls `condition` and resolves once it holds. Rejects after `deadlineMs`. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = 120_000,
): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  for (let pause = POLL_MS.first; !(await condition()); pause *= 1.2) {
    if (performance.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await sleep(Math.min(pause, POLL_MS.longest));
  }
}
