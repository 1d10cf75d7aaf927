// The bucket service with malicious clients, slow clients, and large amounts of data.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import type { Layout } from '../../runtime/disk/data-directory.ts';
import type { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import type { ServiceOptions } from '../../runtime/storage/r2/messages.ts';
import { openObjectIndex } from '../../sqlite/storage/objects.ts';
import { eventually } from '../support/processes.ts';
import {
  APP_ID,
  bodyOf,
  type Step,
  startApp,
  startBuckets,
  startRemoteBuckets,
} from '../support/storage/r2.ts';

const plain = { httpFields: {}, customFields: [] };
const put = (size: number, object = 'x') => {
  const metadata = JSON.stringify({ method: 'put', object });
  return `PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: ${metadata.length}\r\ncontent-length: ${metadata.length + size}\r\n\r\n${metadata}`;
};
const get = (request: string, more = 'x-cellar-bucket: main\r\n') =>
  `GET / HTTP/1.1\r\nhost: x\r\n${more}cf-r2-request: ${request}\r\n\r\n`;

type Started = { paths: Layout; buckets: Buckets };
/** The two places where the service can keep objects. */
const PLACES: [
  where: string,
  start: (t: TestContext, service?: ServiceOptions) => Started | Promise<Started>,
][] = [
  ['on the disk', startBuckets],
  ['in the bucket', startRemoteBuckets],
];

/** Runs a test against both stores. */
function testBoth(
  name: string,
  work: (t: TestContext, start: (service?: ServiceOptions) => Promise<Started>) => Promise<void>,
): void {
  for (const [where, start] of PLACES)
    test(`${name} (${where})`, (t) => work(t, async (service) => start(t, service)));
}

/** Writes bytes to a socket. Resolves with the response at the close, or when it matches `until`. */
function say(socket: string, bytes: string | Buffer, until = /\r\n\r\n/): Promise<string> {
  return new Promise((resolve, reject) => {
    const connection = connect(socket);
    let answer = '';
    const end = () => {
      connection.destroy();
      resolve(answer);
    };
    connection.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (until.test(answer)) end();
    });
    connection.on('close', end).on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') reject(error);
      else end();
    });
    connection.write(bytes);
  });
}

testBoth('malformed requests are refused, and the service keeps serving', async (_, start) => {
  const { paths, buckets } = await start({ maxMb: 0, floorMb: 0, silenceMs: 1_000 });
  const socket = await buckets.open(APP_ID);
  const pid = await buckets.pid;
  const client = new BucketClient(socket, 'main');
  await client.put('kept', bodyOf(Buffer.from('kept')), plain);
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
  for (const junk of [
    randomBytes(4096),
    '\r\n\r\n\r\n',
    'GET / HTTP/1.1\r\nhost: x\r\n\r\n',
    'DELETE / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\n\r\n',
    get('{'),
    get('null'),
    get('{"method":"put","object":"x"}'),
    get('{"method":"usages"}'),
    get('{"method":"get","object":{"toString":1}}'),
    get(deep),
    get('{"method":"head","object":"x"}', ''),
    ...['../main', 'MAIN', '.', 'a/b', 'main\u0001', 'x'.repeat(65)].map((bucket) =>
      get('{"method":"head","object":"x"}', `x-cellar-bucket: ${bucket}\r\n`),
    ),
    get('{"method":"list","limit":1e9}'),
    get('{"method":"list","cursor":"!!!","limit":"a"}'),
    get(`{"method":"head","object":"${'x'.repeat(300_000)}"}`),
    'PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: 99\r\ncontent-length: 2\r\n\r\n{}',
    'PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: -1\r\ncontent-length: 2\r\n\r\n{}',
    'PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: 2\r\ncontent-length: 2\r\n\r\n{}',
    'PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: 1e9\r\ncontent-length: 2000000000\r\n\r\n',
    'PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    `PUT / HTTP/1.1\r\nhost: x\r\nx-cellar-bucket: main\r\ncf-r2-metadata-size: ${deep.length}\r\ncontent-length: ${deep.length}\r\n\r\n${deep}`,
  ]) {
    const answer = await say(socket, junk);
    assert.doesNotMatch(answer, /^HTTP\/1\.1 200/, `${String(junk).slice(0, 100)}: ${answer}`);
    assert.doesNotMatch(answer, /node:|\/work|\.ts/, answer);
  }
  assert.equal((await client.head('kept')).size, 4);
  assert.equal(await buckets.pid, pid, 'it is the same process');
  assert.deepEqual(readdirSync(paths.allBuckets), [APP_ID]);
});

test('a stalled body is aborted and leaves nothing', async (t) => {
  const { paths, buckets } = startBuckets(t, { maxMb: 0, floorMb: 0, silenceMs: 1_500 });
  const socket = await buckets.open(APP_ID);
  const client = new BucketClient(socket, 'main');
  await client.put('x', bodyOf(Buffer.from('before')), plain);
  const begun = performance.now();
  await Promise.all(Array.from({ length: 40 }, () => say(socket, `${put(1_000_000)}half`)));
  assert.ok(performance.now() - begun < 60_000);
  assert.equal((await client.head('x')).size, 6);
  const blobs = join(paths.buckets(APP_ID), 'blobs');
  await eventually(() => readdirSync(blobs).length === 1, 'the halves have gone');
  assert.equal((await client.put('y', bodyOf(Buffer.from('next')), plain)).size, 4);

  // As if the client disconnected while the host looks up the app's buckets.
  const gone = new Readable({ read() {} });
  gone.destroy();
  await once(gone, 'close');
  const broken = client.put('x', { size: 1_000_000, bytes: gone }, plain);
  await assert.rejects(broken, { code: 'bad_request', message: 'the body was broken off' });
  await eventually(() => readdirSync(blobs).length === 2, 'the one that was broken off before has gone');
});

testBoth("a large body and many slow readers leave most of the service's memory free", async (t, start) => {
  const { buckets } = await start();
  const socket = await buckets.open(APP_ID);
  const pid = await buckets.pid;
  const reservedMb = () =>
    Number(/^VmData:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
  const before = reservedMb();
  const client = new BucketClient(socket, 'main');
  await client.put('large', bodyOf(Buffer.alloc(8 * 2 ** 20)), plain);
  const slow = await Promise.all(
    Array.from({ length: 600 }, async () => {
      const connection = connect(socket);
      connection.write(get('{"method":"get","object":"large"}'));
      // The client reads only the first bytes, so the rest waits in the service.
      await once(connection, 'readable');
      return connection;
    }),
  );
  const grownMb = reservedMb() - before;
  t.diagnostic(`${grownMb.toFixed(0)} MiB more than before`);
  assert.ok(grownMb < 500, `${grownMb} MiB`);
  for (const connection of slow) connection.destroy();
  assert.equal((await client.head('large')).size, 8 * 2 ** 20);
  assert.equal(await buckets.pid, pid, 'it is the same process');
});

testBoth(
  'calls while the service is down wait for the next process, which has a memory limit',
  async (t, start) => {
    const made = await start();
    const { run } = await startApp(t, made);
    await run([['put', 'kept', 'before']]);
    for (let round = 0; round < 3; round++) {
      const pid = (await made.buckets.pid)!;
      process.kill(pid, 'SIGKILL');
      await eventually(() => !existsSync(`/proc/${pid}/fd`), 'the service has gone');
      const client = new BucketClient(made.buckets.access(APP_ID).socket, 'main');
      const [[got, put], { size }] = await Promise.all([
        run([
          ['get', 'kept'],
          ['put', `round ${round}`, 'x'],
        ]),
        client.head('kept'),
        client.put('another', bodyOf(Buffer.from('y')), plain),
      ]);
      assert.equal(Buffer.from(got!.value.body, 'hex').toString(), 'before');
      assert.deepEqual([put!.value.size, size], [1, 6]);
    }
    const limits = readFileSync(`/proc/${await made.buckets.pid}/limits`, 'utf8');
    assert.match(limits, /^Max data size +3221225472 +3221225472/m);
  },
);

test('a reader gets the whole object even if it is replaced or deleted meanwhile', async (t) => {
  const { paths, buckets } = startBuckets(t);
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  const size = 8 * 2 ** 20;
  const { etag } = await client.put('large', bodyOf(Buffer.alloc(size, 'a')), plain);
  const stream = await client.bytes('large', etag, { offset: 0, length: size });
  await client.put('large', bodyOf(Buffer.from('small')), plain);
  await client.delete('large');
  const bytes = Buffer.concat(await stream.toArray());
  assert.ok(bytes.equals(Buffer.alloc(size, 'a')));
  await eventually(
    () => readdirSync(join(paths.buckets(APP_ID), 'blobs')).length === 0,
    'its files have gone',
  );
});

test('100,000 keys are listed in pages, by prefix and by folder, without delaying other calls', async (t) => {
  const { paths, buckets } = startBuckets(t);
  const directory = paths.buckets(APP_ID);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const index = openObjectIndex(join(directory, 'index.sqlite'));
  index.transaction(() => {
    for (let n = 0; n < 100_000; n++) {
      const key = Buffer.from(`folder-${n % 50}/${String(n).padStart(6, '0')}`);
      const known = { etag: 'e'.repeat(32), uploaded: 1, storage_class: 'Standard', checksums: '{}' };
      index.putObject({
        ...{ bucket: 'main', key, version: `v${n}`, size: 1, http_metadata: '{}', custom_metadata: '[]' },
        ...known,
      });
    }
  });
  index.close();
  const { run } = await startApp(t, { paths, buckets });
  const timed = async (steps: Step[]) => {
    const begun = performance.now();
    const answers = await run(steps);
    return { answers, ms: performance.now() - begun };
  };
  const folders = await timed([['list', { delimiter: '/' }]]);
  assert.equal(folders.answers[0]!.value.delimitedPrefixes.length, 50);
  const page = await timed([['list', { prefix: 'folder-7/', delimiter: '/' }]]);
  assert.equal(page.answers[0]!.value.objects.length, 1_000);
  assert.equal(page.answers[0]!.value.truncated, true);
  t.diagnostic(
    `50 folders of 100,000 keys in ${folders.ms.toFixed(0)} ms, 1,000 keys in ${page.ms.toFixed(0)} ms`,
  );
  assert.ok(folders.ms < 20_000 && page.ms < 20_000);
  const many = Array.from({ length: 1_001 }, (_, n) => `folder-0/${n}`);
  const [deletion] = await run([['delete', many]]);
  assert.match(deletion!.error!, /^Error: delete: a delete may name at most 1000 keys \(10029\)$/);
  const client = new BucketClient(buckets.access(APP_ID).socket, 'main');
  let count = 0;
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const found = await client.list({ limit: 1000, ...(cursor && { cursor }) });
    count += found.objects.length;
    cursor = found.cursor;
  }
  assert.equal(count, 100_000);
});

testBoth('HTTP metadata counts toward the limit of metadata of an object', async (t, start) => {
  const { run } = await startApp(t, await start());
  const httpMetadata = { contentType: 'x'.repeat(4_000), cacheControl: 'x'.repeat(4_000) };
  const answers = await run([
    ['put', 'most', 'x', { httpMetadata, customMetadata: { a: 'x'.repeat(191) } }],
    ['put', 'more', 'x', { httpMetadata, customMetadata: { a: 'x'.repeat(192) } }],
    ['put', 'large', 'x', { httpMetadata: { contentType: 'x'.repeat(3_000_000) } }],
    ['createMultipartUpload', 'large', { httpMetadata: { contentType: 'x'.repeat(8_193) } }],
    ['list', {}],
  ]);
  const tooLarge = /Your metadata headers exceed the maximum allowed metadata size\. \(10012\)$/;
  for (const answer of answers.slice(1, 4)) assert.match(answer.error!, tooLarge);
  assert.deepEqual(
    answers[4]!.value.objects.map(({ key }: { key: string }) => key),
    ['most'],
  );
});

test('an older object with more metadata is readable, and a list leaves out metadata that is too large', async (t) => {
  const { paths, buckets } = startBuckets(t);
  const directory = paths.buckets(APP_ID);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const index = openObjectIndex(join(directory, 'index.sqlite'));
  const known = { etag: 'e'.repeat(32), uploaded: 1, storage_class: 'Standard', checksums: '{}', size: 0 };
  const long = { small: 10_000, large: 500_000 };
  for (const [name, length] of Object.entries(long))
    index.putObject({
      ...{ ...known, bucket: 'main', key: Buffer.from(name), version: name, custom_metadata: '[]' },
      http_metadata: JSON.stringify({ contentType: 'x'.repeat(length) }),
    });
  index.close();
  const { run } = await startApp(t, { paths, buckets });
  const answers = await run([
    ['head', 'large'],
    ['list', { include: ['httpMetadata'] }],
    ['list', { include: ['customMetadata'] }],
  ]);
  const lengths = (at: number) =>
    answers[at]!.value.objects.map(
      ({ httpMetadata }: { httpMetadata: { contentType?: string } }) => httpMetadata.contentType?.length,
    );
  assert.equal(answers[0]!.value.httpMetadata.contentType.length, long.large);
  assert.deepEqual(lengths(1), [undefined, long.small]);
  assert.deepEqual(lengths(2), [undefined, undefined]);
});

testBoth("an app's storage is limited: objects and parts of unfinished uploads", async (t, start) => {
  const { buckets, paths } = await start({ maxMb: 12, floorMb: 0 });
  const { run } = await startApp(t, { buckets, paths });
  const five = { $fill: 5 * 2 ** 20 };
  const answers = await run([
    ['createMultipartUpload', 'half'],
    ['uploadPart', 0, 1, five],
    ['uploadPart', 0, 2, five],
    ['uploadPart', 0, 3, five],
    ['put', 'more', five],
    ['abort', 0],
    ['put', 'more', five],
  ]);
  const tooMuch =
    /^Error: (uploadPart|put): The objects of this app may have at most 12 MiB in all \(RUNNER_APP_MAX_MB\)\. \(100100\)$/;
  assert.match(answers[3]!.error!, tooMuch);
  assert.match(answers[4]!.error!, tooMuch);
  assert.equal(answers[6]!.value.size, 5 * 2 ** 20);
});

test('an almost full disk takes no objects', async (t) => {
  const full = startBuckets(t, { maxMb: 0, floorMb: 1_000_000_000 });
  const [refused] = await (await startApp(t, full)).run([['put', 'x', 'y']]);
  assert.match(
    refused!.error!,
    /^Error: put: The disk of this machine is almost full \(RUNNER_DISK_FLOOR_MB is \d+\)\. \(10043\)$/,
  );
});

test('an upload that is not completed in seven days is removed with its parts', async (t) => {
  const { paths, buckets } = startBuckets(t);
  const directory = paths.buckets(APP_ID);
  mkdirSync(join(directory, 'blobs'), { recursive: true, mode: 0o700 });
  const index = openObjectIndex(join(directory, 'index.sqlite'));
  t.after(() => index.close());
  const week = 7 * 24 * 60 * 60_000;
  const described = { storage_class: 'Standard', http_metadata: '{}', custom_metadata: '[]' };
  for (const [id, age] of [
    ['old', week + 1_000],
    ['young', week - 60_000],
  ] as const) {
    index.addUpload({ id, bucket: 'main', key: Buffer.from('k'), created: Date.now() - age, ...described });
    index.putBlob({ owner: id, part: 1, file: `${id}-part`, size: 4, etag: 'e', md5: 'm' });
    writeFileSync(join(directory, 'blobs', `${id}-part`), 'part');
  }
  writeFileSync(join(directory, 'blobs', 'litter'), 'cut short');
  const client = new BucketClient(await buckets.open(APP_ID), 'main');
  await client.list({ limit: 1 });
  await eventually(
    () => readdirSync(join(directory, 'blobs')).join() === 'young-part',
    'the old one has gone',
  );
  assert.equal(index.upload('old'), undefined);
  assert.equal(index.upload('young')?.state, 'open');
});

testBoth(
  'customer-provided keys and unknown storage classes are refused, and known ones kept',
  async (t, start) => {
    const { run } = await startApp(t, await start());
    const answers = await run([
      ['put', 'a', 'x', { ssecKey: 'ab'.repeat(32) }],
      ['get', 'a'],
      ['put', 'b', 'x', { storageClass: 'InfrequentAccess' }],
      ['head', 'b'],
      ['put', 'b', 'x', { storageClass: 'Frozen' }],
    ]);
    assert.match(
      answers[0]!.error!,
      /^Error: put: customer-provided keys \(SSE-C\) are not supported \(10029\)$/,
    );
    assert.equal(answers[1]!.value, null);
    assert.equal(answers[3]!.value.$storageClass, 'InfrequentAccess');
    assert.match(answers[4]!.error!, /The storage class specified is not valid\. \(10029\)$/);
  },
);
