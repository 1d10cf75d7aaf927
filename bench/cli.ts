// The start time of the command line, compared with a start of Node that does nothing.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(31, 3);
const TARGET = 1.5;
const CELLAR = join(import.meta.dirname, '../cli/cellar');

/** Prints the medians of alternating starts. */
export async function run(): Promise<void> {
  const times = { node: [] as number[], version: [] as number[], help: [] as number[] };
  timed(CELLAR, 'env', '--help');
  for (let n = 0; n < ROUNDS; n++) {
    times.node.push(timed(process.execPath, '-e', '0'));
    times.version.push(timed(CELLAR, '--version'));
    times.help.push(timed(CELLAR, 'env', '--help'));
  }
  const node = median(times.node);
  const row = (name: string, ms: number) =>
    console.log(`${name.padEnd(20)} ${ms.toFixed(1).padStart(7)} ms  ${(ms / node).toFixed(2)} x`);
  row('node -e 0', node);
  row('cellar --version', median(times.version));
  row('cellar env --help', median(times.help));
  console.log(`target: cellar --version at most ${TARGET} x`);
}

function timed(program: string, ...words: string[]): number {
  const begun = performance.now();
  const { status } = spawnSync(program, words, { stdio: 'ignore' });
  if (status !== 0) throw new Error(`${program} ${words.join(' ')} ended with ${status}`);
  return performance.now() - begun;
}
