// Memory use of a Cellar's processes.
import { readFileSync } from 'node:fs';
import { descendants } from '../processes.ts';
import type { Cellar } from './cellar.ts';

const SAMPLE_MS = 100;

/** Names of processes by a pattern of their command line. Other processes are ignored. */
const NAMES: [RegExp, string][] = [
  [/ui\.capnp/, 'the control UI'],
  [/r2\/program/, 'the bucket service'],
  [/control\.capnp/, 'the control plane'],
  [/\/new\/http\.sock/, 'the app'],
];

/** Returns the private memory of the host and its processes, in bytes, by name. */
export function memories(cellar: Cellar): Map<string, number> {
  const found = new Map<string, number>();
  const named = descendants(cellar.pid).map(({ pid, command }) => {
    const line = command.join(' ');
    return { pid, name: NAMES.find(([word]) => word.test(line))?.[1] };
  });
  for (const { pid, name } of [{ pid: cellar.pid, name: 'the host' }, ...named]) {
    if (name === undefined) continue;
    try {
      const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
      const sizes = [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].map(([, kb]) => Number(kb) * 1024);
      found.set(
        name,
        sizes.reduce((sum, size) => sum + size, found.get(name) ?? 0),
      );
    } catch {
      // The process has ended.
    }
  }
  return found;
}

/** Returns the peak memory of each process while `work` ran, and its growth over the value before, in bytes. */
export async function memoryDuring<T>(
  cellar: Cellar,
  work: () => Promise<T>,
): Promise<{ result: T; most: { name: string; bytes: number; grown: number }[] }> {
  const before = memories(cellar);
  const most = new Map(before);
  const sampling = setInterval(() => {
    for (const [name, bytes] of memories(cellar)) most.set(name, Math.max(bytes, most.get(name) ?? 0));
  }, SAMPLE_MS);
  try {
    const result = await work();
    const peaks = [...most].map(([name, bytes]) => ({ name, bytes, grown: bytes - (before.get(name) ?? 0) }));
    return { result, most: peaks };
  } finally {
    clearInterval(sampling);
  }
}
