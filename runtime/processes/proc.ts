// Reads `/proc`. The time grows with the number of processes: call it on the gateway's thread at boot only.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type Memory, readMemory } from '../resources/memory.ts';

/** Resource usage of a process. */
export interface Usage {
  /** CPU time since the start of the process. */
  cpuMs: number;
  /** Private memory, swap included. */
  privateBytes: number;
  /** Disk writes since the start of the process; 0 where the kernel does not report them. */
  writtenBytes: number;
}

/**
 * Returns the container's memory, and the usage of each process in the order of `pids`; null for a process that has ended.
 * @param root directory with the `proc` and `sys` from which the memory is read. The usage is always read from `/proc`
 */
export function readUsage(root: string, pids: number[]): { memory: Memory; processes: (Usage | null)[] } {
  return { memory: readMemory(root), processes: pids.map(usage) };
}

/** The clock tick in which the kernel reports CPU time, in ms. */
const TICK_MS = 10;

function usage(pid: number): Usage | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The program's name, in parentheses, may hold any character.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return {
      cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
      privateBytes: kilobytes(status, 'RssAnon') + kilobytes(status, 'VmSwap'),
      writtenBytes: writtenBytes(pid),
    };
  } catch {
    return null;
  }
}

function writtenBytes(pid: number): number {
  try {
    const io = readFileSync(`/proc/${pid}/io`, 'latin1');
    return Number(/^write_bytes: (\d+)$/m.exec(io)?.[1] ?? 0);
  } catch {
    // In some containers, root may not read this file of other users' processes.
    return 0;
  }
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
}

/** Yields each process: its id, its user's id, and the text of its `/proc/PID/status`. */
function* allProcesses(): Generator<{ pid: number; uid: number; status: string }> {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const status = readFileSync(`/proc/${name}/status`, 'latin1');
      const uid = Number(/^Uid:\t(\d+)/m.exec(status)![1]);
      yield { pid: Number(name), uid, status };
    } catch {
      // The process has ended.
    }
  }
}

/** Current usage of a process and its descendants. */
export interface UsageBelow {
  /** Bytes of private memory, swap included, and of shared memory without a file on a disk. */
  memoryBytes: number;
  /** Threads that run or wait for a processor. */
  busyThreads: number;
}

export function usageBelow(root: number): UsageBelow {
  const parents = new Map<number, number>();
  const bytes = new Map<number, number>();
  for (const { pid, status } of allProcesses()) {
    parents.set(pid, Number(/^PPid:\t(\d+)/m.exec(status)![1]));
    bytes.set(
      pid,
      kilobytes(status, 'RssAnon') + kilobytes(status, 'RssShmem') + kilobytes(status, 'VmSwap'),
    );
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && (pid === root || isBelow(parents.get(pid)));
  const usage: UsageBelow = { memoryBytes: 0, busyThreads: 0 };
  for (const [pid, own] of bytes) {
    if (!isBelow(pid)) continue;
    usage.memoryBytes += own;
    usage.busyThreads += busyThreads(pid);
  }
  return usage;
}

function busyThreads(pid: number): number {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    // The process has ended.
    return 0;
  }
  return threads.filter((thread) => isBusy(pid, thread)).length;
}

function isBusy(pid: number, thread: string): boolean {
  try {
    return /^State:\tR/m.test(readFileSync(`/proc/${pid}/task/${thread}/status`, 'latin1'));
  } catch {
    // The thread has ended. Count the others: a program could hide them behind short-lived threads.
    return false;
  }
}

/** Counts the threads of all processes of a user, as the kernel does for its limit (RLIMIT_NPROC). */
export function tasksOf(uid: number): number {
  let tasks = 0;
  for (const { uid: owner, status } of allProcesses())
    if (owner === uid) tasks += Number(/^Threads:\t(\d+)/m.exec(status)![1]);
  return tasks;
}

/**
 * Kills the processes of `uids`, and those whose working directory or `HOME` lies in `directory`.
 * @returns the ids of the killed processes, which may take a while to end
 */
export function killProcesses(directory: string | null, uids: number[]): number[] {
  const killed: number[] = [];
  for (const { pid, uid, status } of allProcesses()) {
    if (/^State:\t[ZX]/m.test(status)) continue;
    if (!uids.includes(uid) && (directory === null || !isBelow(directory, pid))) continue;
    try {
      process.kill(pid, 'SIGKILL');
      killed.push(pid);
    } catch {
      // The process has ended.
    }
  }
  return killed;
}

function isBelow(directory: string, pid: number): boolean {
  try {
    const cwd = readlinkSync(`/proc/${pid}/cwd`);
    if (cwd === directory || cwd.startsWith(`${directory}/`)) return true;
    return `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`.includes(`\0HOME=${directory}/`);
  } catch {
    // The process has ended, or belongs to another user.
    return false;
  }
}
