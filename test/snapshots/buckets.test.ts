// Snapshots of buckets whose objects are put, replaced and deleted during the snapshot.
import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { Part } from '../../runtime/snapshots/store/manifest.ts';
import { PackReader, PackWriter } from '../../runtime/snapshots/store/packs.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { Capture } from '../../runtime/snapshots/take/capture.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import { openObjectIndex } from '../../sqlite/storage/objects.ts';
import { eventually } from '../support/processes.ts';
import { APP_ID, bodyOf, startBuckets } from '../support/storage/r2.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const plain = { httpFields: {}, customFields: [] };

test("each object in a snapshot's index is complete, even if it was added, changed or deleted meanwhile", async (t) => {
  const { paths, buckets } = startBuckets(t);
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  const put = (key: string, text: string) => client.put(key, bodyOf(Buffer.from(text)), plain);
  await put('early', 'early');
  // Half of the bytes of `slow` have arrived when the snapshot reads the files.
  const half = 'slow'.repeat(2 ** 19);
  const bytes = new PassThrough();
  const slow = client.put('slow', { size: 2 * half.length, bytes }, plain);
  bytes.write(half);
  const kept = join(paths.buckets(APP_ID), 'blobs');
  const sizes = () => readdirSync(kept).map((file) => statSync(join(kept, file)).size);
  await eventually(() => sizes().some((size) => size > 5), 'a part of it is on the disk');
  const directory = temporaryDirectory(t);
  const store = openStore({ directory: join(directory, 'store') });
  const packs = new PackWriter(store, []);
  const seen: string[] = [];
  const hold = async (appId: string, isHeld: boolean) => {
    await buckets.hold(appId, isHeld);
    seen.push(`held ${isHeld}`);
    // By now the existing files have been read, but not the index.
    if (!isHeld) return;
    await put('late', 'late');
    bytes.end(half);
    await slow;
  };
  const add = packs.add.bind(packs);
  packs.add = async (piece) => {
    const chunk = await add(piece);
    const isIndex = piece.toString('latin1', 0, 15) === 'SQLite format 3';
    if (isIndex) {
      seen.push('index');
      await client.delete('early');
      await put('late', 'replaced');
    }
    return chunk;
  };
  const part = await new Capture({ paths, packs, bucket: null, holdBuckets: hold, before: [] }).app({
    ...{ id: APP_ID, slug: 'a', liveDeployId: null, user: null, isInBucket: false },
  });
  await packs.finish();
  assert.deepEqual(seen, ['held true', 'index', 'held false']);

  const index = openObjectIndex(await restored(part, 'index.sqlite'));
  t.after(() => index.close());
  const objects = index.page('main', Buffer.alloc(0), 100);
  assert.deepEqual(
    objects.map(({ key }) => String(key)),
    ['early', 'late', 'slow'],
  );
  for (const { key, version } of objects)
    for (const { file } of index.blobs(version))
      assert.ok(
        (await contents(part, file)) === (String(key) === 'slow' ? half + half : String(key)),
        String(key),
      );
  await eventually(() => readdirSync(kept).length === 2, 'what was held is removed afterwards');

  async function contents({ files }: Part, name: string): Promise<string | undefined> {
    const file = files.find(({ path }) => basename(path) === name);
    const reader = new PackReader(store);
    let text = '';
    for (const chunk of file?.chunks ?? []) text += (await reader.read(chunk)).toString('latin1');
    return file && text;
  }
  async function restored(part: Part, name: string): Promise<string> {
    const path = join(directory, name);
    writeFileSync(path, Buffer.from((await contents(part, name))!, 'latin1'));
    return path;
  }
});

test('buckets are held only while their index is read, and not when nothing has changed', async (t) => {
  const { paths, buckets } = startBuckets(t);
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  await client.put('one', bodyOf(Buffer.from('one')), plain);
  const packs = new PackWriter(openStore({ directory: temporaryDirectory(t) }), []);
  let before: Part[] = [];
  const holdsOfCapture = async () => {
    const holds: boolean[] = [];
    const hold = async (_app: string, isHeld: boolean) => void holds.push(isHeld);
    const app = { id: APP_ID, slug: 'a', liveDeployId: null, user: null, isInBucket: false };
    before = [await new Capture({ paths, packs, bucket: null, holdBuckets: hold, before }).app(app)];
    return holds;
  };
  assert.deepEqual(await holdsOfCapture(), [true, false]);
  // The next snapshots read files again that were written only a moment ago.
  await eventually(async () => (await holdsOfCapture()).length === 0, 'nothing is held');
  await client.put('two', bodyOf(Buffer.from('two')), plain);
  assert.deepEqual(await holdsOfCapture(), [true, false]);
});

test('buckets that open after the hold are held too, and those that close meanwhile cause no error', async (t) => {
  const { paths, buckets } = startBuckets(t);
  await buckets.hold(APP_ID, true);
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  const files = () => readdirSync(join(paths.buckets(APP_ID), 'blobs'));
  await client.put('x', bodyOf(Buffer.from('x')), plain);
  await client.delete('x');
  await client.put('y', bodyOf(Buffer.from('y')), plain);
  assert.equal(files().length, 2);
  await buckets.hold(APP_ID, false);
  assert.equal(files().length, 1);
  await buckets.hold(APP_ID, true);
  await buckets.forget(APP_ID);
  await buckets.hold(APP_ID, false);
  assert.equal((await new BucketClient(await buckets.open(APP_ID), 'main').head('y')).size, 1);
});
