// Runs the tests and ends with the line `N passed, N failed`. Arguments name test files; none means all.
import { globSync } from 'node:fs';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const named = process.argv.slice(2);
const files = named.length > 0 ? named : globSync('test/**/*.test.ts', { exclude: ['test/apps/**'] }).sort();
if (files.length === 0) {
  console.error('no test file found');
  process.exit(1);
}

const counts = { passed: 0, failed: 0 };
const tests = run({ files, concurrency: 2, timeout: 240_000 });
tests.on('test:summary', (summary) => {
  if (summary.file !== undefined) return;
  counts.passed = summary.counts.passed;
  counts.failed = summary.counts.tests - summary.counts.passed - summary.counts.skipped - summary.counts.todo;
});
tests.compose(new spec()).pipe(process.stdout);
tests.on('end', () => {
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
});
process.on('exit', () => console.log(`\n${counts.passed} passed, ${counts.failed} failed`));
