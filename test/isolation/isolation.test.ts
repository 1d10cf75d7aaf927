// Runs as root too.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Isolation, makeView } from '../../runtime/isolation/isolation.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('isolation that is not open confines nothing, and makes no directory', async () => {
  const before = readdirSync('.');
  const isolation = new Isolation('cellar-unused');
  assert.equal(await isolation.sandbox(), null);
  assert.equal(await isolation.group('build', 100, 10), null);
  await isolation.cover({ build: null, cell: null });
  await isolation.close();
  assert.deepEqual(readdirSync('.'), before);
});

test('a view has directories of its own, which only their owner may enter', (t) => {
  const scratch = join(temporaryDirectory(t), 'view');
  const view = makeView(scratch);
  assert.deepEqual(readdirSync(scratch).sort(), ['root', 'shm', 'tmp']);
  assert.deepEqual([view.read, view.write], [[], []]);
});
