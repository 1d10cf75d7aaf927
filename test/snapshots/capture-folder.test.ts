// A folder of the bucket that changes while a snapshot reads it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFolder } from '../../runtime/bucket/app-folder.ts';
import type { FileEntry } from '../../runtime/snapshots/store/manifest.ts';
import { captureFolder } from '../../runtime/snapshots/take/capture-folder.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';

const FOLDER = 'apps/one/data/v1/';
const OBJECT = `do/namespace/${'a'.repeat(64)}/`;

/** Captures the folder. `onAdd` is called before an object is added, with its name. */
function capture(store: MemoryStore, before: FileEntry[] = [], onAdd: (name: string) => void = () => {}) {
  const added: string[] = [];
  const captured = captureFolder(openFolder({ place: store.place(), appId: 'one' }), {
    before: (name) => before.find(({ path }) => path === name),
    add: async (path, stamp, bytes) => {
      added.push(path);
      onAdd(path);
      return { path, size: bytes.length, mode: 0o600, stamp, chunks: [] };
    },
  });
  return { captured, added };
}

function write(store: MemoryStore, name: string, text: string): void {
  const body = Buffer.from(text);
  store.objects.set(FOLDER + name, { body, etag: `"${text}"`, at: new Date().toISOString() });
}

const names = (files: FileEntry[]) => files.map(({ path }) => path.slice('v1/'.length)).sort();

test('a capture leaves leases out, and reads only what changed since the last one', async () => {
  await using store = await new MemoryStore().start();
  write(store, 'nodes/one.json', 'a lease');
  write(store, `${OBJECT}own.json`, 'owner');
  write(store, `${OBJECT}log/1`, 'first');
  const first = capture(store);
  const files = await first.captured;
  assert.deepEqual(names(files), [`${OBJECT}log/1`, `${OBJECT}own.json`]);
  write(store, `${OBJECT}log/2`, 'second');
  const second = capture(store, files);
  assert.deepEqual(names(await second.captured), [`${OBJECT}log/1`, `${OBJECT}log/2`, `${OBJECT}own.json`]);
  assert.deepEqual(second.added, [`v1/${OBJECT}log/2`]);
});

test('an object that is compacted or moved while it is read is whole in the capture', async () => {
  await using store = await new MemoryStore().start();
  write(store, `${OBJECT}own.json`, 'owner 1');
  for (let n = 0; n < 40; n++) write(store, `${OBJECT}log/${n}`, `entry ${n}`);
  let isCompacted = false;
  const { captured } = capture(store, [], () => {
    if (isCompacted) return;
    isCompacted = true;
    for (let n = 0; n < 40; n++) store.objects.delete(`${FOLDER}${OBJECT}log/${n}`);
    write(store, `${OBJECT}snapshot/1`, 'all entries');
    write(store, `${OBJECT}own.json`, 'owner 2');
  });
  const files = await captured;
  assert.deepEqual(names(files), [`${OBJECT}own.json`, `${OBJECT}snapshot/1`]);
  assert.equal(files.find(({ path }) => path.endsWith('own.json'))!.stamp, 'owner 2');
});

test('a folder whose objects never stop moving is an error, and not half a capture', async () => {
  await using store = await new MemoryStore().start();
  write(store, `${OBJECT}own.json`, 'owner 0');
  let n = 0;
  const { captured } = capture(store, [], () => write(store, `${OBJECT}own.json`, `owner ${++n}`));
  await assert.rejects(captured, /its objects were moved repeatedly while they were read/);
});

test('new objects and alarms that are set again and again do not keep a folder from being captured', async () => {
  await using store = await new MemoryStore().start();
  write(store, `${OBJECT}own.json`, 'owner');
  write(store, `${OBJECT}log/1`, 'first');
  write(store, 'alarms/p1/k1/namespace/one/a0', 'one');
  let n = 0;
  const { asked } = store;
  asked.push = () => {
    n++;
    write(store, `do/namespace/${String(n).padStart(64, '0')}/own.json`, 'new');
    for (const name of store.objects.keys()) if (name.includes('/alarms/')) store.objects.delete(name);
    write(store, `alarms/p1/k1/namespace/one/a${n}`, 'one');
    return 0;
  };
  const files = await capture(store).captured;
  assert.deepEqual(
    names(files).filter((name) => name.startsWith(OBJECT)),
    [`${OBJECT}log/1`, `${OBJECT}own.json`],
  );
});
