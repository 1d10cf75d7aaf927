// R2 objects of apps that keep their data in the bucket, through a real host and its proxy.
// Runs as root too.
import assert from 'node:assert/strict';
import { chownSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { layoutOf } from '../../runtime/disk/data-directory.ts';
import { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { startS3 } from '../support/bucket/s3.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { rpc, snapshot } from '../support/e2e/snapshots.ts';
import { eventually } from '../support/processes.ts';
import { bodyOf } from '../support/storage/r2.ts';

const PREFIX = 'of/cellar/';
/**
 * `POST /key` puts an object, `PUT /key` a larger one in two parts, and `DELETE /key` deletes it. `GET /key` returns an object,
 * abbreviated if it is long, and `GET /` lists.
 */
const APP = {
  'wrangler.toml': `name = "files"
main = "index.js"
compatibility_date = "2026-10-01"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
`,
  'index.js': `export default {
  async fetch(request, { FILES }) {
    const key = decodeURIComponent(new URL(request.url).pathname.slice(1));
    if (request.method === 'POST') await FILES.put(key, await request.text());
    else if (request.method === 'DELETE') await FILES.delete(key);
    else if (request.method === 'PUT') {
      const upload = await FILES.createMultipartUpload(key);
      const parts = [await upload.uploadPart(1, 'p'.repeat(5 * 2 ** 20)), await upload.uploadPart(2, await request.text())];
      await upload.complete(parts);
    } else if (key === '') {
      const { objects, delimitedPrefixes } = await FILES.list({ delimiter: '/' });
      return Response.json([...objects.map(({ key, size }) => key + '*' + size), ...delimitedPrefixes]);
    } else {
      const object = await FILES.get(key);
      if (object === null) return new Response('none', { status: 404 });
      const text = await object.text();
      return new Response(text.length > 100 ? text.slice(0, 2) + '*' + text.length + text.slice(-2) : text);
    }
    return new Response('done');
  },
};`,
};

async function deployed(cellar: Cellar, slug: string): Promise<string> {
  const { status, body } = await cellar.call('POST', '/v1/apps', { slug, storage: 'bucket' });
  assert.equal(status, 201, JSON.stringify(body));
  await cellar.deployAgain(slug, 'hello', APP);
  return body.id;
}

async function send(cellar: Cellar, slug: string, method: string, key: string, body?: string): Promise<void> {
  const { status, text } = await cellar.get(slug, `/${encodeURIComponent(key)}`, {
    method,
    ...(body && { body }),
  });
  assert.deepEqual([status, text], [200, 'done'], `${method} ${key}`);
}

const get = async (cellar: Cellar, slug: string, key: string) =>
  (await cellar.get(slug, `/${encodeURIComponent(key)}`)).text;
const list = async (cellar: Cellar, slug: string) => JSON.parse((await cellar.get(slug)).text);

const LARGE = `pp*${5 * 2 ** 20 + 4}d.`;

test('R2 objects of an app in the bucket survive a lost disk, and a snapshot brings them back', async () => {
  await using store = await startS3();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await deployed(cellar, 'files');
  await send(cellar, 'files', 'POST', 'a/ü b.txt', 'first');
  await send(cellar, 'files', 'POST', 'b', 'x'.repeat(300_000));
  await send(cellar, 'files', 'PUT', 'large', 'end.');
  const all = ['b*300000', `large*${5 * 2 ** 20 + 4}`, 'a/'];
  assert.deepEqual(await list(cellar, 'files'), all);
  assert.deepEqual(readdirSync(join(cellar.data, 'buckets', id)), ['r2.sock']);
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await cellar.stop('SIGKILL');
  for (const name of ['data', 'buckets'])
    rmSync(join(cellar.data, name, id), { recursive: true, force: true });
  await cellar.start();
  const usage = (await cellar.call('GET', `/v1/apps/${id}/storage`)).body.buckets[0];
  assert.deepEqual([usage.objects, usage.bytes > 5.5e6], [3, true], JSON.stringify(usage));
  assert.deepEqual(await list(cellar, 'files'), all);
  assert.deepEqual(
    [await get(cellar, 'files', 'a/ü b.txt'), await get(cellar, 'files', 'large')],
    ['first', LARGE],
  );

  const { key } = await snapshot(cellar);
  await send(cellar, 'files', 'POST', 'b', 'changed');
  await send(cellar, 'files', 'DELETE', 'large');
  await send(cellar, 'files', 'POST', 'later', 'x');
  await rpc(cellar, 'admin.restore', { snapshot: key, app: id });
  assert.deepEqual(await list(cellar, 'files'), all);
  assert.deepEqual(
    [await get(cellar, 'files', 'b'), await get(cellar, 'files', 'large')],
    ['xx*300000xx', LARGE],
  );
  const again = await snapshot(cellar);
  assert.ok(again.bytes < 5e6, `unchanged objects are not stored again: ${again.bytes}`);
});

test('a preview gets a copy of R2 objects, and a deleted one leaves nothing in the bucket', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await deployed(cellar, 'origin');
  await send(cellar, 'origin', 'POST', 'k', 'of the app');
  await rpcOf(cellar)('previews.set', { id, branches: true, storage: 'copy' });
  const work = await cellar.checkout('hello');
  for (const [name, text] of Object.entries(APP)) writeFileSync(join(work, name), text);
  await cellar.commit(work, 'copy');
  const pushed = await cellar.git(work, 'push', cellar.remote('origin'), 'HEAD:refs/heads/try');
  assert.match(pushed.stderr, /copying the app's storage/);
  assert.equal(await get(cellar, 'try--origin', 'k'), 'of the app');
  await send(cellar, 'try--origin', 'POST', 'k', 'of the preview');
  assert.equal(await get(cellar, 'origin', 'k'), 'of the app');
  const apps = () =>
    new Set([...store.objects.keys()].flatMap((name) => /apps\/(\w+)\/r2\//.exec(name)?.[1] ?? []));
  assert.equal(apps().size, 2);
  await rpcOf(cellar)('previews.delete', { id, preview: 'try' });
  await eventually(() => apps().size === 1, 'the objects of the preview have gone');
  assert.ok(apps().has(id));
});

test('objects that an app had on the disk move into the bucket, also those of an older snapshot', async () => {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place(PREFIX))).start();
  const id = await deployed(cellar, 'older');
  await send(cellar, 'older', 'POST', 'newer', 'x');
  const [, bucket] = /\/r2\/([^/]+)\//.exec(
    [...store.objects.keys()].find((name) => name.includes('/r2/'))!,
  )!;
  await cellar.stop();
  // Stores an object on the disk, as an earlier version of Cellar did.
  const before = new Buckets({
    ...{ paths: layoutOf(cellar.data), users: () => ({ build: null, cell: null }) },
    service: { maxMb: 0, floorMb: 0 },
  });
  const client = new BucketClient(await before.open(id), bucket!);
  await client.put('old', bodyOf(Buffer.alloc(300_000, 'o')), { httpFields: {}, customFields: [] });
  await before.close();
  const directory = join(cellar.data, 'buckets', id);
  const { uid } = statSync(directory);
  for (const name of readdirSync(directory, { recursive: true }))
    chownSync(join(directory, `${name}`), uid, uid);
  await cellar.start();
  const { key } = await snapshot(cellar);
  const both = ['newer*1', 'old*300000'];
  assert.deepEqual(await list(cellar, 'older'), both);
  assert.deepEqual(readdirSync(join(cellar.data, 'buckets', id)), ['r2.sock']);
  await send(cellar, 'older', 'DELETE', 'old');
  await rpc(cellar, 'admin.restore', { snapshot: key, app: id });
  assert.deepEqual(await list(cellar, 'older'), both);
  assert.equal(await get(cellar, 'older', 'old'), 'oo*300000oo');
});
