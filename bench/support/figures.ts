// Statistics that several benches use.
import { readFileSync } from 'node:fs';

/** Returns the median. For an even number of values, it is the upper middle value; for no values, NaN. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Returns the bounds of the middle half of the values. */
export function quartiles(values: readonly number[]): [lower: number, upper: number] {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN;
  return [at(0.25), at(0.75)];
}

/** Returns a process's private memory in KiB. RSS would count the program file, which all processes share. */
export function privateKb(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, size]) => sum + Number(size), 0);
}
