// Runs as root too.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeView, Walls } from '../../runtime/isolation/walls.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('walls that are not up confine nothing, and make no directory', async () => {
  const before = readdirSync('.');
  const walls = new Walls('cellar-unused');
  assert.equal(await walls.sandbox(), null);
  assert.equal(await walls.group('build', 100, 10), null);
  await walls.cover({ build: null, cell: null });
  await walls.close();
  assert.deepEqual(readdirSync('.'), before);
});

test('a view has directories of its own, which only their owner enters', (t) => {
  const scratch = join(temporaryDirectory(t), 'view');
  const view = makeView(scratch);
  assert.deepEqual(readdirSync(scratch).sort(), ['root', 'shm', 'tmp']);
  assert.deepEqual([view.read, view.write], [[], []]);
});
