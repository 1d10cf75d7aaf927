// Runs the tests, names the skipped ones, says why the others failed, and ends with the line `N passed, N failed, N skipped`.
// Arguments name test files; none means all. `--test-name-pattern=REGEX` leaves out tests of other names.
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { type Failure, failedLines, type Skip, skippedLines } from './test/ending.ts';

const TEST_DEADLINE_MS = 240_000;
/** Files at a time. Three keep two processors busy to nine tenths and more; with four nothing is over sooner, and builds wait long. */
const AT_ONCE = 3;
/** Of what the process of a file wrote. */
const SAID_LINES = 30;

/**
 * Its builds start as many processes as one user's builds may have: what builds beside it as the same user, without a sandbox,
 * could start none. It comes first, beside the groups, whose builds have sandboxes.
 */
const FIRST = 'test/builds/commands/isolation.test.ts';

const PATTERN = '--test-name-pattern=';
const words = process.argv.slice(2);
const named = words.filter((word) => !word.startsWith(PATTERN));
const testNamePatterns = words
  .filter((word) => word.startsWith(PATTERN))
  .map((word) => word.slice(PATTERN.length));
const all = named.length > 0 ? named : globSync('test/**/*.test.ts', { exclude: ['test/apps/**'] }).sort();
if (all.length === 0) {
  console.error('no test file found');
  process.exit(1);
}

const scratch = mkdtempSync(join(tmpdir(), 'cellar-tests-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
// Hundreds of processes of this run load the same modules: each is compiled once, or has been by what runs this.
process.env.NODE_COMPILE_CACHE ||= join(scratch, 'compiled');

/** The group of files that have a Cellar in common with this one. */
const groupOf = (file: string) => /sharedCellar\('(\w+)'\)/.exec(readFileSync(file, 'utf8'))?.[1];
const groups = Map.groupBy(all, groupOf);
const alone = groups.get(undefined) ?? [];
groups.delete(undefined);
/** Files that start a whole Cellar take longest: they come first, so that none of them is alone at the end. */
const isLong = (file: string) =>
  /from '(\.\.\/)+support\/(cli|e2e|ui|wrangler)\//.test(readFileSync(file, 'utf8'));
const files = [
  ...alone.filter((file) => file === FIRST),
  ...[...groups].map(([group, members]) => inOneProcess(group!, members)),
  ...alone.filter((file) => file !== FIRST && isLong(file)),
  ...alone.filter((file) => !isLong(file)),
];

/** Makes a file that runs the tests of these, one after another. */
function inOneProcess(group: string, members: string[]): string {
  const path = join(scratch, `${group}.test.mjs`);
  writeFileSync(path, members.map((file) => `import '${pathToFileURL(resolve(file))}';\n`).join(''));
  return path;
}

const counts = { passed: 0, failed: 0, skipped: 0 };
const skips: Skip[] = [];
const failures: Failure[] = [];
let filesWithoutTest = 0;
/** What the process of each file wrote besides its tests, and what the runner said of it. */
const said = new Map<string, string[]>();
const tests = run({ files, concurrency: AT_ONCE, timeout: TEST_DEADLINE_MS, testNamePatterns });
const keep = (file: string | undefined, message: string) => {
  if (file !== undefined) said.set(file, [...(said.get(file) ?? []), message.trimEnd()].slice(-SAID_LINES));
};
tests.on('test:pass', ({ name, file, skip, todo }) => {
  // Node counts a file of which no test ran as one that passed.
  if (file !== undefined && resolve(name) === resolve(file)) filesWithoutTest++;
  const why = skip ?? todo;
  if (why !== undefined) skips.push({ name, reason: typeof why === 'string' ? why : 'no reason given' });
});
tests.on('test:stderr', ({ file, message }) => keep(file, message));
tests.on('test:diagnostic', ({ file, message }) => keep(file, message));
tests.on('test:fail', ({ name, file = '', line = 0, details: { error } }) => {
  const { cause, failureType } = error as Error & { failureType: string };
  if (failureType !== 'subtestsFailed') failures.push({ name, file, line, error: cause });
});
tests.on('test:summary', (summary) => {
  if (summary.file !== undefined) return;
  counts.passed = summary.counts.passed - filesWithoutTest;
  counts.skipped = summary.counts.skipped + summary.counts.todo;
  counts.failed = summary.counts.tests - summary.counts.passed - counts.skipped;
});
tests.compose(new spec()).pipe(process.stdout);
tests.on('end', () => {
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
});
process.on('exit', () => {
  for (const line of [...skippedLines(skips), ...failedLines(failures, said)]) console.log(line);
  console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
});
