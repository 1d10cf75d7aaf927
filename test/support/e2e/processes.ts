// Looks at processes as the kernel tells of them.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process of this machine. */
export interface Process {
  pid: number;
  parent: number;
  command: string[];
}

/** Bits of a process's flags, as in `include/linux/sched.h`: it ends, or is a thread of the kernel. */
const WITHOUT_COMMAND = 0x4 | 0x200000;

/** Every process that can be read, or those whose command is `wanted`: tests ask many times a second. */
export function processes(wanted: (command: string[]) => boolean = () => true): Process[] {
  const found: Process[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const process = read(Number(name), wanted);
      if (process !== null) found.push(process);
    } catch {
      // It has gone since.
    }
  }
  return found;
}

/** A process, or null if it has ended, is the kernel's or is not wanted. @throws when it has gone */
function read(pid: number, wanted: (command: string[]) => boolean): Process | null {
  while (true) {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
    if (command.length > 0 && !wanted(command)) return null;
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || Number(fields[6]) & WITHOUT_COMMAND) return null;
    // One that is just becoming another program, as cells are made, has no command for a moment.
    if (command.length > 0) return { pid, parent: Number(fields[1]), command };
  }
}

/** Every process below `pid`, at any depth. */
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

/** The processes of an app. */
export function cells(appId: string): Process[] {
  return processes((command) => command.some((word) => word.includes(`/run/${appId}/new/http.sock`)));
}

/** The processes below `host` that read what an app keeps: no other program is in its command line. */
export function readers(host: number): Process[] {
  return descendants(host).filter(({ command }) => command.some((word) => word.startsWith('--eval=')));
}

/** Times between two questions of `eventually`, in ms: what is soon there is seen at once, and a long wait costs little. */
const ASK_AGAIN_MS = { first: 20, longest: 100 };

/** Resolves once `condition` holds, which is asked again and again; rejects after `deadlineMs`. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + deadlineMs;
  for (let pause = ASK_AGAIN_MS.first; !(await condition()); pause *= 1.2) {
    if (performance.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await sleep(Math.min(pause, ASK_AGAIN_MS.longest));
  }
}
