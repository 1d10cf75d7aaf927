// Tidying removes no object that is in use, and sends few requests to the bucket.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Stored } from '../../../runtime/bucket/store.ts';
import { fewAtOnce } from '../../../runtime/storage/r2/remote/few-at-once.ts';
import { ObjectClient } from '../../../runtime/storage/r2/remote/object-client.ts';
import { RemoteStore } from '../../../runtime/storage/r2/remote/remote-store.ts';
import { tidy } from '../../../runtime/storage/r2/remote/tidy.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';

const HOUR_MS = 3_600_000;

/** Calls a hook before each read. */
class HookedClient extends ObjectClient {
  beforeRead: (name: string) => Promise<void> = async () => {};

  override async read(name: string): Promise<{ etag: string; bytes: Buffer }> {
    await this.beforeRead(name);
    return super.read(name);
  }
}

async function startStore(t: TestContext) {
  const memory = await new MemoryStore().start();
  const client = new HookedClient(memory.place('r2/'));
  const store = new RemoteStore(client);
  t.after(async () => {
    await client.close();
    await memory[Symbol.asyncDispose]();
  });
  return { memory, client, store };
}

/** Creates an upload with one part. @returns a function that completes it */
async function startUpload(store: RemoteStore, object: string) {
  const uploadId = await store.createUpload('main', { method: 'createMultipartUpload', object });
  const bytes = (async function* () {
    yield Buffer.from('part');
  })();
  const part = { method: 'uploadPart' as const, object, uploadId, partNumber: 1 };
  const etag = await store.uploadPart('main', part, { size: 4, bytes });
  return () =>
    store.completeUpload('main', {
      ...{ method: 'completeMultipartUpload', object, uploadId },
      parts: [{ part: 1, etag }],
    });
}

async function contentOf(store: RemoteStore, object: string): Promise<string> {
  const found = await store.get('main', { method: 'get', object }, () => {});
  const opened = await found.open();
  found.release();
  assert.ok(Buffer.isBuffer(opened));
  return opened.toString();
}

for (const [age, hours] of [
  ['new', 13],
  ['old', 8 * 24],
] as const)
  test(`the parts of an upload that is ${age} stay when it is completed after tidying has begun`, async (t) => {
    const { client, store } = await startStore(t);
    const complete = await startUpload(store, 'k');
    client.beforeRead = async (name) => {
      if (!name.includes('/uploads/')) return;
      client.beforeRead = async () => {};
      await complete();
    };
    for (let times = 0; times < 2; times++) {
      await tidy(client, store, Date.now() + hours * HOUR_MS);
      await store.removals.close();
      assert.equal(await contentOf(store, 'k'), 'part');
    }
  });

test('the parts of an aborted upload are removed if its abort was interrupted', async (t) => {
  const { client, store, memory } = await startStore(t);
  await startUpload(store, 'k');
  const name = [...memory.objects.keys()].find((each) => each.includes('/uploads/'))!.slice('r2/'.length);
  const upload = JSON.parse((await client.read(name)).bytes.toString());
  await client.write(name, Buffer.from(JSON.stringify({ ...upload, state: 'aborted' })));
  await tidy(client, store, Date.now() + 13 * HOUR_MS);
  await store.removals.close();
  assert.deepEqual([...memory.objects.keys()], [`r2/${name}`]);
});

/** Has many records: the last has the blob `old`, and another blob is an orphan. */
class LargeClient extends ObjectClient {
  readonly records = 20_000;
  hasOrphan = true;
  /** Records that were listed and not yet read. */
  waiting = 0;
  mostWaiting = 0;
  reads = 0;
  removed: string[] = [];

  override async *pages(prefix: string): AsyncGenerator<Stored[]> {
    const blob = (name: string): Stored => ({ name, bytes: 1, etag: name, writtenAt: 0 });
    if ('main/blobs/'.startsWith(prefix))
      yield [blob('main/blobs/old'), ...(this.hasOrphan ? [blob('main/blobs/orphan')] : [])];
    for (let first = 0; first < this.records; first += 1_000) {
      if (prefix !== '') this.waiting += 1_000;
      this.mostWaiting = Math.max(this.mostWaiting, this.waiting);
      yield Array.from({ length: 1_000 }, (_, n) => blob(`main/objects/-${first + n}`));
    }
  }

  override async read(name: string): Promise<{ etag: string; bytes: Buffer }> {
    this.waiting--;
    this.reads++;
    const blobs = name === 'main/objects/-10000' ? [{ file: 'main/blobs/old', size: 1 }] : [];
    return { etag: name, bytes: Buffer.from(JSON.stringify({ blobs })) };
  }

  override async remove(name: string): Promise<void> {
    this.removed.push(name);
  }
}

test('many records are read a page at a time, and only until each old blob is found', async (t) => {
  await using memory = await new MemoryStore().start();
  const client = new LargeClient(memory.place('large/'));
  t.after(() => client.close());
  const store = new RemoteStore(client);
  await tidy(client, store, Date.now());
  await store.removals.close();
  assert.deepEqual([client.removed, client.reads], [['main/blobs/orphan'], client.records]);
  assert.ok(client.mostWaiting <= 1_000, `${client.mostWaiting} records wait`);
  const again = new LargeClient(memory.place('again/'));
  t.after(() => again.close());
  again.hasOrphan = false;
  await tidy(again, new RemoteStore(again), Date.now());
  assert.ok(again.reads < 11_000, `${again.reads} reads`);
});

test('of many items a few are taken at once, all are tried, and the first failure is thrown', async () => {
  let running = 0;
  let most = 0;
  let done = 0;
  const items = Array.from({ length: 100_000 }, (_, n) => n);
  const tried = fewAtOnce(items, async (n) => {
    most = Math.max(most, ++running);
    await null;
    running--;
    done++;
    if (n % 10 === 3) throw new Error(`${n} failed`);
  });
  await assert.rejects(tried, { message: '3 failed' });
  assert.deepEqual([most, done], [16, 100_000]);
});
