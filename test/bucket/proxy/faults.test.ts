import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { appKeys } from '../../../runtime/bucket/app-keys.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { ask, CLUSTER_KEY, signedBy, startProxy } from '../../support/bucket/proxy.ts';
import { eventually } from '../../support/processes.ts';

const PATH = '/b/apps/a1/data/k';

test('a store that is away is reported once, and again when it is back', async (t) => {
  await using store = await new MemoryStore().start();
  const { port, away, counts } = await startProxy(t, store.place());
  store.cut();
  for (let tries = 0; tries < 3; tries++) {
    const { status, code } = await ask(port, 'a1', { method: 'PUT', path: PATH, body: 'x' });
    assert.deepEqual([status, code], [503, 'SlowDown']);
  }
  await eventually(() => away.length > 0, 'it is reported');
  assert.equal(away.length, 1);
  assert.equal(typeof away[0], 'string');
  store.faults = {};
  assert.equal((await ask(port, 'a1', { method: 'PUT', path: PATH, body: 'x' })).status, 200);
  await eventually(() => away.length > 1, 'it is back');
  assert.equal(away[1], null);
  await eventually(() => counts.get('a1')?.writes === 4, 'the writes are counted');
});

test('a store that is back while the proxy was away is reported too', async (t) => {
  await using store = await new MemoryStore().start();
  const { proxy, port, away } = await startProxy(t, store.place());
  store.cut();
  await ask(port, 'a1', { path: PATH });
  await eventually(() => away.length === 1, 'it is reported');
  store.faults = {};
  process.kill(proxy.pid!, 'SIGKILL');
  await eventually(() => proxy.pid === null, 'the proxy is away');
  assert.equal((await ask(port, 'a1', { path: PATH })).code, 'NoSuchKey');
  await eventually(() => away.length === 2, 'it is back');
  assert.equal(away[1], null);
});

test('a store that hangs is answered for after 10 s', async (t) => {
  await using store = await new MemoryStore().start();
  const { port, away } = await startProxy(t, store.place());
  store.faults = { hangs: true };
  const from = performance.now();
  const { status, code } = await ask(port, 'a1', { path: PATH });
  assert.deepEqual([status, code], [503, 'SlowDown']);
  assert.ok(performance.now() - from < 15_000);
  await eventually(() => away.length > 0, 'it is reported');
});

test('an answer whose body falls silent ends after 10 s', async (t) => {
  await using store = await new MemoryStore().start();
  const { port } = await startProxy(t, store.place());
  await ask(port, 'a1', { method: 'PUT', path: PATH, body: 'half' });
  store.faults = { stalls: true };
  const from = performance.now();
  await assert.rejects(ask(port, 'a1', { path: PATH }));
  assert.ok(performance.now() - from < 20_000);
});

/** Starts a store that answers as a test says. */
async function startStore(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
) {
  const server = createServer(answer);
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
    prefix: '',
    accessKey: 'real-id',
    secretKey: 'real-secret',
  };
}

test('an error of the store shows nothing of the real keys', async (t) => {
  const answers: [number, string][] = [
    [403, 'SignatureDoesNotMatch'],
    [301, 'PermanentRedirect'],
    [400, 'BadDigest'],
  ];
  const place = await startStore(t, (_, response) => {
    const [status, code] = answers[0]!;
    response.writeHead(status, { location: 'http://127.0.0.1:1/real-id', 'x-amz-request-id': 'real-id' });
    response.end(
      `<Error><Code>${code}</Code><Message>no</Message><AWSAccessKeyId>real-id</AWSAccessKeyId></Error>`,
    );
  });
  const { port } = await startProxy(t, place);
  for (const expected of [
    [503, 'SlowDown'],
    [503, 'SlowDown'],
    [400, 'BadDigest'],
  ]) {
    const { status, code, body, headers } = await ask(port, 'a1', { path: PATH });
    assert.deepEqual([status, code], expected);
    assert.ok(!(body + JSON.stringify(headers)).includes('real-id'));
    answers.shift();
  }
});

test('only headers of the list are passed on, signed with the real keys', async (t) => {
  let seen: IncomingMessage['headers'] = {};
  const place = await startStore(t, (request, response) => {
    seen = request.headers;
    request.resume().on('end', () => response.writeHead(200, { 'set-cookie': 'a=b', etag: '"e"' }).end());
  });
  const { port } = await startProxy(t, place);
  const answer = await ask(port, 'a1', {
    ...{ method: 'PUT', path: PATH, body: 'x', headers: { 'x-amz-meta-of': 'mine' } },
    unsigned: { 'if-match': '"e"', cookie: 'c', 'cache-control': 'no-store', 'x-forwarded-for': '1.2.3.4' },
  });
  assert.deepEqual(
    [answer.status, answer.headers.etag, answer.headers['set-cookie']],
    [200, '"e"', undefined],
  );
  assert.match(seen.authorization!, /^AWS4-HMAC-SHA256 Credential=real-id\//);
  assert.deepEqual(Object.keys(seen).sort(), [
    ...['authorization', 'connection', 'content-length', 'host', 'if-match'],
    ...['x-amz-content-sha256', 'x-amz-date', 'x-amz-meta-of'],
  ]);
});

test('a client that leaves ends its request to the store', async (t) => {
  const asked = Promise.withResolvers<IncomingMessage>();
  const place = await startStore(t, (request) => asked.resolve(request));
  const { port, away } = await startProxy(t, place);
  const { target, headers } = signedBy('a1', { path: PATH });
  const leaving = request({ host: '127.0.0.1', port, path: target, headers, agent: false });
  leaving.on('error', () => {});
  leaving.end();
  const atStore = await asked.promise;
  const closed = once(atStore.socket, 'close', { signal: AbortSignal.timeout(60_000) });
  leaving.destroy();
  await closed;
  assert.deepEqual(away, []);
});

test('of one app 64 requests run at a time, and another app is served meanwhile', async (t) => {
  const held: ServerResponse[] = [];
  const place = await startStore(t, ({ url }, response) => {
    if (url!.includes('/a1/')) held.push(response);
    else response.end('other');
  });
  const { port } = await startProxy(t, place);
  const asked = Array.from({ length: 64 }, () => ask(port, 'a1', { path: PATH }));
  await eventually(() => held.length === 64, '64 requests run');
  const { status, code } = await ask(port, 'a1', { path: PATH });
  assert.deepEqual([status, code], [503, 'SlowDown']);
  assert.equal((await ask(port, 'a2', { path: '/b/apps/a2/data/k' })).body, 'other');
  for (const response of held) response.end('own');
  assert.ok((await Promise.all(asked)).every(({ body }) => body === 'own'));
});

test('requests for R2 objects of all apps leave places for data', async (t) => {
  const held: ServerResponse[] = [];
  const place = await startStore(t, ({ url }, response) => {
    if (url!.includes('/r2/')) held.push(response);
    else response.end('lease');
  });
  const { port } = await startProxy(t, place);
  const askObject = (appId: string) => {
    const { objectsAccessKey: accessKey, objectsSecretKey: secretKey } = appKeys(CLUSTER_KEY, appId);
    return ask(port, appId, { path: `/b/apps/${appId}/r2/k`, accessKey, secretKey });
  };
  const apps = Array.from({ length: 6 }, (_, n) => `a${n}`);
  const asked = apps.flatMap((appId) => Array.from({ length: 96 }, () => askObject(appId)));
  await eventually(() => held.length >= 320, '320 requests run');
  assert.equal((await ask(port, 'control', { path: '/b/apps/control/data/k' })).body, 'lease');
  for (const response of held) response.end('object');
  const answers = await Promise.all(asked);
  assert.equal(answers.filter(({ body }) => body === 'object').length, 320);
  assert.equal(answers.filter(({ code }) => code === 'SlowDown').length, 256);
  held.length = 0;
  const next = askObject('a0');
  await eventually(() => held.length === 1, 'the places are free again');
  held[0]!.end('object');
  assert.equal((await next).body, 'object');
});

test('a body is streamed: the store has its start before the app has sent its end', async (t) => {
  const first = Promise.withResolvers<void>();
  const place = await startStore(t, (request, response) => {
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      first.resolve();
    });
    request.on('end', () => response.end(String(size)));
  });
  const { port } = await startProxy(t, place);
  const { target, headers } = signedBy('a1', { method: 'PUT', path: PATH });
  const upload = request({
    ...{ host: '127.0.0.1', port, method: 'PUT', path: target, agent: false },
    headers: { ...headers, 'content-length': 200_000 },
    signal: AbortSignal.timeout(10_000),
  });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  upload.write(Buffer.alloc(100_000));
  await first.promise;
  upload.end(Buffer.alloc(100_000));
  const [answer] = await answered;
  assert.equal(Buffer.concat(await answer.toArray()).toString(), '200000');
});
