// Runs the tests, lists the skipped ones, explains the failures, and ends with the line `N passed, N failed, N skipped`.
// Arguments are test files; default: all. `--test-name-pattern=REGEX` filters by test name. `--short` leaves out the files
// that start a whole Cellar or wait for processes. `--minutes=NUMBER` begins no file after so many minutes, and names the
// files that did not run.
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { type Failure, failedLines, type Skip, skippedLines } from './test/ending.ts';

const TEST_DEADLINE_MS = 600_000;
/** Concurrent test files. With those that wait, two keep two CPUs busy. With more, low-priority processes starve. */
const AT_ONCE = 2;
/** Concurrent test files that mostly wait, in addition to `AT_ONCE`. Such a file has a line that matches `WAITS`. */
const WAITING_AT_ONCE = 2;
const WAITS = /^\/\/ Mostly waits\.$/m;
/** Maximum lines kept of the standard error of a file's process. */
const SAID_LINES = 30;
/** Number of slowest files that are shown at the end. */
const SLOWEST = 40;

/**
 * The builds of this file start as many processes as one user's builds may have. Unsandboxed builds of the same user
 * could then start none. So the file runs first, beside the files that share a Cellar: their builds have sandboxes.
 */
const FIRST = 'test/builds/commands/isolation.test.ts';

const PATTERN = '--test-name-pattern=';
const SHORT = '--short';
const MINUTES = '--minutes=';
const words = process.argv.slice(2);
const named = words.filter((word) => ![PATTERN, MINUTES, SHORT].some((option) => word.startsWith(option)));
const minutes = Number(words.find((word) => word.startsWith(MINUTES))?.slice(MINUTES.length) ?? Infinity);
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
// Hundreds of processes of this run load the same modules. With the cache, Node compiles each module only once.
process.env.NODE_COMPILE_CACHE ||= join(scratch, 'compiled');

/** Returns the name of the group of files that share a Cellar; undefined for a file in no group. */
const groupOf = (file: string) => /sharedCellar\('(\w+)'\)/.exec(readFileSync(file, 'utf8'))?.[1];
const groups = Map.groupBy(all, groupOf);
const alone = groups.get(undefined) ?? [];
groups.delete(undefined);
/** Whether a file starts a whole Cellar, or waits for processes. Such files take longest. */
const isLong = (file: string) =>
  /from '(\.\.\/)+support\/(e2e\/|ui\/|wrangler\/|processes\.ts)/.test(readFileSync(file, 'utf8'));
const others = alone.filter((file) => file !== FIRST);
const isShort = words.includes(SHORT);
// The groups take minutes each, so they begin first. Other files with a whole Cellar come last: `--minutes` then leaves out
// few tests.
const files = [
  ...alone.filter((file) => file === FIRST),
  ...(isShort ? [] : [...groups].map(([group, members]) => inOneProcess(group!, members))),
  ...others.filter((file) => !isLong(file)),
  ...(isShort ? [] : others.filter(isLong)),
];

const waiting = files.filter((file) => WAITS.test(readFileSync(file, 'utf8')));
const working = files.filter((file) => !waiting.includes(file));

/** Writes a file that runs the tests of these files one after another. */
function inOneProcess(group: string, members: string[]): string {
  const path = join(scratch, `${group}.test.mjs`);
  writeFileSync(path, members.map((file) => `import '${pathToFileURL(resolve(file))}';\n`).join(''));
  return path;
}

const counts = { passed: 0, failed: 0, skipped: 0 };
/** How long each file took, in ms. */
const times = new Map<string, number>();
const skips: Skip[] = [];
const failures: Failure[] = [];
let filesWithoutTest = 0;
/** The standard error of each file's process, and the runner's messages about the file. */
const said = new Map<string, string[]>();
const keep = (file: string | undefined, message: string) => {
  if (file !== undefined) said.set(file, [...(said.get(file) ?? []), message.trimEnd()].slice(-SAID_LINES));
};
/** Runs files, at most `atOnce` concurrently. */
async function runAll(files: string[], atOnce: number): Promise<void> {
  const left = [...files];
  const runNext = async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) {
      if (performance.now() < minutes * 60_000) await runTests(file);
      else {
        counts.skipped++;
        skips.push({ name: relative('.', file), reason: `the file was not begun within ${minutes} minutes` });
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, runNext));
}

/** Runs a file, and shows and counts its tests. */
async function runTests(file: string): Promise<void> {
  const tests = run({ files: [file], timeout: TEST_DEADLINE_MS, testNamePatterns });
  tests.on('test:pass', ({ name, file, skip, todo }) => {
    // Node counts a file without tests as a passed test.
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
    if (summary.file !== undefined) {
      times.set(relative(process.cwd(), summary.file), summary.duration_ms);
      return;
    }
    const { tests: all, passed, skipped, todo } = summary.counts;
    counts.passed += passed;
    counts.skipped += skipped + todo;
    counts.failed += all - passed - skipped - todo;
  });
  // Leaves out the runner's counts for this file, because the totals of all files are printed at the end.
  tests
    .filter(({ type, data }) => type !== 'test:diagnostic' || data.file !== undefined)
    .compose(new spec())
    .pipe(process.stdout, { end: false });
  await once(tests, 'end');
}

process.on('exit', () => {
  const slowest = [...times].sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  for (const [file, ms] of slowest) console.log(`${Math.round(ms / 1000)} s ${file}`);
  for (const line of [...skippedLines(skips), ...failedLines(failures, said)]) console.log(line);
  console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
});

await Promise.all([runAll(working, AT_ONCE), runAll(waiting, WAITING_AT_ONCE)]);
counts.passed -= filesWithoutTest;
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
