// Runs as root too.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { emptyTrash, moveToTrash } from '../../runtime/disk/trash.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a deleted app’s data is kept for seven days', async (t) => {
  const root = temporaryDirectory(t);
  const trash = join(root, 'trash');
  mkdirSync(join(root, 'data'));
  writeFileSync(join(root, 'data', 'kept'), '');
  moveToTrash(trash, 'app', { data: join(root, 'data'), releases: join(root, 'none') });
  assert.deepEqual(readdirSync(root), ['trash']);
  const [place] = readdirSync(trash);
  assert.deepEqual(readdirSync(join(trash, place!)), ['data']);
  const day = 24 * 60 * 60_000;
  await emptyTrash(trash, Date.now() + 6.9 * day);
  assert.equal(readdirSync(trash).length, 1);
  await emptyTrash(trash, Date.now() + 7.1 * day);
  assert.deepEqual(readdirSync(trash), []);
});
