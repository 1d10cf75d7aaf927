// Runs one bench: `npm run bench -- edge` runs `bench/edge.ts`. `--quick` does just enough to show that it still runs.
// `all` runs every bench in sequence, each in a process of its own.
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { runPrograms } from '../scripts/test/programs.ts';
import { isQuick } from './support/bench-scale.ts';

/** What every bench file exports; the other files here are helpers. */
interface Bench {
  run: () => Promise<void>;
}

const QUICK_DEADLINE_MS = 480_000;
/** Quick runs may run in parallel, since their figures mean nothing. */
const QUICK_AT_ONCE = 3;
/** The slowest quick runs. They start first, so that none runs alone at the end. */
const LONG = ['deploy', 'ui', 'wake', 'density', 'snapshot', 'hostile'];
const names = globSync('*.ts', { cwd: import.meta.dirname, exclude: ['main.ts'] })
  .map((file) => basename(file, '.ts'))
  .sort();
const name = process.argv[2] ?? '';

// The exit handlers end the bench's processes, after a timeout too.
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

/** Runs every bench. Output is printed for failed runs, and for full ones. */
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
