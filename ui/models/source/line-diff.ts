// Compares two texts line by line.
import type { DiffLine, FilePatch } from './diff.ts';

/** Maximum added and removed lines that are searched for: the time grows with the square of their number. */
const EDITS = 1_000;
/** Unchanged lines of context around a change. */
const AROUND = 3;
/** Maximum lines shown. */
const LINES = 1_500;

export interface LineDiff extends Pick<FilePatch, 'lines' | 'isCut'> {
  additions: number;
  deletions: number;
}

/** Compares a text with its previous version. Null: the file does not exist. */
export function diffLines(was: string | null, is: string | null): LineDiff {
  const [before, after] = [linesOf(was), linesOf(is)];
  const all = numbered(editsOf(before, after), before, after);
  const count = (kind: DiffLine['kind']) => all.filter((line) => line.kind === kind).length;
  const lines = withoutTheSame(all);
  return {
    lines: lines.slice(0, LINES),
    isCut: lines.length > LINES,
    additions: count('added'),
    deletions: count('removed'),
  };
}

type Edit = 'same' | 'added' | 'removed';

function linesOf(text: string | null): string[] {
  if (text === null || text === '') return [];
  return (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
}

/** Returns the edits from `before` to `after`, by line. */
function editsOf(before: string[], after: string[]): Edit[] {
  const least = Math.min(before.length, after.length);
  let head = 0;
  while (head < least && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < least - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const [a, b] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
  const same = (length: number) => Array<Edit>(length).fill('same');
  const between = shortestEdits(a, b) ?? [
    ...Array<Edit>(a.length).fill('removed'),
    ...Array<Edit>(b.length).fill('added'),
  ];
  return [...same(head), ...between, ...same(tail)];
}

/** Returns the fewest edits (Myers, "An O(ND) Difference Algorithm"); null when more than `EDITS` are needed. */
function shortestEdits(a: string[], b: string[]): Edit[] | null {
  const most = Math.min(a.length + b.length, EDITS);
  // For each diagonal (x - y): the furthest x that `edits` edits reach. Diagonal 0 has the index `middle`.
  const middle = most + 1;
  const reached = new Int32Array(2 * most + 3);
  const rounds: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    rounds.push(reached.slice());
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const from = previous(reached, middle, diagonal, edits);
      let x = reached[middle + from]! + (from < diagonal ? 1 : 0);
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++;
      reached[middle + diagonal] = x;
      if (x >= a.length && x - diagonal >= b.length) return backwards(rounds, middle, a.length, b.length);
    }
  }
  return null;
}

/** Returns the neighbouring diagonal from which one edit reaches the furthest x on `diagonal`. */
function previous(reached: Int32Array, middle: number, diagonal: number, edits: number): number {
  const isAdded =
    diagonal === -edits ||
    (diagonal !== edits && reached[middle + diagonal - 1]! < reached[middle + diagonal + 1]!);
  return isAdded ? diagonal + 1 : diagonal - 1;
}

function backwards(rounds: Int32Array[], middle: number, aLength: number, bLength: number): Edit[] {
  const edits: Edit[] = [];
  let [x, y] = [aLength, bLength];
  for (let round = rounds.length - 1; round > 0; round--) {
    const reached = rounds[round]!;
    const from = previous(reached, middle, x - y, round);
    const fromX = reached[middle + from]!;
    const fromY = fromX - from;
    for (; x > fromX && y > fromY; x--, y--) edits.push('same');
    edits.push(x === fromX ? 'added' : 'removed');
    [x, y] = [fromX, fromY];
  }
  for (; x > 0; x--) edits.push('same');
  return edits.reverse();
}

function numbered(edits: Edit[], before: string[], after: string[]): DiffLine[] {
  let [x, y] = [0, 0];
  return edits.map((kind) => {
    if (kind === 'removed') return { kind, before: x + 1, after: null, text: before[x++]! };
    if (kind === 'added') return { kind, before: null, after: y + 1, text: after[y++]! };
    return { kind, before: ++x, after: y + 1, text: after[y++]! };
  });
}

/** Drops unchanged lines outside the context. One line of the kind `hunk` replaces those before a change. */
function withoutTheSame(all: DiffLine[]): DiffLine[] {
  const near = new Uint8Array(all.length);
  all.forEach(({ kind }, i) => {
    if (kind !== 'same') near.fill(1, Math.max(0, i - AROUND), i + AROUND + 1);
  });
  const shown: DiffLine[] = [];
  all.forEach((line, i) => {
    if (near[i] === 0) return;
    if (i > 0 && near[i - 1] === 0) shown.push({ kind: 'hunk', before: null, after: null, text: '' });
    shown.push(line);
  });
  return shown;
}
