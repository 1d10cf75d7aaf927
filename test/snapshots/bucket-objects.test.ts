// Snapshots of R2 objects that are in the bucket: taken while an app writes, and put back.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openObjectsFolder, replaceFolder } from '../../runtime/bucket/app-folder.ts';
import type { FileEntry } from '../../runtime/snapshots/store/manifest.ts';
import { captureObjects } from '../../runtime/snapshots/take/capture-objects.ts';
import { ObjectClient } from '../../runtime/storage/r2/remote/object-client.ts';
import type { ObjectRecord } from '../../runtime/storage/r2/remote/records.ts';
import { RemoteStore } from '../../runtime/storage/r2/remote/remote-store.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const FOLDER = 'of/cellar/apps/app1/r2/';

/** Starts a store with objects of one app. */
async function start(t: TestContext) {
  const memory = await new MemoryStore().start();
  const client = new ObjectClient(memory.place(FOLDER));
  const store = new RemoteStore(client);
  t.after(async () => {
    await store.removals.close();
    await client.close();
    await memory[Symbol.asyncDispose]();
  });
  const folder = { place: memory.place('of/cellar/'), appId: 'app1' };
  const put = (object: string, size: number) =>
    store.put('main', { method: 'put', object }, { size, bytes: filled(size) });
  return { memory, store, folder, put };
}

async function* filled(size: number): AsyncGenerator<Buffer> {
  yield Buffer.alloc(size, 'x');
}

/** Captures the objects. Returns their bytes by name, as a snapshot would have them. */
async function captured(
  { folder }: Awaited<ReturnType<typeof start>>,
  before: Map<string, FileEntry> = new Map(),
  directory: string | null = null,
) {
  const read = new Map<string, Buffer>();
  let largest = 0;
  const files = await captureObjects(openObjectsFolder(folder), {
    before: (name) => before.get(name),
    add: async (path, stamp, size, content) => {
      const pieces: Buffer[] = [];
      for await (const piece of content) {
        largest = Math.max(largest, piece.length);
        pieces.push(piece);
      }
      read.set(path, Buffer.concat(pieces));
      return { path, stamp, size, mode: 0o600, chunks: [] };
    },
  });
  for (const [name, bytes] of directory === null ? [] : read) {
    const path = join(directory!, 'r2', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
  return { read, files: new Map(files.map((file) => [file.path, file])), largest };
}

test('every captured object has its bytes, while an app replaces and deletes objects', async (t) => {
  const started = await start(t);
  const { store, put } = started;
  for (let n = 0; n < 30; n++) await put(`k${n}`, 20_000 + n);
  await store.removals.hold(true);
  let isWriting = true;
  const writing = (async () => {
    for (let n = 0; isWriting; n++) {
      await put(`k${n % 30}`, 30_000 + n);
      await put(`new${n}`, 20_000);
      await store.delete('main', { method: 'delete', object: `k${(n + 7) % 30}` });
    }
  })();
  const { read } = await captured(started);
  isWriting = false;
  await writing;
  const records = [...read].filter(([name]) => name.includes('/objects/'));
  assert.ok(records.length > 10);
  for (const [name, bytes] of records)
    for (const { file, size } of (JSON.parse(bytes.toString()) as ObjectRecord).blobs)
      assert.equal(read.get(file)?.length, size, `${name} without its bytes`);
});

test('unchanged objects are not read again, and large ones are read and put back in pieces', async (t) => {
  const started = await start(t);
  const { memory, store, folder, put } = started;
  await put('large', 20 * 2 ** 20);
  await put('a/b', 7);
  const directory = temporaryDirectory(t);
  const first = await captured(started, new Map(), directory);
  assert.ok(first.largest <= 8 * 2 ** 20, `${first.largest} bytes at once`);
  await put('later', 30_000);
  const second = await captured(started, first.files);
  assert.equal(second.files.size, 5);
  assert.deepEqual([...second.read.values()].map(({ length }) => length > 29_999).toSorted(), [false, true]);

  const before = [...memory.objects.keys()].filter((name) => !second.read.has(name.slice(FOLDER.length)));
  await store.delete('main', { method: 'delete', object: 'large' });
  memory.objects.set('of/cellar/apps/app1/data/v1/old', {
    body: Buffer.from('x'),
    etag: '"x"',
    at: new Date().toISOString(),
  });
  writeFileSync(join(directory, 'data'), 'new');
  await replaceFolder(folder, directory);
  const after = [...memory.objects.keys()];
  assert.deepEqual(after.toSorted(), [...before, 'of/cellar/apps/app1/data/data'].toSorted());
  assert.equal((await store.head('main', { method: 'head', object: 'large' })).size, 20 * 2 ** 20);
  const [blob] = (await store.records.read('main/objects/-large'))!.record.blobs;
  assert.ok(memory.objects.get(FOLDER + blob!.file)!.body.equals(Buffer.alloc(20 * 2 ** 20, 'x')));
});
