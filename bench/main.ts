// Runs one bench: `npm run bench -- edge` runs `bench/edge.ts`. With `--quick` it does as little as shows that it still
// runs; `all` stands for every bench, one after another, each in a process of its own.
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isQuick } from './effort.ts';

/** What every bench file exports; the other files here are helpers. */
interface Bench {
  run: () => Promise<void>;
}

const QUICK_DEADLINE_MS = 120_000;
const HELPERS = [
  'main.ts',
  'copies.ts',
  'effort.ts',
  'figures.ts',
  'hostile-attacker.ts',
  'hostile-attacks.ts',
  'load.ts',
  'miniflare-app.ts',
  'proxies.ts',
  'wake-host.ts',
  'wake-marks.ts',
  'wake-ways.ts',
];
const names = globSync('*.ts', { cwd: import.meta.dirname, exclude: HELPERS })
  .map((file) => basename(file, '.ts'))
  .sort();
const name = process.argv[2] ?? '';

if (name === 'all') runAll();
else if (names.includes(name)) {
  const bench = (await import(`./${name}.ts`)) as Bench;
  await bench.run();
} else {
  console.error(
    `usage: npm run bench -- NAME [--quick], where NAME is \`all\` or one of: ${names.join(', ')}`,
  );
  process.exitCode = 1;
}

/** Ends with the line `N passed, N failed`. What a bench prints is shown when it fails, or when its figures count. */
function runAll(): void {
  let failed = 0;
  for (const each of names) {
    const begun = performance.now();
    const { status, error, stdout, stderr } = spawnSync(
      process.execPath,
      [join(import.meta.dirname, 'main.ts'), each, ...process.argv.slice(3)],
      { encoding: 'utf8', ...(isQuick ? { timeout: QUICK_DEADLINE_MS } : {}) },
    );
    const isRight = status === 0;
    if (!isRight) failed++;
    if (!isRight || !isQuick) console.log(stdout + stderr + (error ? `${error.message}\n` : ''));
    const seconds = ((performance.now() - begun) / 1000).toFixed(0);
    console.log(`bench ${each}: ${isRight ? 'ran' : 'FAILED'} (${seconds} s)`);
  }
  console.log(`\n${names.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}
