// A broken or malicious store: endless answers, invalid answers, and names that lead to other objects or files.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { nextAlarm, removeApp } from '../../runtime/bucket/app-folder.ts';
import { BucketCheck } from '../../runtime/bucket/bucket-check.ts';
import { listEntries, listFolders } from '../../runtime/bucket/list-xml.ts';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { probe } from '../../runtime/bucket/probe.ts';
import { S3Store, smallObjects } from '../../runtime/bucket/s3-store.ts';
import { readLargeValues } from '../../runtime/move/from-bucket.ts';
import { ObjectClient } from '../../runtime/storage/r2/remote/object-client.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { cpuTime } from '../support/cpu-time.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const MB = 2 ** 20;
const AT = '2026-11-27T10:00:00.000Z';

async function startStore(t: TestContext, answer: RequestListener): Promise<S3Place> {
  const server = createServer((request, response) => {
    request.resume();
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    endpoint,
    region: 'auto',
    bucket: 'b',
    prefix: 'of/',
    accessKey: 'a',
    secretKey: 'secret-of-mine',
  };
}

/** Sends the same bytes until the client leaves. */
function sendForEver(response: ServerResponse, bytes: Buffer, sent: { bytes: number }): void {
  const more = () => {
    while (!response.destroyed) {
      sent.bytes += bytes.length;
      if (!response.write(bytes)) return;
    }
  };
  response.on('drain', more);
  more();
}

function entry({ key, size = '1', time = AT }: { key: string; size?: string; time?: string }): string {
  return `<Contents><Key>${key}</Key><LastModified>${time}</LastModified><ETag>"e"</ETag><Size>${size}</Size></Contents>`;
}

test('answers without an end are cut, with the name of the object', async (t) => {
  const sent = { bytes: 0 };
  let status = 200;
  const place = await startStore(t, (_, response) => {
    response.writeHead(status);
    sendForEver(response, Buffer.alloc(256 * 1024), sent);
  });
  const small = smallObjects(place);
  await assert.rejects(
    small.read('refs.json'),
    /^Error: GET http:.*\/b\/of\/refs\.json: it answered more than \d+ bytes( \(\d tries\))?$/,
  );
  assert.ok(sent.bytes < 200 * MB, `${sent.bytes}`);
  await assert.rejects(small.list('records/'), /it answered more than 16777216 bytes( \(\d tries\))?$/);
  const path = join(temporaryDirectory(t), 'file');
  await assert.rejects(
    small.readFile('pack', path, MB),
    /it answered more than 1048576 bytes( \(\d tries\))?$/,
  );
  status = 403;
  await assert.rejects(small.read('a'), /answered 403: $/);
  await assert.rejects(probe(place), /failed the check "create if missing": it answered more than/);
});

test('an R2 object that is too large to be read whole is refused at the first answer', async (t) => {
  let asked = 0;
  let status = 200;
  const place = await startStore(t, (_, response) => {
    asked++;
    response.writeHead(status);
    sendForEver(response, Buffer.alloc(256 * 1024), { bytes: 0 });
  });
  const client = new ObjectClient(place);
  t.after(() => client.close());
  await assert.rejects(client.read('main/objects/a'), { status: 500 });
  assert.equal(asked, 1);
  // The text of an error does not matter: a busy store is asked again.
  status = 503;
  await assert.rejects(client.read('main/objects/a'), { status: 504 });
  assert.ok(asked > 2, `${asked}`);
});

test('a compressed answer counts with what it unpacks to', async (t) => {
  const bomb = gzipSync(Buffer.alloc(300 * MB));
  const place = await startStore(t, (_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': bomb.length }).end(bomb);
  });
  await assert.rejects(smallObjects(place).read('a'), /it answered more than \d+ bytes( \(\d tries\))?$/);
});

test('a store whose answer breaks off during the check is out of reach, not refused', async (t) => {
  const place = await startStore(t, (_, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('half', () => response.socket?.destroy());
  });
  const check = new BucketCheck(place, async () => {});
  t.after(() => check.close());
  await check.start();
  assert.match(check.problem!, /failed the check "create if missing"/);
});

test('a list without an end is given up', async (t) => {
  let asked = 0;
  let next = () => 'same';
  const place = await startStore(t, (_, response) => {
    asked++;
    response.end(
      `<ListBucketResult><NextContinuationToken>${next()}</NextContinuationToken></ListBucketResult>`,
    );
  });
  await assert.rejects(
    new S3Store(place).list('records/'),
    /the list of of\/records\/ in the bucket has no end/,
  );
  assert.equal(asked, 2);
  next = () => `${asked}`;
  await assert.rejects(new S3Store(place).list('records/'), /has no end/);
  next = () => 'same';
  const client = new ObjectClient(place);
  t.after(() => client.close());
  await assert.rejects(async () => {
    for await (const page of client.pages('')) assert.deepEqual(page, []);
  }, /bucket/);
});

test('a list takes a time that grows with its size only', () => {
  const spent = cpuTime();
  assert.deepEqual(listEntries('<Contents>'.repeat(1_600_000), ''), []);
  assert.deepEqual(listFolders('<CommonPrefixes>'.repeat(1_000_000), ''), []);
  assert.deepEqual(listEntries('<Contents><Key>'.repeat(1_000_000), ''), []);
  assert.ok(spent() < 4_000, `${spent()} ms`);
});

test('names of a list that lead elsewhere are left out; sizes and times without sense are refused', () => {
  const keys = [
    'of/a',
    'of/../x',
    'of/./x',
    'of/a/..',
    'elsewhere',
    'of/&#0;',
    'of/&#x41;',
    'of/&#x99999999;',
  ];
  const found = listEntries(keys.map((key) => entry({ key })).join(''), 'of/');
  assert.deepEqual(
    found.map(({ name }) => name),
    ['a', 'A', '&#x99999999;'],
  );
  for (const change of [{ size: '' }, { size: '-1' }, { size: '1e99' }, { size: 'x' }, { time: 'never' }])
    assert.throws(
      () => listEntries(entry({ key: 'of/a', ...change }), 'of/'),
      /an object without a size or a time: "of\/a"/,
    );
});

test('a name that leads elsewhere reaches no other object and no other file', async (t) => {
  await using store = await new MemoryStore().start();
  const place = store.place('of/');
  const value = Buffer.from('value');
  await assert.rejects(new S3Store(place).write('apps/a/../b', value), /is not the name of an object/);
  const object = { body: value, etag: '"e"', at: AT };
  const folder = 'of/apps/a/data/v1/services/kv/';
  for (const name of [
    `${folder}k1`,
    `${folder}../../../../../../outside`,
    'of/apps/a/../b/data/k',
    'of/apps/b/data/k',
  ])
    store.objects.set(name, object);
  const root = temporaryDirectory(t);
  const into = join(root, 'a', 'b', 'c', 'd', 'e', 'f', 'kv');
  await readLargeValues({ place, appId: 'a' }, into);
  assert.deepEqual(readdirSync(into), ['k1']);
  assert.ok(!existsSync(join(root, 'outside')));
  await removeApp({ place, appId: 'a' });
  assert.ok(store.objects.has('of/apps/b/data/k'));
  assert.ok(!store.objects.has(`${folder}k1`));
});

test('the first of 200,000 alarms is found', async (t) => {
  const place = await startStore(t, ({ url }, response) => {
    const page = Number(new URL(url!, 'http://store').searchParams.get('continuation-token') ?? 0);
    const alarms = Array.from({ length: 1_000 }, (_, n) => {
      const time = (page === 150 && n === 7 ? 5 : 1_000_000).toString(16);
      return entry({ key: `of/apps/a/data/v1/alarms/0/k${time}/n/${'0'.repeat(64)}/1` });
    });
    const next = page < 199 ? `<NextContinuationToken>${page + 1}</NextContinuationToken>` : '';
    response.end(`<ListBucketResult>${alarms.join('')}${next}</ListBucketResult>`);
  });
  assert.equal(await nextAlarm({ place, appId: 'a' }), 5);
});

test('what a store says is one line of a message', async (t) => {
  const place = await startStore(t, (_, response) => {
    response.writeHead(403).end('<Error><Code>No</Code><Message>a\n\u001b[31mb</Message></Error>');
  });
  await assert.rejects(smallObjects(place).read('a'), /answered 403: No a \[31mb$/);
  await assert.rejects(probe(place), /a \[31mb/);
});

test('a redirect is not followed, and no error shows the secret', async (t) => {
  const asked: string[] = [];
  const place = await startStore(t, (request, response) => {
    asked.push(request.url!);
    response.writeHead(307, { location: '/elsewhere' }).end();
  });
  await assert.rejects(smallObjects(place).read('a'), (error: Error) => {
    assert.match(error.message, /redirect/);
    assert.ok(!JSON.stringify([error.message, error.stack, error.cause]).includes('secret-of-mine'));
    return true;
  });
  assert.ok(asked.every((path) => path.startsWith('/b/of/a')));
  await assert.rejects(probe(place), /failed the check "create if missing": .*redirect/);
});
