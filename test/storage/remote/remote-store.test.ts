// R2 objects in the bucket: concurrent writes, faults of the store, readers, holds, and orphaned blobs.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import type { S3Place } from '../../../runtime/bucket/place.ts';
import { Buckets } from '../../../runtime/storage/r2/buckets.ts';
import { BucketClient } from '../../../runtime/storage/r2/client.ts';
import { bucketAway } from '../../../runtime/storage/r2/errors.ts';
import { ObjectClient } from '../../../runtime/storage/r2/remote/object-client.ts';
import { RemoteStore } from '../../../runtime/storage/r2/remote/remote-store.ts';
import { tidy } from '../../../runtime/storage/r2/remote/tidy.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { eventually } from '../../support/processes.ts';
import { APP_ID, bodyOf, startRemoteBuckets } from '../../support/storage/r2.ts';

const plain = { httpFields: {}, customFields: [] };
const FOLDER = `of/cellar/apps/${APP_ID}/r2/`;
const HOUR_MS = 3_600_000;

/** Returns the content of an object as text. */
async function read(client: BucketClient, key: string): Promise<string> {
  const { etag, size } = await client.head(key);
  return text(await client.bytes(key, etag, { offset: 0, length: size }));
}

/** Starts a store without the service and the proxy. */
async function startStore(t: TestContext) {
  const memory = await new MemoryStore().start();
  const place: S3Place = memory.place('r2/');
  const client = new ObjectClient(place);
  const store = new RemoteStore(client);
  t.after(async () => {
    await client.close();
    await memory[Symbol.asyncDispose]();
  });
  const names = (kind: string) => [...memory.objects.keys()].filter((name) => name.includes(`/${kind}/`));
  return { memory, client, store, names };
}

async function* bytesOf(content: Buffer) {
  yield content;
}

const put = (store: RemoteStore, object: string, content: Buffer, onlyIf?: object) =>
  store.put(
    'main',
    { method: 'put', object, ...(onlyIf && { onlyIf }) },
    { size: content.length, bytes: bytesOf(content) },
  );

test('nothing of the objects is on the disk, and the next service finds them in the bucket', async (t) => {
  const { paths, buckets, store, counts } = await startRemoteBuckets(t);
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  await client.put('small', bodyOf(Buffer.from('small')), plain);
  await client.put('large', bodyOf(Buffer.alloc(3 * 2 ** 20, 'l')), plain);
  assert.deepEqual(readdirSync(paths.buckets(APP_ID)), ['r2.sock']);
  assert.ok([...store.objects.keys()].every((name) => name.startsWith(FOLDER)));
  process.kill((await buckets.pid)!, 'SIGKILL');
  await eventually(async () => (await read(client, 'small')) === 'small', 'the next service answers');
  assert.equal((await read(client, 'large')).length, 3 * 2 ** 20);
  await eventually(() => (counts.get(APP_ID)?.writes ?? 0) > 2, 'requests count for the app');
  const [usage] = await buckets.usage(APP_ID);
  assert.deepEqual([usage!.bucket, usage!.objects, usage!.bytes > 3 * 2 ** 20], ['main', 2, true]);
});

test('while the bucket is away, the API says so', async (t) => {
  const { buckets, store } = await startRemoteBuckets(t);
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  store.faults = { isBusy: true };
  await assert.rejects(client.head('k'), {
    ...{ status: 503, code: 'host_unavailable' },
    message: /^The bucket of this Cellar does not answer/,
  });
});

test('of concurrent conditional puts one succeeds, and unconditional ones leave one object', async (t) => {
  const { store, names } = await startStore(t);
  const contents = Array.from({ length: 8 }, (_, n) => Buffer.alloc(20_000, `${n}`));
  const none = { etagDoesNotMatch: [{ type: 'wildcard' }] };
  const ended = await Promise.allSettled(contents.map((content) => put(store, 'once', content, none)));
  assert.equal(ended.filter(({ status }) => status === 'fulfilled').length, 1);
  await Promise.all(contents.map((content) => put(store, 'all', content)));
  await store.removals.close();
  assert.deepEqual([names('objects').length, names('blobs').length], [2, 2]);
  const { record } = (await store.records.read('main/objects/-all'))!;
  assert.ok(names('blobs').includes(`r2/${record.blobs[0]!.file}`));
});

test('a store that is away is an error that says so, and one that loses answers loses nothing', async (t) => {
  const { memory, store, names } = await startStore(t);
  await put(store, 'a', Buffer.from('first'));
  memory.faults = { losesReplies: true };
  const lost = put(store, 'a', Buffer.from('second'));
  lost.catch(() => {});
  await eventually(() => memory.asked.filter(({ method }) => method === 'PUT').length >= 3, 'it tries again');
  memory.faults = {};
  const { etag } = await lost;
  assert.equal((await store.head('main', { method: 'head', object: 'a' })).etag, etag);
  memory.faults = { isBusy: true };
  const refused = { status: 504, code: 10043, message: /bucket of this Cellar does not answer/ };
  await assert.rejects(store.head('main', { method: 'head', object: 'a' }), refused);
  await assert.rejects(put(store, 'b', Buffer.alloc(2 ** 20)), refused);
  memory.faults = {};
  assert.equal(names('objects').length, 1);
});

test('bytes stay while it is unknown whether their record was written', async (t) => {
  const { memory, client, store, names } = await startStore(t);
  const read = client.read.bind(client);
  const reading = t.mock.method(client, 'read', (name: string) => {
    if (reading.mock.callCount() > 0) return Promise.reject(bucketAway('the bucket is away'));
    memory.faults = { losesReplies: true };
    return read(name);
  });
  await assert.rejects(put(store, 'large', Buffer.alloc(3 * 2 ** 20)), /the bucket is away/);
  assert.equal(reading.mock.callCount(), 2);
  memory.faults = {};
  await store.removals.close();
  assert.deepEqual([names('objects').length, names('blobs').length], [1, 1]);
});

test('a body that breaks off leaves nothing, and fails with its own error', async (t) => {
  const { store, memory } = await startStore(t);
  async function* broken() {
    yield Buffer.alloc(500_000);
    throw new Error('the client has left');
  }
  const request = { method: 'put' as const, object: 'x' };
  await assert.rejects(store.put('main', request, { size: 2 ** 20, bytes: broken() }), {
    message: 'the client has left',
  });
  assert.equal(memory.objects.size, 0);
});

test('a reader keeps its bytes, and during a hold none are removed', async (t) => {
  const { store, names } = await startStore(t);
  await put(store, 'k', Buffer.alloc(100_000, 'a'));
  const found = await store.get('main', { method: 'get', object: 'k' }, () => {});
  await put(store, 'k', Buffer.alloc(100_000, 'b'));
  await store.removals.close();
  assert.equal(names('blobs').length, 2, 'it is being read');
  await store.removals.hold(true);
  found.release();
  await store.removals.close();
  assert.equal(names('blobs').length, 2, 'it is held');
  await store.removals.hold(false);
  await eventually(() => names('blobs').length === 1, 'it is removed');
});

test('tidying removes old blobs without a record and old uploads, and nothing else', async (t) => {
  const { store, client, memory, names } = await startStore(t);
  await put(store, 'k', Buffer.alloc(100_000));
  const upload = (object: string) => store.createUpload('main', { method: 'createMultipartUpload', object });
  const part = (object: string, uploadId: string) =>
    store.uploadPart(
      'main',
      { method: 'uploadPart', object, uploadId, partNumber: 1 },
      { size: 4, bytes: bytesOf(Buffer.from('part')) },
    );
  const [open, done] = [await upload('open'), await upload('done')];
  await part('open', open);
  const etag = await part('done', done);
  await store.completeUpload('main', {
    ...{ method: 'completeMultipartUpload', object: 'done', uploadId: done },
    parts: [{ part: 1, etag }],
  });
  await client.write('main/blobs/orphan', Buffer.from('cut'));
  const before = names('blobs').length;
  await tidy(client, store, Date.now());
  await store.removals.close();
  assert.equal(names('blobs').length, before, 'young ones stay');
  await tidy(client, store, Date.now() + 24 * HOUR_MS);
  await store.removals.close();
  assert.deepEqual([names('blobs').length, memory.objects.has('r2/main/blobs/orphan')], [before - 1, false]);
  await tidy(client, store, Date.now() + 8 * 24 * HOUR_MS);
  await store.removals.close();
  assert.deepEqual([names('uploads').length, names('blobs').length], [0, before - 2]);
  assert.equal((await store.head('main', { method: 'head', object: 'done' })).size, 4);
});

test('an interrupted completion of an upload can be repeated, and an abort does not take its bytes', async (t) => {
  const { store, client, names } = await startStore(t);
  const uploadId = await store.createUpload('main', { method: 'createMultipartUpload', object: 'k' });
  const body = { size: 4, bytes: bytesOf(Buffer.from('part')) };
  const etag = await store.uploadPart(
    'main',
    { method: 'uploadPart', object: 'k', uploadId, partNumber: 1 },
    body,
  );
  const name = `main/uploads/${uploadId}`;
  const complete = () =>
    store.completeUpload('main', {
      ...{ method: 'completeMultipartUpload' as const, object: 'k', uploadId },
      parts: [{ part: 1, etag }],
    });
  const { version } = await complete();
  // As if the service had ended before it noted the completion.
  const upload = JSON.parse((await client.read(name)).bytes.toString());
  const again = () => client.write(name, Buffer.from(JSON.stringify({ ...upload, state: 'open' })));
  await again();
  assert.equal((await complete()).version, version);
  await again();
  await store.abortUpload('main', { method: 'abortMultipartUpload', object: 'k', uploadId });
  await store.removals.close();
  assert.equal(names('blobs').length, 1);
});

test('keys that are too long for the bucket are refused with the reason, and do not exist', async (t) => {
  const { store } = await startStore(t);
  const long = 'x'.repeat(1024);
  await assert.rejects(put(store, long, Buffer.from('x')), {
    code: 10020,
    message: /^The object name is \d+ bytes too long: this app keeps its objects in a bucket/,
  });
  await assert.rejects(store.head('main', { method: 'head', object: long }), { code: 10007 });
  await store.delete('main', { method: 'delete', object: long });
  assert.deepEqual((await store.list('main', { method: 'list', prefix: long })).objects, []);
});

test('objects that were on the disk are moved into the bucket once, without replacing newer ones', async (t) => {
  const remote = await startRemoteBuckets(t);
  const local = new Buckets({
    ...{ paths: remote.paths, users: () => ({ build: null, cell: null }) },
    service: { maxMb: 0, floorMb: 0 },
  });
  const before = new BucketClient(await local.open(APP_ID), 'main');
  const contents: Record<string, string> = {
    small: 's',
    'a/b': 'm'.repeat(50_000),
    large: 'l'.repeat(2 ** 20),
  };
  for (const [key, content] of Object.entries(contents))
    await before.put(key, bodyOf(Buffer.from(content)), {
      httpFields: { contentType: 'a/b' },
      customFields: [{ k: 'a', v: 'b' }],
    });
  const uploadId = await before.createUpload('parts', plain);
  const sizes = [5 * 2 ** 20, 7];
  const parts = [];
  for (const [n, size] of sizes.entries()) {
    const body = bodyOf(Buffer.alloc(size, `${n}`));
    parts.push({ part: n + 1, etag: await before.uploadPart('parts', uploadId, n + 1, body) });
  }
  await before.completeUpload('parts', uploadId, parts);
  const known = await before.list({ limit: 10 });
  await local.close();
  // As if an earlier, interrupted move had moved `small`, and the app had replaced it since.
  const record = JSON.stringify({
    ...{ version: 'v', size: 3, etag: 'e', uploaded: 1, checksums: '{}', storage_class: 'Standard' },
    ...{ http_metadata: '{}', custom_metadata: '[]', blobs: [], inline: 'bmV3' },
  });
  const kept = { body: Buffer.from(record), etag: '"e"', at: new Date().toISOString() };
  remote.store.objects.set(`${FOLDER}main/objects/-small`, kept);

  const client = new BucketClient(await remote.buckets.open(APP_ID), 'main');
  contents.small = 'new';
  const moved = await client.list({ limit: 10 });
  const others = ({ objects }: typeof known) => objects.filter(({ name }) => name !== 'small');
  assert.deepEqual([moved.objects.length, others(moved)], [4, others(known)]);
  for (const [key, content] of Object.entries(contents)) assert.equal(await read(client, key), content);
  const joined = sizes.map((size, n) => `${n}`.repeat(size)).join('');
  assert.ok((await read(client, 'parts')) === joined);
  assert.deepEqual(readdirSync(remote.paths.buckets(APP_ID)), ['r2.sock']);
  assert.ok(!existsSync(join(remote.paths.buckets(APP_ID), 'index.sqlite')));
});

test('many keys are listed in pages, by prefix and by folder, with few lists of the store', async (t) => {
  const { memory, store } = await startStore(t);
  const record = JSON.stringify({
    ...{ version: 'v', size: 1, etag: 'e', uploaded: 1, checksums: '{}', storage_class: 'Standard' },
    ...{ http_metadata: '{}', custom_metadata: '[]', blobs: [], inline: 'eA==' },
  });
  for (let n = 0; n < 5_000; n++)
    memory.objects.set(`r2/main/objects/-folder${n % 5}.1${n}`, {
      ...{ body: Buffer.from(record), etag: `"${n}"`, at: new Date().toISOString() },
    });
  const lists = () =>
    memory.asked.filter(({ key }) => key.startsWith('r2/main/objects/-') && !/\d$/.test(key));
  const folders = await store.list('main', { method: 'list', delimiter: '/' });
  assert.deepEqual(folders.delimitedPrefixes, ['folder0/', 'folder1/', 'folder2/', 'folder3/', 'folder4/']);
  assert.ok(lists().length <= 7, `${lists().length} lists`);
  const found: string[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await store.list('main', { method: 'list', prefix: 'folder3/', ...(cursor && { cursor }) });
    found.push(...page.objects.map(({ key }) => key.toString()));
    cursor = page.cursor ?? undefined;
  }
  const expected = Array.from({ length: 1_000 }, (_, n) => `folder3/${n * 5 + 3}`).sort();
  assert.deepEqual(found, expected);
});
