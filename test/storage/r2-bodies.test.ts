// How the bucket service writes bodies, and its cache of small ones.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { test } from 'node:test';
import type { Algorithm } from '../../runtime/storage/r2/bytes/algorithms.ts';
import { Blobs } from '../../runtime/storage/r2/bytes/blobs.ts';
import { DigestThreads } from '../../runtime/storage/r2/bytes/digests.ts';
import { Removals } from '../../runtime/storage/r2/bytes/removals.ts';
import { SMALL_BYTES, smallBlob } from '../../runtime/storage/r2/bytes/small-blobs.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import { METADATA_SIZE_HEADER } from '../../runtime/storage/r2/headers.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const KIB = 1024;

/** Yields a body in chunks of uneven sizes, as a socket does. */
async function* inChunks(bytes: Buffer, chunk: number): AsyncGenerator<Buffer> {
  for (let at = 0, n = 1; at < bytes.length; n++) {
    const size = 1 + ((n * 7919) % chunk);
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

test('concurrent bodies of any size are written as they arrive, each with its own digests', async (t) => {
  const directory = join(temporaryDirectory(t), 'blobs');
  const blobs = new Blobs(directory, new Removals(directory));
  await blobs.prepare();
  t.after(() => blobs.close());
  const algorithms: Algorithm[] = ['md5', 'sha256'];
  const sizes = [0, 1, 1000, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 1024 * KIB, 3_000_000, 20_000_000];
  const written = sizes.flatMap((size) =>
    [700_000, 5_000].map(async (chunk) => {
      const bytes = randomBytes(size);
      const { file, digests } = await blobs.write(inChunks(bytes, chunk), size, algorithms);
      assert.ok(readFileSync(join(directory, file)).equals(bytes), `${size} bytes in chunks of ${chunk}`);
      for (const algorithm of algorithms)
        assert.deepEqual(digests[algorithm], createHash(algorithm).update(bytes).digest(), algorithm);
    }),
  );
  await Promise.all(written);
  const all = readdirSync(directory).length;
  for (const size of [1000, 1_000_000, 9_000_000]) {
    const body = () => inChunks(Buffer.alloc(size, 'x'), 50_000);
    await assert.rejects(blobs.write(body(), size + 1, ['md5']), /ended too early/);
    await assert.rejects(blobs.write(body(), size - 1, ['md5']), /longer than its content-length/);
  }
  assert.equal(readdirSync(directory).length, all, 'nothing is left of bodies of another size');
});

test('a large body that breaks off leaves nothing and fails with its own error', async (t) => {
  const directory = join(temporaryDirectory(t), 'blobs');
  mkdirSync(directory);
  const blobs = new Blobs(directory, new Removals(directory));
  t.after(() => blobs.close());
  const given = new Error('it broke off');
  async function* broken() {
    for (let n = 0; n < 40; n++) yield Buffer.alloc(64 * KIB);
    throw given;
  }
  await assert.rejects(blobs.write(broken(), 100_000_000, ['md5']), given);
  assert.deepEqual(readdirSync(directory), []);
});

test('more bodies than threads are hashed concurrently, and dropped ones block none', async () => {
  const threads = new DigestThreads();
  const piece = Buffer.from(new SharedArrayBuffer(64 * KIB)).fill('x');
  const bodies = Array.from({ length: 20 }, () => threads.begin(['md5']));
  for (let n = 0; n < 3; n++) await Promise.all(bodies.map((body) => body.update(piece)));
  for (const dropped of bodies.splice(0, 10)) dropped.drop();
  const digests = await Promise.all(bodies.map((body) => body.end()));
  const wanted = createHash('md5')
    .update(Buffer.alloc(3 * 64 * KIB, 'x'))
    .digest();
  for (const { md5 } of digests) assert.deepEqual(md5, wanted);
});

test('small blobs are cached in bounded memory and read once', async () => {
  let reads = 0;
  const get = (file: string, bytes = SMALL_BYTES): Promise<Buffer> =>
    smallBlob(file, async () => {
      reads++;
      return Buffer.alloc(bytes);
    });
  for (let n = 0; n < 3; n++) await get('first');
  assert.equal(reads, 1);
  // The cache holds 32 MiB. An empty blob takes some bytes of it, too.
  for (const bytes of [SMALL_BYTES, 0]) {
    const many = Math.ceil((33 * 2 ** 20) / (bytes + 512));
    for (let n = 0; n < many; n++) await get(`${bytes}-${n}`, bytes);
    const before: number = reads;
    await get(`${bytes}-${many - 1}`, bytes);
    assert.equal(reads, before, 'the last one is kept');
    await get('first');
    assert.equal(reads, before + 1, 'the first one had to go');
  }
});

test('the client asks for keep-alive: writing the end of a body after the response would fail otherwise', async (t) => {
  const path = join(temporaryDirectory(t), 'service.sock');
  let connection: string | undefined;
  const server = createServer(async (request, response) => {
    connection = request.headers.connection;
    await finished(request.resume());
    response.end('{"name":"a"}');
  }).listen(path);
  await once(server, 'listening');
  t.after(() => server.close());
  const described = { httpFields: {}, customFields: [] };
  const body = { size: 4, bytes: Readable.from([Buffer.from('four')]) };
  assert.equal((await new BucketClient(path, 'files').put('a', body, described)).name, 'a');
  assert.equal(connection, 'keep-alive');
  await once(server.close(), 'close', { signal: AbortSignal.timeout(10_000) });
});

test('an object of which the ending bucket service sends only a part fails', async (t) => {
  const socket = join(temporaryDirectory(t), 'buckets.sock');
  const service = createServer((_request, response) => {
    response.writeHead(200, { [METADATA_SIZE_HEADER]: '1000', 'content-length': '2000' });
    response.write('{"name"', () => response.destroy());
  });
  service.listen(socket);
  await once(service, 'listening');
  t.after(() => service.close());
  const read = new BucketClient(socket, 'main').bytes('key', 'etag', { offset: 0, length: 0 });
  await assert.rejects(read, /in the middle of its answer|aborted|ECONNRESET/);
});
