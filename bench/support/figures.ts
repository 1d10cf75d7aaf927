// What several benches make of what they measure.
import { readFileSync } from 'node:fs';

/** The middle one; of an even number, the upper of the two. NaN when there is none. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** Between which two the middle half of the values lies. */
export function quartiles(values: readonly number[]): [lower: number, upper: number] {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN;
  return [at(0.25), at(0.75)];
}

/** What would be free without this process, in KiB. RSS would count the program file, which all of them share. */
export function privateKb(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB$/gm)].reduce((sum, [, size]) => sum + Number(size), 0);
}
