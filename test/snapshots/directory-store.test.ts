// A snapshot directory that contains other things.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { MissingObject, UNFINISHED } from '../../runtime/bucket/store.ts';
import { DirectoryStore } from '../../runtime/snapshots/store/directory-store.ts';
import { eventually } from '../support/processes.ts';
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

test('two writers of one name at once both succeed', async (t) => {
  const directory = temporaryDirectory(t);
  const stores = [new DirectoryStore(directory), new DirectoryStore(directory)];
  for (let round = 0; round < 50; round++) {
    await Promise.all(stores.map((store, n) => store.write('cellar.json', Buffer.from(`writer ${n}`))));
    assert.match(String(await stores[0]!.read('cellar.json')), /^writer [01]$/);
  }
  assert.deepEqual(await stores[0]!.list(UNFINISHED), []);
});

test('a write succeeds even if another process removes unfinished files meanwhile', async (t) => {
  const store = new DirectoryStore(temporaryDirectory(t));
  // So large that its unfinished file is mostly removed before the write ends.
  const bytes = Buffer.alloc(64 * 2 ** 20, 'x');
  let removed = 0;
  await eventually(async () => {
    let isWriting = true;
    const write = store.write('packs/one', bytes).finally(() => (isWriting = false));
    while (isWriting && removed === 0) {
      const files = await store.list(UNFINISHED);
      for (const { name } of files) await store.remove(name);
      removed = files.length;
    }
    await write;
    return removed > 0;
  }, 'an unfinished file is removed during a write');
  assert.ok((await store.read('packs/one')).equals(bytes));
});

test('a failed write leaves no unfinished file', async (t) => {
  const directory = temporaryDirectory(t);
  const store = new DirectoryStore(directory);
  mkdirSync(join(directory, 'packs', 'one', 'inside'), { recursive: true });
  await assert.rejects(store.write('packs/one', Buffer.from('x')), { code: 'EISDIR' });
  assert.deepEqual(await store.list(UNFINISHED), []);
});
