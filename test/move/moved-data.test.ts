// The data on the disk after a move, also when the host is killed in the middle.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { layout } from '../../runtime/disk/data-directory.ts';
import { batchesOf } from '../../runtime/move/batches.ts';
import { ascending } from '../../runtime/move/first-copy.ts';
import {
  finishMovedData,
  preparedObjects,
  prepareMovedData,
  useMovedData,
} from '../../runtime/move/moved-data.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ID = 'a'.repeat(16);

function appWith(root: string) {
  const paths = layout(root);
  mkdirSync(paths.data(ID), { recursive: true });
  writeFileSync(join(paths.data(ID), 'file'), 'old');
  return paths;
}

test('after a move to the bucket the old data is in the trash', async (t) => {
  const paths = appWith(temporaryDirectory(t));
  await prepareMovedData(paths, ID, 'bucket');
  await useMovedData(paths, ID, 'bucket');
  assert.deepEqual(readdirSync(paths.data(ID)), []);
  const [thrown] = readdirSync(paths.trash);
  assert.equal(readFileSync(join(paths.trash, thrown!, 'data/file'), 'utf8'), 'old');
  assert.equal(existsSync(paths.moving(ID)), false);
});

test('the next start takes the data of a move into use that the database has, and drops any other', async (t) => {
  const paths = appWith(temporaryDirectory(t));
  writeFileSync(join(await prepareMovedData(paths, ID, 'local'), 'file'), 'new');
  const content = () => readFileSync(join(paths.data(ID), 'file'), 'utf8');
  finishMovedData(paths, () => 'bucket');
  assert.equal(content(), 'old');
  assert.equal(existsSync(paths.allMoving), false);
  writeFileSync(join(await prepareMovedData(paths, ID, 'local'), 'file'), 'new');
  // As if the host was killed between the two renames.
  renameSync(paths.data(ID), join(paths.moving(ID), 'cache'));
  finishMovedData(paths, () => 'local');
  assert.equal(content(), 'new');
  finishMovedData(paths, () => 'local');
  assert.equal(content(), 'new');
});

test('names in the bucket sort as their numbers', () => {
  assert.deepEqual([3, 0xaf, 0x1a21cd74bb6].map(ascending), ['a3', 'baf', 'k1a21cd74bb6']);
});

test('objects are opened a few at a time, and a large one alone', () => {
  const sizes = [...Array.from({ length: 65 }, () => 1), 2 ** 30, 1];
  const batches = batchesOf(sizes.map((bytes) => ({ bytes })));
  assert.deepEqual(
    batches.map(({ length }) => length),
    [64, 1, 1, 1],
  );
});

test('R2 objects are taken into use with the data, and what was in their place is in the trash', async (t) => {
  const paths = appWith(temporaryDirectory(t));
  const objects = join(paths.buckets(ID), 'index.sqlite');
  const prepare = async () => {
    const data = await prepareMovedData(paths, ID, 'local');
    writeFileSync(join(data, 'file'), 'new');
    mkdirSync(preparedObjects(paths, ID));
    writeFileSync(join(preparedObjects(paths, ID), 'index.sqlite'), 'moved');
  };
  mkdirSync(paths.buckets(ID), { recursive: true });
  writeFileSync(join(paths.buckets(ID), 'index.sqlite.left'), 'left');
  await prepare();
  finishMovedData(paths, () => 'bucket');
  assert.deepEqual(readdirSync(paths.buckets(ID)), ['index.sqlite.left']);
  await prepare();
  // As if the host was killed after it swapped the R2 objects, and before it swapped the data.
  renameSync(paths.buckets(ID), join(paths.moving(ID), 'away'));
  renameSync(preparedObjects(paths, ID), paths.buckets(ID));
  finishMovedData(paths, () => 'local');
  assert.equal(readFileSync(objects, 'utf8'), 'moved');
  assert.equal(readFileSync(join(paths.data(ID), 'file'), 'utf8'), 'new');
  renameSync(objects, join(paths.buckets(ID), 'index.sqlite.left'));
  await prepare();
  await useMovedData(paths, ID, 'local');
  assert.deepEqual(readdirSync(paths.buckets(ID)), ['index.sqlite']);
  const [thrown] = readdirSync(paths.trash);
  assert.deepEqual(readdirSync(join(paths.trash, thrown!, 'buckets')), ['index.sqlite.left']);
});
