// The summary of a test run: skipped tests and failures.
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { failedLines, skippedLines } from '../../scripts/test/ending.ts';

const file = resolve('test/some.test.ts');

test('skipped tests are counted and named by their reason, in short lines', () => {
  const names = Array.from({ length: 5 }, (_, n) => `${n}`.repeat(60));
  const lines = skippedLines([
    { name: 'one', reason: 'no disk' },
    ...names.map((name, n) => ({ name, reason: `no group: ${'/path'.repeat(20)}/${n}` })),
    { name: 'two', reason: 'no disk' },
  ]);
  assert.deepEqual(lines.slice(0, 3), [
    'skipped, 2: no disk',
    '  one; two',
    `skipped, 5: no group: ${'/path'.repeat(18)}…`,
  ]);
  for (const name of names) assert.match(lines.join('\n'), new RegExp(name));
  assert.ok(lines.every((line) => line.length <= 160));
});

test('an error is printed once for all tests that it made fail, with a limited number of lines', () => {
  const long = Array.from({ length: 50 }, (_, n) => `line ${n}`).join('\n');
  const failures = [
    { name: 'one', file, line: 3, error: long },
    { name: 'two', file, line: 7, error: 'another' },
    { name: 'three', file, line: 9, error: long },
  ];
  const lines = failedLines(failures, new Map([[file, ['said besides']]]));
  assert.deepEqual(lines.slice(0, 3), [
    'failed: one (test/some.test.ts:3)',
    'failed: three (test/some.test.ts:9)',
    '  line 0',
  ]);
  assert.deepEqual(lines.slice(-3), [
    '  … 10 more lines are above',
    'failed: two (test/some.test.ts:7)',
    '  another',
  ]);
});

test('a file that fails as a whole is listed with its process’s output', () => {
  const failures = [{ name: 'test/some.test.ts', file, line: 1, error: 'test failed' }];
  assert.deepEqual(failedLines(failures, new Map([[file, ['Cannot find module']]])), [
    'failed: test/some.test.ts as a whole',
    '  test failed',
    '  Cannot find module',
  ]);
});
