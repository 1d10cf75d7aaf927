// Runs one bench: `npm run bench -- edge` runs `bench/edge.ts`. With `--quick` it does as little as shows that it still
// runs; `all` stands for every bench, one after another, each in a process of its own.
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { runPrograms } from '../scripts/test/programs.ts';
import { isQuick } from './support/bench-scale.ts';

/** What every bench file exports; the other files here are helpers. */
interface Bench {
  run: () => Promise<void>;
}

const QUICK_DEADLINE_MS = 240_000;
/** Figures of quick runs say nothing, so that they may run beside each other. */
const QUICK_AT_ONCE = 3;
/** They take longest in a quick run, where they come first: none of them is alone at the end. */
const LONG = ['deploy', 'ui', 'wake', 'density', 'snapshot', 'hostile'];
const names = globSync('*.ts', { cwd: import.meta.dirname, exclude: ['main.ts'] })
  .map((file) => basename(file, '.ts'))
  .sort();
const name = process.argv[2] ?? '';

// What a bench has started ends with it, also when its time is over.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

if (name === 'all') await runAll();
else if (names.includes(name)) {
  const bench = (await import(`./${name}.ts`)) as Bench;
  await bench.run();
} else {
  console.error(
    `usage: npm run bench -- NAME [--quick], where NAME is \`all\` or one of: ${names.join(', ')}`,
  );
  process.exitCode = 1;
}

/** What a bench prints is shown when it fails, or when its figures count. */
async function runAll(): Promise<void> {
  const inOrder = isQuick ? [...LONG, ...names.filter((each) => !LONG.includes(each))] : names;
  const main = join(import.meta.dirname, 'main.ts');
  await runPrograms(
    inOrder.map((each) => ({ name: `bench ${each}`, words: [main, each, ...process.argv.slice(3)] })),
    {
      atOnce: isQuick ? QUICK_AT_ONCE : 1,
      deadlineMs: isQuick ? QUICK_DEADLINE_MS : 0,
      shown: isQuick ? 'nothing' : 'all',
    },
  );
}
