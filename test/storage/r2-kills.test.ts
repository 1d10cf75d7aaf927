// Kills the bucket service repeatedly during writes: no acknowledged write is lost, and no object is partial.
// `R2_KILLS=200 npm test -- test/storage/r2-kills.test.ts` runs longer.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import { ObjectClient } from '../../runtime/storage/r2/remote/object-client.ts';
import type { ObjectRecord } from '../../runtime/storage/r2/remote/records.ts';
import { RemoteStore } from '../../runtime/storage/r2/remote/remote-store.ts';
import { tidy } from '../../runtime/storage/r2/remote/tidy.ts';
import { openObjectIndex } from '../../sqlite/storage/objects.ts';
import { eventually } from '../support/processes.ts';
import { APP_ID, bodyOf, startBuckets, startRemoteBuckets } from '../support/storage/r2.ts';

const KILLS = Number(process.env.R2_KILLS ?? 6);
const KEYS = 6;
/** Maximum time of writing before a kill, in ms, so that kills hit any stage of a write. */
const LONGEST_LIFE_MS = 400;

/** The bytes of version `n` of an object, which contain the version. */
const content = (key: string, n: number) => {
  const line = `${key} ${n}\n`;
  // About half of the contents are larger than 256 KiB, and are hashed in a thread.
  return Buffer.from(line.repeat(1 + ((n * 7919) % 60_000)));
};

const TIMEOUT = { timeout: 120_000 + KILLS * 2_000 };

test(`${KILLS} kills lose no acknowledged put and leave no partial object`, TIMEOUT, async (t) => {
  const { paths, buckets } = startBuckets(t);
  const { answers, writes } = await killOften(buckets);

  // The first open of the buckets removes orphaned files of kills.
  process.kill((await buckets.pid)!, 'SIGKILL');
  await eventually(answers, 'the service is back');
  const directory = paths.buckets(APP_ID);
  const index = openObjectIndex(join(directory, 'index.sqlite'));
  t.after(() => index.close());
  await eventually(() => readdirSync(join(directory, 'blobs')).every(index.hasFile), 'nothing is left');
  const objects = index.page('main', Buffer.alloc(0), 100);
  const files = objects.flatMap(({ version }) => index.blobs(version).map(({ file }) => file));
  assert.deepEqual(readdirSync(join(directory, 'blobs')).toSorted(), files.toSorted());
  assert.deepEqual(index.usage(), [
    { bucket: 'main', objects: objects.length, bytes: objects.reduce((sum, { size }) => sum + size, 0) },
  ]);
  t.diagnostic(`${writes()} writes`);
});

test(`${KILLS} kills lose no acknowledged put of an app in the bucket`, TIMEOUT, async (t) => {
  const { buckets, store } = await startRemoteBuckets(t);
  const { writes } = await killOften(buckets);
  await buckets.close();
  const folder = `of/cellar/apps/${APP_ID}/r2/`;
  const client = new ObjectClient(store.place(folder));
  const remote = new RemoteStore(client);
  await tidy(client, remote, Date.now() + 24 * 3_600_000);
  await remote.removals.close();
  await client.close();
  const [records, blobs] = ['objects', 'blobs'].map((kind) =>
    [...store.objects].filter(([name]) => name.startsWith(`${folder}main/${kind}/`)),
  );
  const used = records!.flatMap(([, { body }]) => (JSON.parse(body.toString()) as ObjectRecord).blobs);
  assert.deepEqual(blobs!.map(([name]) => name).toSorted(), used.map(({ file }) => folder + file).toSorted());
  t.diagnostic(`${writes()} writes`);
});

/** Kills the service repeatedly during writes, and checks all objects after each kill. */
async function killOften(buckets: Buckets) {
  const client = async () => new BucketClient(await buckets.open(APP_ID), 'main');
  const attempted = new Map<string, number>();
  const acknowledged = new Map<string, number>();
  let writing = false;
  const writer = async (key: string) => {
    for (let n = 1 + (attempted.get(key) ?? 0); writing; n++) {
      attempted.set(key, n);
      // Every seventh version is a deletion.
      const act = async (bucket: BucketClient) =>
        n % 7 === 0
          ? bucket.delete(key)
          : bucket.put(key, bodyOf(content(key, n)), { httpFields: {}, customFields: [] });
      await client()
        .then(act)
        .then(
          () => acknowledged.set(key, n),
          () => sleep(5),
        );
    }
  };
  const writes = () => [...acknowledged.values()].reduce((a, b) => a + b, 0);
  const answers = async () => {
    try {
      await (await client()).list({ limit: 1 });
      return true;
    } catch {
      return false;
    }
  };
  const check = async () => {
    const bucket = await client();
    for (let k = 0; k < KEYS; k++) {
      const key = `key${k}`;
      const least = acknowledged.get(key) ?? 0;
      const object = await bucket.head(key).catch((error: { code?: string }) => {
        if (error.code === 'storage_not_found') return null;
        throw error;
      });
      const bytes = object && (await bytesOf(bucket, key, object));
      const most = attempted.get(key) ?? 0;
      if (bytes === null) {
        const deleted = least === 0 || [...range(least, most)].some((n) => n % 7 === 0);
        assert.ok(deleted, `${key} is gone, acknowledged ${least}, tried ${most}`);
        continue;
      }
      const n = Number(/^\S+ (\d+)\n/.exec(bytes.toString('latin1', 0, 40))![1]);
      assert.ok(n >= least && n <= most, `${key} has ${n}, acknowledged ${least}, tried ${most}`);
      assert.ok(bytes.equals(content(key, n)), `${key} ${n} is not whole`);
    }
  };

  for (let kill = 0; kill < KILLS; kill++) {
    writing = true;
    const before = writes();
    const writers = Array.from({ length: KEYS }, (_, k) => writer(`key${k}`));
    await eventually(() => writes() > before + KEYS, 'the service takes writes');
    await sleep(Math.random() * LONGEST_LIFE_MS);
    const pid = (await buckets.pid)!;
    process.kill(pid, 'SIGKILL');
    writing = false;
    await Promise.all(writers);
    await eventually(answers, 'the service is back');
    await check();
  }
  return { answers, writes };
}

async function bytesOf(bucket: BucketClient, key: string, { size, etag }: { size: number; etag: string }) {
  const stream = await bucket.bytes(key, etag, { offset: 0, length: size });
  return Buffer.concat(await stream.toArray());
}

function* range(from: number, to: number): Generator<number> {
  for (let n = from; n <= to; n++) yield n;
}
