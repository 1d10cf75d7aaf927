// Objects on the disk whose keys are too long for the bucket.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { BucketClient } from '../../../runtime/storage/r2/client.ts';
import { moveIn } from '../../../runtime/storage/r2/remote/move-in.ts';
import { ObjectClient } from '../../../runtime/storage/r2/remote/object-client.ts';
import { openObjectIndex } from '../../../sqlite/storage/objects.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { APP_ID, bodyOf, startBuckets } from '../../support/storage/r2.ts';

test('an object with a name that is too long for the bucket stays on the disk, with its bytes', async (t) => {
  await using memory = await new MemoryStore().start();
  const { paths, buckets } = startBuckets(t);
  const directory = paths.buckets(APP_ID);
  const local = new BucketClient(await buckets.open(APP_ID), 'main');
  const content = Buffer.alloc(100_000, 'x');
  const long = 'a/'.repeat(400);
  for (const key of ['short', long])
    await local.put(key, bodyOf(content), { httpFields: {}, customFields: [] });
  await buckets.close();
  const client = new ObjectClient(memory.place(`of/cellar/apps/${APP_ID}/r2/`));
  t.after(() => client.close());
  for (let times = 0; times < 2; times++) {
    await moveIn(directory, client);
    assert.equal([...memory.objects.keys()].filter((name) => name.endsWith('/objects/-short')).length, 1);
    assert.deepEqual(readdirSync(directory).sort().slice(0, 2), ['blobs', 'index.sqlite.left']);
    const index = openObjectIndex(join(directory, 'index.sqlite.left'));
    try {
      const kept = index.page('main', Buffer.alloc(0), 10).find(({ key }) => key.toString() === long);
      const [blob] = index.blobs(kept!.version);
      assert.deepEqual(readFileSync(join(directory, 'blobs', blob!.file)), content);
    } finally {
      index.close();
    }
  }
});
