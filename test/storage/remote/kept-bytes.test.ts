// The count of bytes in an app's R2 objects, which the quota uses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stored } from '../../../runtime/bucket/store.ts';
import { KeptBytes } from '../../../runtime/storage/r2/remote/kept-bytes.ts';
import { ObjectClient } from '../../../runtime/storage/r2/remote/object-client.ts';
import { eventually } from '../../support/processes.ts';

/** Each list has one object, and answers when the test resolves its entry of `lists`. */
class SlowClient extends ObjectClient {
  lists: PromiseWithResolvers<number>[] = [];

  override async *pages(): AsyncGenerator<Stored[]> {
    const list = Promise.withResolvers<number>();
    this.lists.push(list);
    yield [{ name: 'main/blobs/a', bytes: await list.promise, etag: '', writtenAt: 0 }];
  }
}

test('a new count is not waited for: the old one is used and followed, also if the new one fails', async (t) => {
  const keys = { accessKey: 'a', secretKey: 's' };
  const place = { endpoint: 'http://127.0.0.1:1', region: 'auto', bucket: 'b', prefix: '', ...keys };
  const client = new SlowClient(place);
  t.after(() => client.close());
  const kept = new KeptBytes(client);
  const failed = kept.bytes();
  client.lists[0]!.reject(new Error('away'));
  await assert.rejects(failed, { message: 'away' });
  const first = [kept.bytes(), kept.bytes()];
  client.lists[1]!.resolve(100);
  assert.deepEqual(await Promise.all(first), [100, 100]);

  let laterMs = 0;
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + laterMs);
  kept.add(1);
  laterMs += 11 * 60_000;
  assert.equal(await kept.bytes(), 101);
  kept.add(2);
  assert.equal(await kept.bytes(), 103);
  client.lists[2]!.resolve(200);
  await eventually(async () => (await kept.bytes()) === 202, 'the new count is used');

  laterMs += 11 * 60_000;
  assert.equal(await kept.bytes(), 202);
  kept.add(-2);
  client.lists[3]!.reject(new Error('away'));
  assert.equal(await kept.bytes(), 200);
  assert.equal(client.lists.length, 4);
});
