import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AwsV4Signer } from 'aws4fetch';
import { appKeys } from '../../../runtime/bucket/app-keys.ts';
import { encodeQuery, signatureOf, UNSIGNED } from '../../../runtime/bucket/proxy/signature.ts';
import { operationOf, readTarget } from '../../../runtime/bucket/proxy/target.ts';
import { verify } from '../../../runtime/bucket/proxy/verify.ts';
import { type Asked, CLUSTER_KEY, signedBy } from '../../support/bucket/proxy.ts';

const NOW = new Date('2026-11-27T07:00:00Z');
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** Examples of Amazon's documentation, "Authenticating Requests (AWS Signature Version 4)". */
const AMAZON = {
  headers: {
    host: 'examplebucket.s3.amazonaws.com',
    'x-amz-content-sha256': EMPTY,
    'x-amz-date': '20130524T000000Z',
  },
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
};
const VECTORS = [
  {
    what: 'GET of an object with a range',
    ...{ method: 'GET', path: '/test.txt', query: {}, more: { range: 'bytes=0-9' } },
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  {
    what: 'GET of a list',
    ...{ method: 'GET', path: '/', query: { 'max-keys': '2', prefix: 'J' }, more: {} },
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
];
for (const { what, method, path, query, more, signature } of VECTORS) {
  test(`Amazon's example has this signature: ${what}`, () => {
    const headers = Object.entries({ ...AMAZON.headers, ...more }).sort();
    const signed = {
      ...{ method, path, query: encodeQuery(new Map(Object.entries(query))), headers },
      ...{ bodyHash: EMPTY, date: AMAZON.headers['x-amz-date'], region: 'us-east-1' },
    };
    assert.equal(signatureOf(signed, AMAZON.secretKey), signature);
  });
}

function verified(asked: Asked, appId = 'a1') {
  const { method, target, headers } = signedBy(appId, { at: NOW, ...asked });
  return verify(
    { method, ...readTarget(target), headers: new Map(Object.entries(headers)) },
    CLUSTER_KEY,
    NOW.getTime(),
  );
}

test('the keys of apps differ from each other, by app and by purpose', () => {
  const [a, b] = [appKeys(CLUSTER_KEY, 'a1'), appKeys(CLUSTER_KEY, 'a2')];
  assert.equal(a.accessKey, 'a1');
  const secrets = [a.secretKey, a.clusterKey, b.secretKey, b.clusterKey];
  assert.equal(new Set(secrets).size, 4);
  for (const secret of secrets) assert.match(secret, /^[0-9a-f]{64}$/);
  assert.notEqual(appKeys('d2'.repeat(32), 'a1').secretKey, a.secretKey);
});

test('a request that the app has signed is the app’s', () => {
  assert.deepEqual(verified({ path: '/b/apps/a1/x' }), { appId: 'a1', opens: 'data', bodyHash: UNSIGNED });
  assert.equal(
    verified({ path: '/b/apps/a1/x y/é', query: { uploadId: 'a/b+c' }, bodyHash: EMPTY }).bodyHash,
    EMPTY,
  );
});

test('a request that another client has signed is the app’s', async () => {
  const { accessKey, secretKey } = appKeys(CLUSTER_KEY, 'a1');
  const signer = new AwsV4Signer({
    ...{ method: 'PUT', url: 'http://127.0.0.1:1/b/apps/a1/x?partNumber=1&uploadId=a%2Fb', service: 's3' },
    ...{ region: 'auto', accessKeyId: accessKey, secretAccessKey: secretKey, datetime: '20261127T070000Z' },
    headers: { 'x-amz-meta-of': 'mine' },
    body: 'body',
  });
  const { method, url, headers } = await signer.sign();
  const received = new Map([...(headers as Headers), ['host', url.host] as const]);
  const target = readTarget(url.pathname + url.search);
  assert.equal(verify({ method, ...target, headers: received }, CLUSTER_KEY, NOW.getTime()).appId, 'a1');
});

const MINUTE = 60_000;
const REFUSED: [string, Asked, string][] = [
  ['a wrong secret', { path: '/b/k', secretKey: '0'.repeat(64) }, 'SignatureDoesNotMatch'],
  ['an id of another app', { path: '/b/k', accessKey: 'a2' }, 'SignatureDoesNotMatch'],
  ['an id with a path', { path: '/b/k', accessKey: '..' }, 'InvalidAccessKeyId'],
  ['another method', { path: '/b/k', sentMethod: 'DELETE' }, 'SignatureDoesNotMatch'],
  ['another path', { path: '/b/k', sentTarget: '/b/j' }, 'SignatureDoesNotMatch'],
  ['another query', { path: '/b/k', sentTarget: '/b/k?uploads' }, 'SignatureDoesNotMatch'],
  ['a changed hash', { path: '/b/k', unsigned: { 'x-amz-content-sha256': EMPTY } }, 'SignatureDoesNotMatch'],
  ['no signed host', { path: '/b/k', leavesOut: ['host'] }, 'AccessDenied'],
  ['no signed date', { path: '/b/k', leavesOut: ['x-amz-date'] }, 'AccessDenied'],
  ['no signed hash', { path: '/b/k', leavesOut: ['x-amz-content-sha256'] }, 'AccessDenied'],
  ['unsigned metadata', { path: '/b/k', unsigned: { 'x-amz-meta-a': 'b' } }, 'AccessDenied'],
  ['a late clock', { path: '/b/k', at: new Date(NOW.getTime() - 16 * MINUTE) }, 'RequestTimeTooSkewed'],
  ['an early clock', { path: '/b/k', at: new Date(NOW.getTime() + 16 * MINUTE) }, 'RequestTimeTooSkewed'],
  ['signed chunks', { path: '/b/k', bodyHash: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' }, 'AccessDenied'],
  ['no signature', { path: '/b/k', unsigned: { authorization: '' } }, 'AccessDenied'],
];
for (const [what, asked, code] of REFUSED) {
  test(`refused: ${what}`, () => {
    assert.throws(() => verified(asked), { code });
  });
}

const UNCLEAR = [
  ...['http://127.0.0.1/b/k', '*', '', '/b/k%2fj', '/b/k%2Fj', '/b/%zz', '/b/%', '/b/%ff', '/b/a%6b', '/b/é'],
  ...['/b/k?a=1&a=2', '/b/k?prefix=a+b', '/b/k?prefix=%c3%a9', '/b/k#x', '/b/a\\b', "/b/it's"],
];
for (const target of UNCLEAR) {
  test(`a target with more than one meaning is refused: ${target}`, () => {
    assert.throws(() => readTarget(target), { code: 'InvalidRequest' });
  });
}

const LIST = '/b/?list-type=2&prefix=p%2Fapps%2Fa1%2Fdata%2F';
const SERVED: [string, string, string][] = [
  ['GET', '/b/p/apps/a1/data/k', 'reads'],
  ['HEAD', '/b/p/apps/a1/data/k', 'reads'],
  ['PUT', '/b/p/apps/a1/data/k', 'writes'],
  ['PUT', '/b/p/apps/a1/data/k?uploadId=u&partNumber=7', 'writes'],
  ['POST', '/b/p/apps/a1/data/k?uploads=', 'writes'],
  ['POST', '/b/p/apps/a1/data/k?uploads', 'writes'],
  ['POST', '/b/p/apps/a1/data/k?uploadId=u&x-id=C', 'writes'],
  ['DELETE', '/b/p/apps/a1/data/k', 'deletes'],
  ['DELETE', '/b/p/apps/a1/data/k?uploadId=u', 'deletes'],
  ['GET', LIST, 'writes'],
  ['GET', `${LIST}v1%2F&delimiter=%2F&max-keys=5&start-after=x`, 'writes'],
];
const PLACE = { bucket: 'b', prefix: 'p/' };
const DATA = { appId: 'a1', opens: 'data' } as const;
const OBJECTS = { appId: 'a1', opens: 'r2' } as const;
for (const [method, target, counts] of SERVED) {
  test(`${method} ${target} is served and counts as ${counts}`, () => {
    assert.equal(operationOf(method, readTarget(target), PLACE, DATA).counts, counts);
  });
}

test('a large value has as many bytes as workerd can read again, and other objects have more', () => {
  const mostBytes = (target: string) => operationOf('PUT', readTarget(target), PLACE, DATA).mostBytes;
  assert.equal(mostBytes('/b/p/apps/a1/data/v1/services/kv/x'), 16 * 2 ** 20);
  assert.equal(mostBytes('/b/p/apps/a1/data/v1/services/kv/x?partNumber=1&uploadId=u'), 16 * 2 ** 20);
  assert.equal(mostBytes('/b/p/apps/a1/data/v1/do/x'), 5 * 2 ** 30);
  assert.equal(
    operationOf('GET', readTarget('/b/p/apps/a1/data/v1/services/kv/x'), PLACE, DATA).mostBytes,
    0,
  );
});

const DENIED: [string, string][] = [
  ['GET', '/b/p/apps/a2/data/k'],
  ['GET', '/b/p/apps/a10/data/k'],
  ['GET', '/b/p/apps/a1'],
  ['GET', '/b/p/apps/a1/app.json'],
  ['PUT', '/b/p/apps/a1/app.json'],
  ['DELETE', '/b/p/apps/a1/r2/k'],
  ['GET', '/b/p/apps/a1/data'],
  ['GET', '/b/p/apps/a1/database/k'],
  ['GET', '/b/p/apps/a1/data/../app.json'],
  ['GET', '/b/p/apps/a1/data/'],
  ['GET', '/b/apps/a1/data/k'],
  ['GET', '/c/p/apps/a1/data/k'],
  ['GET', '/b//p/apps/a1/data/k'],
  ['GET', '/b/p/apps/a1/data/../../a2/data/k'],
  ['GET', '/b/p/apps/a1/data/./k'],
  ['GET', '/b/p/apps/a1/data//k'],
  ['GET', '/b/p/apps/a1/data/x%5C..%5Ck'],
  ['GET', '/b/p/apps/a1/data/k%00'],
  ['GET', '/b/p/apps/a1/data/..%252F..%252F..%252Fa2%252Fdata%252Fk'],
  ['GET', '/b/p/apps/a1/data/%252e%252e/k'],
  ['GET', `/b/p/apps/a1/data/${'k'.repeat(1_025)}`],
  ['GET', '/b/p/apps/a1/data/k?acl'],
  ['GET', '/b/p/apps/a1/data/k?versionId=1'],
  ['GET', '/b/p/apps/a1/data/k?uploadId=u'],
  ['PUT', '/b/p/apps/a1/data/k?uploadId=u'],
  ['PUT', '/b/p/apps/a1/data/k?uploadId=u&partNumber=-1'],
  ['PUT', '/b/p/apps/a1/data/k?tagging'],
  ['POST', '/b/p/apps/a1/data/k'],
  ['POST', '/b/?delete'],
  ['GET', '/'],
  ['PUT', '/b'],
  ['DELETE', '/b/'],
  ['HEAD', '/b'],
  ['GET', '/b?location'],
  ['GET', '/b?list-type=2'],
  ['GET', '/b?list-type=1&prefix=p%2Fapps%2Fa1%2Fdata%2F'],
  ['GET', '/b?prefix=p%2Fapps%2Fa1%2Fdata%2F'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2F'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2Fa1'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2Fa1%2F'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2Fa1%2Fdata'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2Fa1%2Fr2%2F'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2Fa1%2Fdata%2F..%2Fa2%2F'],
  ['GET', '/b?list-type=2&prefix=p%2Fapps%2Fa1%2Fdata%2F%2F'],
  ['GET', `${LIST}&uploads`],
  ['GET', `${LIST}&versions`],
];
for (const [method, target] of DENIED) {
  test(`${method} ${target.slice(0, 60)} is denied`, () => {
    assert.throws(() => operationOf(method, readTarget(target), PLACE, DATA), { code: 'AccessDenied' });
  });
}

test('a key for R2 objects opens these only, and that for data only data', () => {
  const own = '/b/p/apps/a1/r2/main/objects/-k';
  const list = '/b?list-type=2&prefix=p%2Fapps%2Fa1%2Fr2%2F';
  for (const target of [own, list]) {
    operationOf('GET', readTarget(target), PLACE, OBJECTS);
    assert.throws(() => operationOf('GET', readTarget(target), PLACE, DATA), { code: 'AccessDenied' });
  }
  for (const [method, target] of [
    ...SERVED,
    ['GET', '/b/p/apps/a2/r2/k'],
    ['GET', '/b/p/apps/a1/r2/../data/k'],
  ])
    assert.throws(
      () => operationOf(method!, readTarget(target!), PLACE, OBJECTS),
      { code: 'AccessDenied' },
      target,
    );
});
