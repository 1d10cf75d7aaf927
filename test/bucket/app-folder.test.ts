// An app's folder in the bucket, laid out as workerd's cluster does it. The store is in memory.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  type AppFolder,
  contentOf,
  countBytes,
  each,
  listObjects,
  ONLY,
  openFolder,
  readIfThere,
  readStoredAlarms,
  removeObjects,
  replaceFolder,
} from '../../runtime/bucket/app-folder.ts';
import { objectId } from '../../runtime/storage/object-id.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ROOT = 'of/cellar/apps/a1/data/';
const [ONE, TWO] = [objectId('counter', 'one'), objectId('counter', 'two')];
const OTHER = objectId('other', 'one');
const VALUES = objectId('kv', 'main');

async function startFolder(files: Record<string, string> = {}) {
  const store = await new MemoryStore().start();
  const put = (name: string, text: string) =>
    store.objects.set(name, { body: Buffer.from(text), etag: '"x"', at: new Date().toISOString() });
  for (const [name, text] of Object.entries(files)) put(ROOT + name, text);
  // An object of another app, whose id begins like `a1`.
  put(`of/cellar/apps/a1b/data/v1/do/counter/${ONE}/k`, 'of a1b');
  const folder: AppFolder = { place: store.place('of/cellar/'), appId: 'a1' };
  return {
    store,
    folder,
    content: () =>
      Object.fromEntries(
        [...store.objects]
          .filter(([name]) => name.startsWith(ROOT))
          .map(([name, { body }]) => [name.slice(ROOT.length), body.toString()] as const)
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      ),
    neighbours: () => [...store.objects.keys()].filter((name) => !name.startsWith(ROOT)),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}

/** Returns the name of an alarm's object in the bucket. */
function alarm(time: number, id: string, owner = 'p1'): string {
  return `v1/alarms/${owner}/k${time.toString(16)}/namespace/${id}/1`;
}

function directoryOf(t: TestContext, files: Record<string, string>): string {
  const directory = temporaryDirectory(t);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), text);
  }
  return directory;
}

test('objects belong to the key that signed their ids, and large values count for their namespace', async () => {
  await using at = await startFolder({
    [`v1/do/any/${ONE}/a`]: '12',
    [`v1/do/any/${ONE}/b/c`]: '345',
    [`v1/do/counter/${TWO}/a`]: '1',
    [`v1/do/counter/${OTHER}/a`]: '1234',
    [`v1/do/any/${VALUES}/a`]: '1',
    [`v1/services/kv/${VALUES}/b/x`]: '123456',
    [`v1/services/else/${VALUES}/b/x`]: '1',
    'v1/do/counter/not-an-id/a': '1',
    [`v1/do/${ONE}`]: '1',
    'v1/nodes/p1.json': '{}',
  });
  assert.deepEqual(
    await listObjects(at.folder, { counter: 'all', other: [OTHER, ONE], kv: 'all', none: 'all' }),
    {
      counter: { count: 2, bytes: 6, listed: { [ONE]: 5, [TWO]: 1 } },
      other: { count: 1, bytes: 4, listed: { [OTHER]: 4 } },
      kv: { count: 1, bytes: 7, listed: { [VALUES]: 7 } },
      none: { count: 0, bytes: 0, listed: {} },
    },
  );
  const [first, second] = [ONE, TWO].sort();
  const pageAfter = async (after: string | null) =>
    Object.keys((await listObjects(at.folder, { counter: { after, limit: 1 } })).counter!.listed);
  assert.deepEqual(
    [await pageAfter(null), await pageAfter(first!), await pageAfter(second!)],
    [[first], [second], []],
  );
  const all = Object.values(at.content()).reduce((sum, { length }) => sum + length, 0);
  assert.equal(await countBytes(at.folder), all);
});

test('the bytes of a long list are summed a page at a time', async () => {
  await using at = await startFolder();
  const object = { body: Buffer.from('123'), etag: '"x"', at: new Date().toISOString() };
  for (const folder of ['data', 'r2'])
    for (let n = 0; n < 2_500; n++) at.store.objects.set(`of/cellar/apps/a1/${folder}/${n}`, object);
  assert.equal(await countBytes(at.folder), 2 * 2_500 * 3);
  at.store.asked.length = 0;
  for await (const page of openFolder(at.folder).pages('')) {
    assert.equal(page.length, 1_000);
    break;
  }
  assert.equal(at.store.asked.length, 1);
});

test('the earliest alarm of each key, and the named ones that are due, latest first', async () => {
  await using at = await startFolder({
    [alarm(3_000, ONE)]: 'one',
    [alarm(1_700_000_000_000, TWO)]: 'two é',
    [alarm(500, OTHER)]: 'other',
    'v1/alarms/p1/knot-a-time/namespace/x': 'bad',
  });
  const read = (before: number) =>
    readStoredAlarms(at.folder, {
      earliest: ['counter', 'none', 'other'],
      named: ['counter', 'none'],
      before,
    });
  assert.deepEqual(await read(Number.MAX_SAFE_INTEGER), {
    times: [3_000, 500],
    alarms: [
      [
        { name: 'two é', time: 1_700_000_000_000 },
        { name: 'one', time: 3_000 },
      ],
      [],
    ],
  });
  assert.deepEqual((await read(3_000)).alarms[0], [{ name: 'one', time: 3_000 }]);
  assert.deepEqual((await read(2_999)).alarms[0], []);
});

test('of an alarm that is there twice the earlier time counts, and it is named once', async () => {
  await using at = await startFolder({
    [alarm(9_000, ONE, 'p1')]: 'one',
    [alarm(7_000, ONE, 'p2')]: 'one',
    [alarm(8_000, ONE, 'p3')]: 'one',
  });
  assert.deepEqual(
    await readStoredAlarms(at.folder, { earliest: ['counter'], named: ['counter'], before: 9_000 }),
    {
      times: [7_000],
      alarms: [[{ name: 'one', time: 7_000 }]],
    },
  );
});

test('an alarm that a new process takes over while it is read has its name', async () => {
  await using at = await startFolder({ [alarm(9_000, ONE, 'p1')]: 'one' });
  const [before, after] = [alarm(9_000, ONE, 'p1'), alarm(9_000, ONE, 'p2')].map((name) => ROOT + name);
  const { asked, objects } = at.store;
  asked.push = (request) => {
    if (request.method === 'GET' && request.key === before && objects.has(before)) {
      objects.set(after!, objects.get(before)!);
      objects.delete(before);
    }
    return 0;
  };
  const request = { earliest: [], named: ['counter'], before: 9_000 };
  const { alarms } = await readStoredAlarms(at.folder, request);
  assert.deepEqual(alarms, [[{ name: 'one', time: 9_000 }]]);
});

test('at most 1,000 alarms are read with their names, the latest ones', async () => {
  const files = Array.from({ length: 1_100 }, (_, n) => [alarm(n, objectId('counter', `${n}`)), `${n}`]);
  await using at = await startFolder(Object.fromEntries(files));
  const { times, alarms } = await readStoredAlarms(at.folder, {
    ...{ earliest: ['counter'], named: ['counter'], before: 2_000 },
  });
  assert.deepEqual(times, [0]);
  const [named] = alarms;
  assert.equal(named!.length, 1_000);
  assert.deepEqual(
    [named!.at(0), named!.at(-1)],
    [
      { name: '1099', time: 1_099 },
      { name: '100', time: 100 },
    ],
  );
});

test('objects are removed with their alarms, and those of other keys stay', async () => {
  const kept = { [alarm(2, OTHER)]: 'other', [`v1/do/n/${OTHER}/a`]: 'o' };
  await using at = await startFolder({ ...kept, [alarm(1, ONE)]: 'one', [`v1/do/n/${ONE}/a`]: 'a' });
  await removeObjects(at.folder, ['counter']);
  assert.deepEqual(at.content(), kept);
  assert.equal(at.neighbours().length, 1);
});

test('a folder is replaced as a whole, leases too, and again to the same content', async (t) => {
  await using at = await startFolder({
    'v1/nodes/p1.json': '{}',
    [`v1/do/n/${ONE}/old`]: 'old',
    [`v1/do/n/${ONE}/kept`]: 'before',
  });
  const files = { [`v1/do/n/${ONE}/kept`]: 'after', [`v1/do/n/${TWO}/new`]: 'new' };
  const directory = directoryOf(t, files);
  for (let round = 0; round < 2; round++) {
    await replaceFolder(at.folder, directory);
    assert.deepEqual(at.content(), files);
  }
  assert.equal(at.neighbours().length, 1);
});

test('only one object is replaced, and nothing beside it', async (t) => {
  const others = { [`v1/do/n/${TWO}/a`]: 'two', [alarm(1, ONE)]: 'one', 'v1/nodes/p1.json': '{}' };
  await using at = await startFolder({ ...others, [`v1/do/n/${ONE}/old`]: 'old', [`v1/do/n/${ONE}/a`]: '1' });
  const restored = { [`v1/do/n/${ONE}/a`]: '2', [`v1/do/n/${ONE}/b`]: '3' };
  await replaceFolder(at.folder, directoryOf(t, { ...restored, [ONLY]: ONE }));
  const sorted = Object.entries({ ...others, ...restored }).sort(([a], [b]) => (a < b ? -1 : 1));
  assert.deepEqual(at.content(), Object.fromEntries(sorted));
});

test('a replacement that was interrupted is completed by the next one', async (t) => {
  const before = Array.from({ length: 40 }, (_, n) => [`v1/do/n/${ONE}/old-${n}`, 'old']);
  await using at = await startFolder(Object.fromEntries(before));
  const files = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`v1/do/n/${ONE}/new-${n}`, `${n}`]));
  const directory = directoryOf(t, files);
  // The store cuts its connections at the 20th write.
  const { objects } = at.store;
  const set = objects.set.bind(objects);
  let writes = 0;
  objects.set = (name, kept) => {
    if (++writes === 20) at.store.cut();
    return set(name, kept);
  };
  await assert.rejects(replaceFolder(at.folder, directory), /ECONNRESET|closed|tries/);
  assert.ok(Object.keys(at.content()).length < 40, 'it was interrupted');
  at.store.faults = {};
  await replaceFolder(at.folder, directory);
  assert.deepEqual(Object.keys(at.content()).sort(), Object.keys(files).sort());
  for (const [name, text] of Object.entries(at.content())) assert.equal(text, files[name]);
});

test('an object that is gone reads as null; a store that fails is an error; leases are not content', async () => {
  await using at = await startFolder({ 'v1/nodes/p1.json': '{}', 'v1/do/x': 'x' });
  const store = openFolder(at.folder);
  assert.equal(String(await readIfThere(store, 'v1/do/x')), 'x');
  assert.equal(await readIfThere(store, 'v1/do/gone'), null);
  assert.deepEqual(
    (await contentOf(store)).map(({ name }) => name),
    ['v1/do/x'],
  );
  at.store.faults = { isBusy: true };
  await assert.rejects(readIfThere(store, 'v1/do/x'), /answered 503/);
});

test('after a failure no more work begins, and what is under way ends first', async () => {
  const begun: number[] = [];
  const ended: number[] = [];
  const work = each(
    Array.from({ length: 100 }, (_, n) => n),
    async (n) => {
      begun.push(n);
      await new Promise((resolve) => setImmediate(resolve));
      if (n === 3) throw new Error('the fourth fails');
      ended.push(n);
    },
  );
  await assert.rejects(work, /the fourth fails/);
  assert.ok(begun.length < 40, `${begun.length} began`);
  assert.equal(ended.length, begun.length - 1);
});
