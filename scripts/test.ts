// Runs the tests, names the skipped ones, and ends with the line `N passed, N failed, N skipped`. Arguments name test
// files; none means all.
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const TEST_DEADLINE_MS = 240_000;
/** Files at a time. On two processors three leave a quarter of their time unused; with four, builds wait long for a turn. */
const AT_ONCE = 3;

const named = process.argv.slice(2);
const all = named.length > 0 ? named : globSync('test/**/*.test.ts', { exclude: ['test/apps/**'] }).sort();
/** Files that start a whole Cellar take longest: they come first, so that none of them is alone at the end. */
const isLong = (file: string) =>
  /from '(\.\.\/)+support\/(cli|e2e|ui|wrangler)\//.test(readFileSync(file, 'utf8'));
const files = [...all.filter(isLong), ...all.filter((file) => !isLong(file))];
if (files.length === 0) {
  console.error('no test file found');
  process.exit(1);
}

// Hundreds of processes of this run load the same modules: each is compiled once.
const compiled = mkdtempSync(join(tmpdir(), 'cellar-compiled-'));
process.env.NODE_COMPILE_CACHE = compiled;

const counts = { passed: 0, failed: 0, skipped: 0 };
const skipped: string[] = [];
const tests = run({ files, concurrency: AT_ONCE, timeout: TEST_DEADLINE_MS });
tests.on('test:pass', ({ name, skip }) => {
  if (skip) skipped.push(typeof skip === 'string' ? `${name} (${skip})` : name);
});
tests.on('test:summary', (summary) => {
  if (summary.file !== undefined) return;
  counts.passed = summary.counts.passed;
  counts.skipped = summary.counts.skipped + summary.counts.todo;
  counts.failed = summary.counts.tests - counts.passed - counts.skipped;
});
tests.compose(new spec()).pipe(process.stdout);
tests.on('end', () => {
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
});
process.on('exit', () => {
  rmSync(compiled, { recursive: true, force: true });
  for (const name of skipped) console.log(`skipped: ${name}`);
  console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
});
