// Runs one bench: `npm run bench -- edge` runs `bench/edge.ts`. With `--quick` it does as little as shows that it still
// runs; `all` stands for every bench, one after another, each in a process of its own.
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isQuick } from './effort.ts';

/** What every bench file exports; the other files here are helpers. */
interface Bench {
  run: () => Promise<void>;
}

const QUICK_DEADLINE_MS = 240_000;
/** Figures of quick runs say nothing, so that they may run beside each other. */
const QUICK_AT_ONCE = 3;
/** They take longest in a quick run, where they come first: none of them is alone at the end. */
const LONG = ['deploy', 'ui', 'wake', 'density', 'snapshot', 'hostile'];
const LAST_LINES = 40;
const HELPERS = [
  'main.ts',
  'bare-relay.ts',
  'by-hand.ts',
  'copies.ts',
  'effort.ts',
  'figures.ts',
  'hostile-attacker.ts',
  'hostile-attacks.ts',
  'hostile-floor.ts',
  'load.ts',
  'miniflare-app.ts',
  'proxies.ts',
  'r2-floor.ts',
  'r2-in-cell.ts',
  'wake-host.ts',
  'wake-marks.ts',
  'wake-ways.ts',
];
const names = globSync('*.ts', { cwd: import.meta.dirname, exclude: HELPERS })
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

/**
 * Says at its end what the benches that failed printed last; the last line is `N passed, N failed`. What a bench prints is
 * shown when its figures count.
 */
async function runAll(): Promise<void> {
  const failures: string[] = [];
  const waiting = isQuick ? [...LONG, ...names.filter((each) => !LONG.includes(each))] : [...names];
  const runNext = async (): Promise<void> => {
    for (let each = waiting.shift(); each !== undefined; each = waiting.shift()) {
      const begun = performance.now();
      const { isRight, printed } = await runOne(each);
      if (!isRight) failures.push(`failed: bench ${each}`, ...lastLines(printed));
      if (!isQuick) console.log(printed);
      const seconds = ((performance.now() - begun) / 1000).toFixed(0);
      console.log(`bench ${each}: ${isRight ? 'ran' : 'FAILED'} (${seconds} s)`);
    }
  };
  await Promise.all(Array.from({ length: isQuick ? QUICK_AT_ONCE : 1 }, runNext));
  for (const line of failures) console.log(line);
  const failed = failures.filter((line) => line.startsWith('failed: ')).length;
  console.log(`\n${names.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

const lastLines = (printed: string) =>
  printed
    .trimEnd()
    .split('\n')
    .slice(-LAST_LINES)
    .map((line) => `  ${line}`);

/** Runs a bench in a process of its own. */
function runOne(each: string): Promise<{ isRight: boolean; printed: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(import.meta.dirname, 'main.ts'), each, ...process.argv.slice(3)],
      { maxBuffer: Number.POSITIVE_INFINITY, timeout: isQuick ? QUICK_DEADLINE_MS : 0 },
      (error, stdout, stderr) =>
        resolve({ isRight: error === null, printed: `${stdout}${stderr}${error?.message ?? ''}` }),
    );
  });
}
