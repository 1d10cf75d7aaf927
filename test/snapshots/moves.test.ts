// Directories that are swapped, and a host that is killed in the middle of the swap.
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { abandonMoves, finishMoves, type Move, moveAll } from '../../runtime/snapshots/restore/moves.ts';

const scratch = mkdtempSync(join(tmpdir(), 'cellar-moves-'));
after(() => rmSync(scratch, { recursive: true, force: true }));
let count = 0;

/** Makes two new directories, `data` and `buckets`, to move into place. Only `data` replaces an old directory. */
function prepare() {
  const root = join(scratch, String(count++));
  const restoring = join(root, 'restoring');
  const work = join(restoring, 'one');
  const write = (path: string, text: string) => {
    mkdirSync(path, { recursive: true });
    writeFileSync(join(path, 'file'), text);
  };
  write(join(work, 'data'), 'new data');
  write(join(work, 'buckets'), 'new buckets');
  write(join(root, 'data'), 'old data');
  const moves: Move[] = ['data', 'buckets'].map((name) => ({
    from: join(work, name),
    to: join(root, name),
    aside: join(root, 'trash', name),
  }));
  const read = (name: string) =>
    existsSync(join(root, name)) ? readFileSync(join(root, name, 'file'), 'utf8') : null;
  const isNew = () => {
    assert.deepEqual(
      [read('data'), read('buckets'), read('trash/data')],
      ['new data', 'new buckets', 'old data'],
    );
    assert.ok(!existsSync(restoring));
  };
  return { root, restoring, work, moves, read, isNew };
}

test('all moves are made', () => {
  const { restoring, work, moves, isNew } = prepare();
  moveAll(work, moves);
  rmSync(restoring, { recursive: true });
  isNew();
});

test('a committed swap is completed at the next start, wherever it was interrupted', () => {
  // The renames of a whole restore, in order. A host may have been killed after any of them.
  const steps: [from: string, to: string][] = [
    ['data', 'trash/data'],
    ['restoring/one/data', 'data'],
    ['restoring/one/buckets', 'buckets'],
  ];
  for (let done = 0; done <= steps.length; done++) {
    const { root, restoring, work, moves, isNew } = prepare();
    writeFileSync(join(work, 'moves.json'), JSON.stringify(moves));
    mkdirSync(join(root, 'trash'));
    for (const [from, to] of steps.slice(0, done)) renameSync(join(root, from), join(root, to));
    finishMoves(restoring);
    isNew();
  }
});

test('an uncommitted swap leaves nothing', () => {
  const { root, restoring, read } = prepare();
  finishMoves(restoring);
  assert.deepEqual([read('data'), read('buckets')], ['old data', null]);
  assert.deepEqual(readdirSync(root), ['data']);
});

test('abandoned files are removed, unless their moves have begun', () => {
  const { work, moves } = prepare();
  writeFileSync(join(work, 'moves.json'), JSON.stringify(moves));
  abandonMoves(work);
  assert.ok(existsSync(work));
  rmSync(join(work, 'moves.json'));
  abandonMoves(work);
  assert.ok(!existsSync(work));
});
