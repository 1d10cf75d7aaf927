// R2 objects are copied from the bucket into the store on the disk.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { copyObjects, finishObjects } from '../../runtime/move/objects-from-bucket.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import { APP_ID, bodyOf, startBuckets, startRemoteBuckets } from '../support/storage/r2.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const FOLDER = `of/cellar/apps/${APP_ID}/r2/`;
const PART = 5 * 2 ** 20;

async function copyAll(folder: Parameters<typeof copyObjects>[0], into: string): Promise<number> {
  let calls = 0;
  for (let after: string | null = ''; after !== null; calls++)
    after = (await copyObjects(folder, into, after, 0)).next;
  await finishObjects(folder, into);
  return calls;
}

test('objects are the same on the disk, and a copy is continued where the last call ended', async (t) => {
  const { buckets, store } = await startRemoteBuckets(t);
  const remote = new BucketClient(await buckets.open(APP_ID), 'main');
  const described = {
    httpFields: { contentType: 'text/plain', contentDisposition: 'inline' },
    customFields: [{ k: 'of', v: 'somebody' }],
  };
  const contents = new Map<string, Buffer>([
    ['', Buffer.from('the empty key')],
    ['empty', Buffer.alloc(0)],
    ['one', Buffer.alloc(1, 'o')],
    ['kept in the record', Buffer.alloc(16 * 1024, 'r')],
    ['a/ü/\u0001 ../%', Buffer.alloc(300_000, 'b')],
    ...Array.from({ length: 150 }, (_, n) => [`many/${n}`, Buffer.from(`${n}`)] as const),
  ]);
  for (const [key, content] of contents) await remote.put(key, bodyOf(content), described);
  await new BucketClient(await buckets.open(APP_ID), 'other').put('one', bodyOf(Buffer.from('2')), described);
  const uploads = { large: [PART, PART, 2 * 2 ** 20], 'with an empty part': [PART, 0], small: [7] };
  for (const [key, sizes] of Object.entries(uploads)) {
    const upload = await remote.createUpload(key, described);
    const sent = [];
    for (const [at, size] of sizes.entries()) {
      const body = bodyOf(Buffer.alloc(size, `${at}`));
      sent.push({ part: at + 1, etag: await remote.uploadPart(key, upload, at + 1, body) });
    }
    await remote.completeUpload(key, upload, sent);
    contents.set(key, Buffer.concat(sizes.map((size, at) => Buffer.alloc(size, `${at}`))));
  }
  const unfinished = await remote.createUpload('unfinished', described);
  await remote.uploadPart('unfinished', unfinished, 1, bodyOf(Buffer.alloc(300_000)));

  const folder = { place: store.place('of/cellar/'), appId: APP_ID };
  const into = join(temporaryDirectory(t), 'objects');
  assert.ok((await copyAll(folder, into)) > 2);
  assert.deepEqual(readdirSync(into).sort(), ['blobs', 'index.sqlite']);
  assert.equal(readdirSync(join(into, 'blobs')).length, contents.size + 1 + 3);
  const local = startBuckets(t);
  mkdirSync(dirname(local.paths.buckets(APP_ID)), { recursive: true });
  renameSync(into, local.paths.buckets(APP_ID));
  const copied = new BucketClient(await local.buckets.open(APP_ID), 'main');
  for (const [key, content] of contents) {
    const object = await remote.head(key);
    assert.deepEqual(await copied.head(key), object);
    const bytes = await copied.bytes(key, object.etag, { offset: 0, length: content.length });
    assert.ok((await buffer(bytes)).equals(content), key);
  }
  const sum = [...contents.values()].reduce((all, { length }) => all + length, 0);
  assert.deepEqual(await local.buckets.usage(APP_ID), [
    { bucket: 'main', objects: contents.size, bytes: sum },
    { bucket: 'other', objects: 1, bytes: 1 },
  ]);
});

test('an object that is missing or damaged in the bucket is named', async (t) => {
  const { buckets, store } = await startRemoteBuckets(t);
  const folder = { place: store.place('of/cellar/'), appId: APP_ID };
  const into = () => join(temporaryDirectory(t), 'objects');
  const none = into();
  await copyAll(folder, none);
  assert.equal(existsSync(none), false, 'nothing is left without objects');
  const remote = new BucketClient(await buckets.open(APP_ID), 'main');
  for (const key of ['first', 'second'])
    await remote.put(key, bodyOf(Buffer.alloc(100_000, key)), { httpFields: {}, customFields: [] });
  const blobs = [...store.objects].filter(([name]) => name.startsWith(`${FOLDER}main/blobs/`));
  const [name, whole] = blobs.find(([, { body }]) => body.subarray(0, 5).equals(Buffer.from('secon')))!;
  store.objects.delete(name);
  await assert.rejects(copyAll(folder, into()), /the R2 object second: .* is missing/);
  store.objects.set(name, { ...whole, body: Buffer.from(whole.body).fill('x', 99_999) });
  await assert.rejects(copyAll(folder, into()), /the R2 object second: its bytes have another etag/);
  store.objects.set(name, { ...whole, body: whole.body.subarray(1) });
  await assert.rejects(copyAll(folder, into()), /the R2 object second: it has 99999 of 100000 bytes/);
  store.objects.set(name, whole);
  const record = `${FOLDER}main/objects/-second`;
  const own = store.objects.get(record)!;
  const blob = name.slice(FOLDER.length);
  const foreign = own.body.toString().replace(blob, `main/blobs/../../../other/r2/${blob}`);
  store.objects.set(record, { ...own, body: Buffer.from(foreign) });
  await assert.rejects(copyAll(folder, into()), /the R2 object second: its record names no blob/);
  store.objects.set(record, own);
  const late = into();
  await copyObjects(folder, late, '', 60_000);
  await remote.put('third', bodyOf(Buffer.from('3')), { httpFields: {}, customFields: [] });
  await assert.rejects(finishObjects(folder, late), /this machine has 2 of 3 R2 objects/);
});
