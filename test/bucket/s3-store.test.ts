// A store that speaks S3 over an unreliable connection.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { S3Store } from '../../runtime/bucket/s3-store.ts';
import { ChangedObject, MissingObject } from '../../runtime/bucket/store.ts';
import { type Faults, MemoryStore } from '../support/bucket/memory-store.ts';
import { startS3 } from '../support/bucket/s3.ts';
import { eventually } from '../support/processes.ts';
import { startFlaky } from '../support/snapshots/flaky.ts';
import { startSnapshots } from '../support/snapshots/host.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';
const MB = 2 ** 20;

test('a snapshot is taken, verified and restored while connections are reset, some in the middle of a body', async (t) => {
  await using s3 = await startS3();
  const { settings } = s3;
  const endpoint = new URL(settings.RUNNER_SNAPSHOT_ENDPOINT);
  // Of every three connections, one is reset at its first byte, and one after 1 MiB.
  const flaky = await startFlaky(t, Number(endpoint.port), (n) => [null, 0, MB][n % 3]!);
  endpoint.port = String(flaky.port);
  const place = placeAt(endpoint.href, settings);
  const { snapshots, addApp, restored } = startSnapshots(t, { place: { s3: place } });
  const content = addApp(SHOP, 'shop', 17 * MB);
  const { head } = await snapshots.take('a test');
  assert.deepEqual((await snapshots.verify()).damaged, []);
  assert.ok((await restored(head.id, SHOP)).equals(content));
  assert.equal(snapshots.state.problem, null);
  assert.ok(flaky.counts.resets > 4, JSON.stringify(flaky.counts));
});

test('the error for an unreachable store has its address and the reason, without its query', async (t) => {
  const flaky = await startFlaky(t, 1, () => 0);
  const store = new S3Store(placeAt(`http://127.0.0.1:${flaky.port}`));
  const address = `http://127\\.0\\.0\\.1:${flaky.port}/snapshots`;
  const reset = assert.rejects(store.list('packs/'), (error: Error) => {
    assert.match(
      error.message,
      new RegExp(`^GET ${address}: .*(ECONNRESET|other side closed).* \\(6 tries\\)$`),
    );
    return true;
  });
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  const away = new S3Store(placeAt(`http://127.0.0.1:${port}`));
  const refused = new RegExp(
    `^PUT http://127\\.0\\.0\\.1:${port}/snapshots/of/a: connect ECONNREFUSED 127\\.0\\.0\\.1:${port} \\(6 tries\\)$`,
  );
  await assert.rejects(away.write('a', Buffer.from('a')), { message: refused });
  await reset;
  assert.equal(flaky.counts.connections, 6);
});

test('a busy store is retried, and one that refuses is not', async (t) => {
  const asked: string[] = [];
  const answers = [500, 503, 429, 200, 403, 404];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(answers.shift()!).end('<Error><Code>Because</Code><Message>of this</Message></Error>');
    request.resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const store = new S3Store(placeAt(`http://127.0.0.1:${port}`));
  assert.match((await store.read('a')).toString(), /Because/);
  assert.equal(asked.length, 4);
  await assert.rejects(store.read('a'), {
    message: `GET http://127.0.0.1:${port}/snapshots/of/a: answered 403: Because of this`,
  });
  await assert.rejects(store.read('a'), MissingObject);
  assert.equal(asked.length, 6);
});

test('a store may answer 404 to the removal of a missing object', async (t) => {
  const answers = ['NoSuchKey', 'NoSuchBucket'];
  const server = createServer((_request, response) => {
    response.writeHead(404).end(`<Error><Code>${answers.shift()}</Code></Error>`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const store = new S3Store(placeAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  await store.remove('a');
  await assert.rejects(store.remove('a'), /NoSuchBucket/);
});

test('of two writers of one object, the one that has not seen the other is refused', async () => {
  await using memory = await new MemoryStore().start();
  const store = new S3Store(memory.place());
  const first = await store.writeIf('a', Buffer.from('1'), null);
  await assert.rejects(store.writeIf('a', Buffer.from('2'), null), ChangedObject);
  memory.faults = { losesReplies: true };
  const written = store.writeIf('a', Buffer.from('3'), first);
  await eventually(() => memory.objects.get('a')!.body.toString() === '3', 'it is written');
  memory.faults = {};
  const third = await written;
  await assert.rejects(store.writeIf('a', Buffer.from('4'), first), ChangedObject);
  assert.deepEqual(await store.readTagged('a'), { bytes: Buffer.from('3'), etag: third });
  await assert.rejects(store.writeIf('gone', Buffer.from('5'), third), ChangedObject);
  assert.deepEqual([await store.has('a'), await store.has('gone')], [true, false]);
});

test('a file of 96 MB goes to the store and back without being loaded', async (t) => {
  const bytes = 96 * MB;
  let received = 0;
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-length': bytes });
      Readable.from(pieces(bytes)).pipe(response);
      return;
    }
    assert.equal(request.headers['content-length'], String(bytes));
    request.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    request.on('end', () => response.end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const path = join(temporaryDirectory(t), 'file');
  const store = new S3Store(placeAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  const before = process.memoryUsage.rss();
  await store.readFile('a', path);
  assert.equal(statSync(path).size, bytes);
  await store.writeFile('a', path);
  assert.equal(received, bytes);
  const risen = process.memoryUsage.rss() - before;
  assert.ok(risen < 64 * MB, `RSS rose by ${Math.round(risen / MB)} MB`);
});

function* pieces(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= MB) yield Buffer.alloc(MB, 1);
}

function placeAt(endpoint: string, settings?: Record<string, string>): S3Place {
  return {
    ...{ endpoint, region: 'auto', bucket: 'snapshots', prefix: 'of/' },
    accessKey: settings?.RUNNER_SNAPSHOT_ACCESS_KEY ?? 'a-key',
    secretKey: settings?.RUNNER_SNAPSHOT_SECRET_KEY ?? 'a-secret',
  };
}

test('a file is sent and asked for again when its transfer stalls', async (t) => {
  await using memory = await new MemoryStore().start();
  const store = new S3Store(memory.place(), { pauseMs: 300 });
  const directory = temporaryDirectory(t);
  const [sent, received] = [join(directory, 'sent'), join(directory, 'received')];
  writeFileSync(sent, 'x'.repeat(1_000));
  const during = async (faults: Faults, transfer: () => Promise<void>) => {
    const { length } = memory.asked;
    memory.faults = faults;
    const done = transfer();
    await eventually(() => memory.asked.length > length, 'the first attempt');
    memory.faults = {};
    await done;
    assert.equal(memory.asked.length, length + 2);
  };
  await during({ hangs: true }, () => store.writeFile('file', sent));
  for (const faults of [{ hangs: true }, { stalls: true }, { halves: true }]) {
    await during(faults, () => store.readFile('file', received));
    assert.equal(statSync(received).size, 1_000);
  }
});
