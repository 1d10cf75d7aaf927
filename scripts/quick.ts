// Runs most scripts briefly, to show that they still work. Each script checks its result, and fails if that is wrong. Tests
// run the other scripts: `docs.ts`, `restore.ts` and `dev.ts`.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runPrograms } from './test/programs.ts';

const DEADLINE_MS = 180_000;
const scratch = mkdtempSync(join(tmpdir(), 'cellar-scripts-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
/** Sorted by duration, longest first, so that no long script runs alone at the end. */
const SCRIPTS = [
  // One kill of each kind.
  'chaos 5',
  `screenshots ${scratch}`,
  'ui-scale --quick',
  'wranglers 4.160.0 --quick',
  'workflows 10',
  // The project with the smallest install.
  'frameworks 2021',
  'differential json',
  'large-object 8',
];

// A signal, such as from a timeout, runs the exit handlers, which delete `scratch`.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

await runPrograms(
  SCRIPTS.map((script) => {
    const [name, ...words] = script.split(' ');
    return { name: `script ${name}`, words: [join(import.meta.dirname, `${name}.ts`), ...words] };
  }),
  { atOnce: 3, deadlineMs: DEADLINE_MS, shown: 'last line' },
);
