// Short runs of benches and scripts: one that fails also fails the whole run, which prints the reason at its end.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const PROGRAMS = new URL('../../scripts/test/programs.ts', import.meta.url).href;

/** Runs programs. @param texts the JavaScript of each program, by its name */
function runOf(texts: Record<string, string>, deadlineMs = 0): { status: number | null; lines: string[] } {
  const programs = Object.entries(texts).map(([name, text]) => ({ name, words: ['--eval', text] }));
  const running = { atOnce: 1, deadlineMs, shown: 'last line' };
  const program = `import { runPrograms } from '${PROGRAMS}';
    await runPrograms(${JSON.stringify(programs)}, ${JSON.stringify(running)});`;
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program]);
  return {
    status,
    lines: stdout
      .toString()
      .replaceAll(/\(\d+ s\)/g, '(N s)')
      .trimEnd()
      .split('\n'),
  };
}

test('a failed program is counted, and its last lines are printed at the end', () => {
  const { status, lines } = runOf({
    good: "console.log('first'); console.log('three kept')",
    bad: "console.log('one lost'); process.exitCode = 3",
  });
  assert.equal(status, 1);
  assert.deepEqual(lines, [
    'good: ran (N s): three kept',
    'bad: FAILED (N s)',
    'failed: bad',
    '  one lost',
    '  it ended with 3',
    '',
    '1 passed, 1 failed',
  ]);
});

test('a program that never ends is killed at its deadline, and counts as failed', () => {
  const { status, lines } = runOf({ endless: 'setInterval(() => {}, 1000)' }, 500);
  assert.equal(status, 1);
  assert.deepEqual(lines.slice(-4), [
    'failed: endless',
    '  it was ended at its deadline',
    '',
    '0 passed, 1 failed',
  ]);
});
