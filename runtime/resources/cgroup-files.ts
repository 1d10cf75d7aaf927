// Reads and writes the files of a control group, in version 1 and version 2 of the kernel's interface.
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Place } from './cgroup-place.ts';

const MB = 1024 * 1024;

/**
 * Returns the files of a group and their values, for a group that runs only on idle CPU time. With `hasFloor`, the group has
 * a minimum share instead: half the weight of others. Without `cpu.idle` in the kernel, it gets the smallest weight.
 */
export function weights({ version, directory }: Place, hasFloor: boolean): [path: string, value: string][] {
  const [file, least, floor] = version === 2 ? ['cpu.weight', '1', '50'] : ['cpu.shares', '2', '512'];
  const idle = join(directory, 'cpu.idle');
  const weight = join(directory, file!);
  if (!existsSync(idle)) return [[weight, hasFloor ? floor! : least!]];
  // With `cpu.idle`, a group has the smallest weight, and the kernel refuses another one.
  return hasFloor
    ? [
        [idle, '0'],
        [weight, floor!],
      ]
    : [[idle, '1']];
}

/** Sets the memory limit of a group, and the limit of its swap. @param memoryMb MiB; `null`: no limit of its own */
export async function limitMemory({ version, directory }: Place, memoryMb: number | null): Promise<void> {
  const bytes = memoryMb === null ? null : String(memoryMb * MB);
  if (version === 2) {
    await writeFile(join(directory, 'memory.max'), bytes ?? 'max');
    await writeIfThere(join(directory, 'memory.swap.max'), bytes ?? 'max');
    return;
  }
  // The limit of memory and swap together may never be below that of memory. So it is lifted first, and set last.
  const withSwap = join(directory, 'memory.memsw.limit_in_bytes');
  await writeIfThere(withSwap, '-1');
  await writeFile(join(directory, 'memory.limit_in_bytes'), bytes ?? '-1');
  await writeIfThere(withSwap, memoryMb === null ? '-1' : String(2 * memoryMb * MB));
}

/** Writes a file if it exists: swap accounting may be off. */
async function writeIfThere(path: string, content: string): Promise<void> {
  if (existsSync(path)) await writeFile(path, content);
}

/** Returns the bytes of memory that the kernel cannot reclaim at once. */
export async function memoryUsed(place: Place): Promise<number> {
  const [file, inactive] =
    place.version === 2
      ? ['memory.current', 'inactive_file']
      : ['memory.usage_in_bytes', 'total_inactive_file'];
  const used = await readFile(join(place.directory, file!), 'utf8').catch(() => '0');
  return Math.max(0, Number(used) - (await field(place, 'memory.stat', inactive!)));
}

/** Returns the group's peak memory in bytes; 0 where the kernel does not record it. */
export async function memoryPeak({ version, directory }: Place): Promise<number> {
  const file = version === 2 ? 'memory.peak' : 'memory.max_usage_in_bytes';
  return Number(await readFile(join(directory, file), 'utf8').catch(() => '0'));
}

/**
 * Returns how many processes of the group the kernel killed for lack of memory. The kernel counts these kills, and how often
 * the group's own limit was reached. If it was reached, all kills count as `own`; otherwise as `above`: the memory of the
 * machine, or of a group above, was used up.
 */
export async function memoryKills(place: Place): Promise<{ own: number; above: number }> {
  const [events, reached] =
    place.version === 2
      ? ['memory.events', field(place, 'memory.events', 'oom')]
      : ['memory.oom_control', readFile(join(place.directory, 'memory.failcnt'), 'utf8').catch(() => '0')];
  const kills = await field(place, events, 'oom_kill');
  return Number(await reached) > 0 ? { own: kills, above: 0 } : { own: 0, above: kills };
}

/** Returns the number after a name in one of a group's files; 0 when the file or the name is missing. */
export async function field({ directory }: Place, file: string, name: string): Promise<number> {
  const lines = (await readFile(join(directory, file), 'utf8').catch(() => '')).split('\n');
  const line = lines.find((candidate) => candidate.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}
