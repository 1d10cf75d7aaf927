// Runs one bench: `npm run bench -- edge` runs `bench/edge.ts`.
import { readdirSync } from 'node:fs';

/** What every bench file exports. */
interface Bench {
  run?: () => Promise<void>;
}

const HELPERS = ['main.ts', 'load.ts', 'miniflare-app.ts', 'wake-host.ts', 'wake-marks.ts', 'wake-ways.ts'];
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && !HELPERS.includes(file))
  .map((file) => file.slice(0, -'.ts'.length))
  .sort();
const [name = ''] = process.argv.slice(2);

if (names.includes(name)) {
  const bench = (await import(`./${name}.ts`)) as Bench;
  await bench.run?.();
} else {
  console.error(`usage: npm run bench -- <name>, where <name> is one of: ${names.join(', ')}`);
  process.exitCode = 1;
}
