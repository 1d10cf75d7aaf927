// What an app could try with a key of its own: nothing of another app may be read or changed.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { AwsClient } from 'aws4fetch';
import { appKeys } from '../../../runtime/bucket/app-keys.ts';
import { bucketFetch } from '../../../runtime/bucket/client.ts';
import { type Asked, ask, CLUSTER_KEY, sendRaw, signedBy, startProxy } from '../../support/bucket/proxy.ts';
import { startS3 } from '../../support/bucket/s3.ts';

const SECRET = 'the secret of app b1';

test('no request of one app reaches the names of another', async (t) => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { port } = await startProxy(t, place);
  const root = `/${place.bucket}/${place.prefix}apps`;
  const [own, other] = [`${root}/a1/data/k`, `${root}/b1/data/k`];
  const otherPrefix = `${place.prefix}apps/b1/data/`;
  const ownPrefix = `${place.prefix}apps/a1/data/`;
  const put = await ask(port, 'b1', { method: 'PUT', path: other, body: SECRET });
  assert.equal(put.status, 200);
  const b1 = appKeys(CLUSTER_KEY, 'b1');
  const a1 = appKeys(CLUSTER_KEY, 'a1');
  const objectsKeys = { accessKey: a1.objectsAccessKey, secretKey: a1.objectsSecretKey };
  const encoded = other.replaceAll('/', '%2F').slice(3);
  const copy = { 'x-amz-copy-source': other };
  const list = { 'list-type': '2', prefix: ownPrefix };
  const tries: [string, Asked][] = [
    ...(['GET', 'HEAD', 'DELETE'] as const).map((method): [string, Asked] => [
      method,
      { method, path: other },
    ]),
    ['PUT', { method: 'PUT', path: other, body: 'changed' }],
    ['an upload in parts', { method: 'POST', path: other, query: { uploads: '' } }],
    ['a path with ..', { path: `${root}/a1/data/../../b1/data/k` }],
    ['an encoded path with ..', { path: own, sentTarget: `${root}/a1/data/%2e%2e/%2e%2e/b1/data/k` }],
    ['encoded slashes', { path: own, sentTarget: `${root}/a1/data/..%2f..%2fb1%2fdata%2fk` }],
    ['a wholly encoded name', { path: other, sentTarget: `/${encoded}` }],
    ['slashes encoded twice', { path: `${root}/a1/data/..%2F..%2Fb1%2Fdata%2Fk/../../../b1/data/k` }],
    ['backslashes', { path: `${root}/a1/data\\..\\..\\b1\\data\\k` }],
    ['an empty segment', { path: `${root}//b1/data/k` }],
    ['NUL', { path: `${root}/a1/data/\0/../../../b1/data/k` }],
    ['what the host keeps of this app', { path: `${root}/a1/app.json` }],
    ['a change of it', { method: 'PUT', path: `${root}/a1/app.json`, body: '{}' }],
    [
      'a list of all of this app',
      { path: `/${place.bucket}`, query: { ...list, prefix: `${place.prefix}apps/a1/` } },
    ],
    ['a name that begins alike', { path: `${root}/a1b/data/k` }],
    ['an absolute target', { path: own, sentTarget: `http://127.0.0.1${other}` }],
    ['a changed path', { path: own, sentTarget: other }],
    ['a changed method', { path: own, method: 'HEAD', sentMethod: 'GET' }],
    ["b1's id with a1's secret", { path: other, accessKey: 'b1' }],
    ["a1's id with b1's secret", { path: other, secretKey: b1.secretKey }],
    ["b1's cluster key as its secret", { path: other, accessKey: 'b1', secretKey: b1.clusterKey }],
    [
      "b1's key for R2 objects",
      { path: other, accessKey: b1.objectsAccessKey, secretKey: b1.objectsSecretKey },
    ],
    ['the data of a1 with its key for R2 objects', { path: own, ...objectsKeys }],
    [
      'a list of the data of a1 with its key for R2 objects',
      { path: `/${place.bucket}`, query: list, ...objectsKeys },
    ],
    ['R2 objects of a1 with its key for data', { path: `${root}/a1/r2/k` }],
    ['R2 objects of b1 with those of a1', { path: `${root}/b1/r2/k`, ...objectsKeys }],
    ['R2 objects with the secret for data', { path: `${root}/a1/r2/k`, accessKey: a1.objectsAccessKey }],
    ["the store's access key", { path: other, accessKey: place.accessKey }],
    ['a signed copy', { method: 'PUT', path: own, headers: copy, body: '' }],
    ['an unsigned copy', { method: 'PUT', path: own, unsigned: copy, body: '' }],
    [
      'a copy of a part',
      { method: 'PUT', path: own, query: { partNumber: '1', uploadId: 'u' }, headers: copy, body: '' },
    ],
    ...[
      'acl',
      'grant-read',
      'tagging',
      'security-token',
      'server-side-encryption-customer-key',
      'website-redirect-location',
    ].map((name): [string, Asked] => [
      name,
      { method: 'PUT', path: own, headers: { [`x-amz-${name}`]: 'x' }, body: '' },
    ]),
    ['a list of b1', { path: `/${place.bucket}`, query: { ...list, prefix: otherPrefix } }],
    ['a list of all apps', { path: `/${place.bucket}`, query: { ...list, prefix: `${place.prefix}apps/` } }],
    [
      'a list with half an id',
      { path: `/${place.bucket}`, query: { ...list, prefix: `${place.prefix}apps/a1` } },
    ],
    [
      'a list with ..',
      { path: `/${place.bucket}`, query: { ...list, prefix: `${ownPrefix}../../b1/data/` } },
    ],
    ['a list without a prefix', { path: `/${place.bucket}`, query: { 'list-type': '2' } }],
    ['a list of version 1', { path: `/${place.bucket}`, query: { prefix: ownPrefix } }],
    [
      'a second prefix',
      {
        path: `/${place.bucket}`,
        query: list,
        sentTarget: `/${place.bucket}?list-type=2&prefix=${encodeURIComponent(ownPrefix)}&prefix=${encodeURIComponent(otherPrefix)}`,
      },
    ],
    ['all uploads', { path: `/${place.bucket}`, query: { uploads: '', prefix: ownPrefix } }],
    [
      'a removal of many',
      {
        method: 'POST',
        path: `/${place.bucket}`,
        query: { delete: '' },
        body: `<Delete><Object><Key>${otherPrefix}k</Key></Object></Delete>`,
      },
    ],
    ['a removal of the bucket', { method: 'DELETE', path: `/${place.bucket}` }],
    ['a bucket’s settings', { path: `/${place.bucket}`, query: { policy: '' } }],
    ['all buckets', { path: '/' }],
    ['another bucket', { path: `/other/${place.prefix}apps/a1/data/k` }],
    [
      'signed chunks',
      { method: 'PUT', path: own, bodyHash: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD', body: 'x' },
    ],
    ['another method', { sentMethod: 'PATCH', method: 'PATCH', path: other }],
    ['chunks without a length', { method: 'PUT', path: own, unsigned: { 'transfer-encoding': 'chunked' } }],
    ['a body where none belongs', { method: 'DELETE', path: own, body: 'x' }],
  ];
  for (const [what, asked] of tries) {
    const { status, body, headers } = await ask(port, 'a1', asked);
    assert.ok(status >= 400 && status < 500, `${what}: ${status} ${body}`);
    const shown = body + JSON.stringify(headers);
    for (const hidden of [SECRET, place.accessKey, place.secretKey])
      assert.ok(!shown.includes(hidden), `${what}: ${shown}`);
  }
  // The copy is refused because it is a copy: a wrong signature would be `SignatureDoesNotMatch`.
  const copied = await ask(port, 'a1', { method: 'PUT', path: own, headers: copy, body: '' });
  assert.deepEqual([copied.status, copied.code], [403, 'AccessDenied']);

  const presigned = new URL(`http://127.0.0.1:${port}${other}`);
  presigned.searchParams.set('X-Amz-Expires', '600');
  const { accessKey, secretKey } = b1;
  const signer = new AwsClient({
    accessKeyId: accessKey,
    secretAccessKey: secretKey,
    service: 's3',
    region: 'auto',
  });
  const signed = await signer.sign(presigned, { aws: { signQuery: true } });
  const answer = await fetch(signed.url);
  assert.equal(answer.status, 403);
  await answer.body?.cancel();

  const read = await bucketFetch(place)(`/${otherPrefix}k`, {}, AbortSignal.timeout(5_000));
  assert.equal(await read.text(), SECRET);
  assert.deepEqual(await store.names(), [`${otherPrefix}k`]);
});

test('an honest app reads, writes, lists and removes its own', async (t) => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { port } = await startProxy(t, place);
  const path = `/${place.bucket}/${place.prefix}apps/a1/data/it is é+1`;
  const bodyHash = hash('sha256', 'text');
  const put = await ask(port, 'a1', {
    method: 'PUT',
    path,
    body: 'text',
    bodyHash,
    unsigned: { 'if-none-match': '*' },
  });
  assert.equal(put.status, 200, put.body);
  const again = await ask(port, 'a1', {
    method: 'PUT',
    path,
    body: 'text',
    unsigned: { 'if-none-match': '*' },
  });
  assert.deepEqual([again.status, again.code], [412, 'PreconditionFailed']);
  const part = await ask(port, 'a1', { path, unsigned: { range: 'bytes=1-2' } });
  assert.deepEqual([part.status, part.body, part.headers['content-range']], [206, 'ex', 'bytes 1-2/4']);
  assert.equal(part.headers.etag, put.headers.etag);
  const head = await ask(port, 'a1', { method: 'HEAD', path });
  assert.deepEqual([head.status, head.headers['content-length']], [200, '4']);
  const query = { 'list-type': '2', prefix: `${place.prefix}apps/a1/data/` };
  const list = await ask(port, 'a1', { path: `/${place.bucket}/`, query });
  assert.match(list.body, /<Key>of\/cellar\/apps\/a1\/data\/it is é\+1<\/Key>/);
  const removed = await ask(port, 'a1', { method: 'DELETE', path });
  assert.equal(removed.status, 204);
  const gone = await ask(port, 'a1', { path });
  assert.deepEqual([gone.status, gone.code], [404, 'NoSuchKey']);
});

test('a large value over the limit is refused before its body', async (t) => {
  await using store = await startS3();
  const place = store.place('');
  const { port } = await startProxy(t, place);
  const path = `/${place.bucket}/apps/a1/data/v1/services/kv/x`;
  const { target, headers } = signedBy('a1', { method: 'PUT', path });
  const answer = await sendRaw(port, `${headOf('PUT', headers, target)}content-length: 16777217\r\n\r\n`);
  assert.match(answer, /^HTTP\/1.1 400 [\s\S]*<Code>EntityTooLarge<.*at most 16777216 bytes/);
  assert.deepEqual(await store.names(), []);
});

test('a body that is not the signed one is not written', async (t) => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { port } = await startProxy(t, place);
  const path = `/${place.bucket}/${place.prefix}apps/a1/data/k`;
  const { status } = await ask(port, 'a1', {
    method: 'PUT',
    path,
    body: 'other',
    bodyHash: hash('sha256', 'text'),
  });
  assert.equal(status, 400);
  assert.deepEqual(await store.names(), []);
});

test('huge heads, doubled headers, slow heads and slow bodies are refused', async (t) => {
  await using store = await startS3();
  const { port, away } = await startProxy(t, store.place(''));
  const { target, headers } = signedBy('a1', { path: '/snapshots/apps/a1/data/k' });
  const head = headOf('GET', headers, target);
  const put = headOf(
    'PUT',
    signedBy('a1', { method: 'PUT', path: '/snapshots/apps/a1/data/k' }).headers,
    target,
  );
  const [huge, doubled, slow, upgraded, slowBody] = await Promise.all([
    sendRaw(port, `${head}x-a: ${'a'.repeat(20_000)}\r\n\r\n`),
    sendRaw(port, `${head}x-amz-date: ${headers['x-amz-date']}\r\n\r\n`),
    sendRaw(port, head),
    sendRaw(port, `CONNECT 127.0.0.1:80 HTTP/1.1\r\nhost: a\r\n\r\n`),
    sendRaw(port, `${put}content-length: 10\r\n\r\nx`),
  ]);
  assert.match(huge, /^HTTP\/1.1 431 /);
  assert.match(doubled, /^HTTP\/1.1 400 [\s\S]*the header x-amz-date occurs twice/);
  assert.match(slow, /^HTTP\/1.1 408 /);
  assert.equal(upgraded, '');
  assert.match(slowBody, /^HTTP\/1.1 503 [\s\S]*SlowDown/);
  assert.deepEqual(away, []);
  assert.deepEqual(await store.names(), []);
});

function headOf(method: string, headers: Record<string, string>, target: string): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\nconnection: close\r\n${lines.join('')}`;
}
