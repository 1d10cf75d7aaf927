// Line diffs between two texts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { diffLines } from '../../../ui/models/source/line-diff.ts';
import { randomCases } from '../../support/random.ts';

const SIGNS = { same: ' ', added: '+', removed: '-', hunk: '@' };
const shown = (was: string | null, is: string | null) =>
  diffLines(was, is).lines.map(({ kind, text }) => SIGNS[kind] + text);

test('shows added and removed lines with three lines of context', () => {
  const was = 'a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n';
  assert.deepEqual(shown(was, was.replace('e', 'E')), ['@', ' b', ' c', ' d', '-e', '+E', ' f', ' g', ' h']);
  assert.deepEqual(shown(was, `0\n${was}k\n`), ['+0', ' a', ' b', ' c', '@', ' h', ' i', ' j', '+k']);
  const { lines } = diffLines('a\nb\n', 'b\nc\n');
  assert.deepEqual(
    lines.map(({ before, after }) => [before, after]),
    [
      [1, null],
      [2, 1],
      [null, 2],
    ],
  );
});

test('all lines of a new file are added, all lines of a deleted file are removed', () => {
  assert.deepEqual(shown(null, 'a\nb'), ['+a', '+b']);
  assert.deepEqual(shown('a\nb\n', null), ['-a', '-b']);
  assert.deepEqual(shown(null, ''), []);
  assert.deepEqual(shown('a', 'a\n'), []);
});

test('removed and common lines form the old text, added and common lines the new text', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 12 });
  const property = fc.property(text, text, (...texts) => {
    const [was, is] = texts.map((lines) => [...lines, 'end']) as [string[], string[]];
    const { lines, additions, deletions } = diffLines(`${was.join('\n')}\n`, `${is.join('\n')}\n`);
    const kinds = lines.map(({ kind }) => kind);
    assert.equal(kinds.filter((kind) => kind === 'added').length, additions);
    assert.equal(kinds.filter((kind) => kind === 'removed').length, deletions);
    assert.equal(additions - deletions, is.length - was.length);
    for (const { kind, before, after, text: line } of lines) {
      if (kind === 'removed' || kind === 'same') assert.equal(was[before! - 1], line);
      if (kind === 'added' || kind === 'same') assert.equal(is[after! - 1], line);
    }
  });
  fc.assert(property, randomCases(300));
});

test('very different texts are compared quickly', () => {
  const lines = (of: string) => Array.from({ length: 50_000 }, (_, n) => `${of} ${n}`).join('\n');
  const from = performance.now();
  const { additions, deletions, isCut } = diffLines(lines('a'), lines('b'));
  assert.deepEqual([additions, deletions, isCut], [50_000, 50_000, true]);
  assert.ok(performance.now() - from < 5_000);
});
