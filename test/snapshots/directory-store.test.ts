// A snapshot directory that contains other things.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { MissingObject } from '../../runtime/bucket/store.ts';
import { DirectoryStore } from '../../runtime/snapshots/store/directory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('entries that are not files are neither listed nor waited for', async (t) => {
  const directory = temporaryDirectory(t);
  const store = new DirectoryStore(directory);
  await store.write('snapshots/one', Buffer.from('first'));
  const inside = (name: string) => join(directory, 'snapshots', name);
  execFileSync('mkfifo', [inside('fifo')]);
  mkdirSync(inside('folder'));
  symlinkSync('nowhere', inside('dangling'));
  symlinkSync('one', inside('two'));
  symlinkSync('fifo', inside('to-fifo'));
  assert.deepEqual(
    (await store.list('snapshots/')).map(({ name, bytes }) => [name, bytes]),
    [
      ['snapshots/one', 5],
      ['snapshots/two', 5],
    ],
  );
  assert.equal(String(await store.read('snapshots/two', { offset: 1, length: 3 })), 'irs');
  for (const name of ['fifo', 'to-fifo', 'folder', 'dangling'])
    await assert.rejects(store.read(`snapshots/${name}`, { offset: 0, length: 3 }), MissingObject, name);
});
