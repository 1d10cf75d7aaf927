// Static files of workerd's asset service: types, ranges and lists of entity tags.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { call, RawClient, startGateway, startWorkerd } from '../../support/edge/peers.ts';

const FILM = Array.from({ length: 60_000 }, (_, i) => String(10_000 + i)).join('');
/** Answers by itself and without a type, where no asset has the path. */
const APP = `
export default {
  fetch(request) {
    const { searchParams } = new URL(request.url);
    const body = new TextEncoder().encode('0123456789');
    const response = new Response(body, { headers: { etag: searchParams.get('tag') } });
    for (let n = 0; n < Number(searchParams.get('fields')); n++) response.headers.set('x-' + n, '');
    return response;
  },
};
`;
const parts = new AsyncDisposableStack();
let port: number;
let tag: string;

before(async () => {
  const cell = parts.use(
    await startWorkerd(APP, {
      'film.mp4': FILM,
      'empty.mp4': '',
      'film.MKV': FILM,
      'subtitles.vtt': 'WEBVTT',
      'data.unknown': 'a',
      mkv: 'a',
    }),
  );
  const gateway = parts.use(await startGateway(cell.socketPath));
  port = gateway.port;
  tag = (await get({})).headers.etag!;
});
after(() => parts.disposeAsync());

async function get(headers: Record<string, string>, { path = '/film.mp4', method = 'GET' } = {}) {
  return call(port, path, { method, headers });
}

test('a range request gets that part of the file', async () => {
  for (const [range, from, to] of [
    ['bytes=2-4', 2, 4],
    ['bytes=0-0', 0, 0],
    ['bytes=0-', 0, 299_999],
    ['bytes=299999-', 299_999, 299_999],
    ['bytes=150000-400000', 150_000, 299_999],
    ['bytes=-5', 299_995, 299_999],
    ['bytes=-400000', 0, 299_999],
    ['Bytes=70000-200000', 70_000, 200_000],
  ] as const) {
    const { status, headers, body } = await get({ range });
    assert.equal(status, 206, range);
    assert.equal(headers['content-range'], `bytes ${from}-${to}/300000`);
    assert.equal(headers['content-length'], String(to - from + 1));
    assert.equal(headers['content-type'], 'video/mp4');
    assert.equal(headers.etag, tag);
    assert.ok(body === FILM.slice(from, to + 1), range);
  }
});

test('a static file that workerd gives no type gets the type of its extension', async () => {
  for (const [path, type] of [
    ['/film.MKV', 'video/x-matroska'],
    ['/film.MKV?name=a.vtt', 'video/x-matroska'],
    ['/subtitles.vtt', 'text/vtt; charset=utf-8'],
    ['/data.unknown', undefined],
    ['/mkv', undefined],
  ] as const)
    for (const method of ['GET', 'HEAD']) {
      const { status, headers, body } = await get({}, { path, method });
      assert.equal(status, 200);
      assert.equal(headers['content-type'], type, path);
      const length = Number(headers['content-length']);
      assert.ok(length > 0 && body.length === (method === 'HEAD' ? 0 : length), `${method} ${path}`);
    }
  const part = await get({ range: 'bytes=2-4' }, { path: '/film.MKV' });
  assert.equal(part.status, 206);
  assert.equal(part.headers['content-type'], 'video/x-matroska');
  assert.equal(part.body, FILM.slice(2, 5));
  const known = { 'if-none-match': `"another", ${part.headers.etag}` };
  assert.equal((await get(known, { path: '/film.MKV' })).status, 304);
});

test('a range past the end is refused with the file size', async () => {
  for (const [path, range, size] of [
    ['/film.mp4', 'bytes=300000-', 300_000],
    ['/film.mp4', 'bytes=-0', 300_000],
    ['/empty.mp4', 'bytes=0-1', 0],
  ] as const) {
    const { status, headers, body } = await get({ range }, { path });
    assert.equal(status, 416, range);
    assert.equal(headers['content-range'], `bytes */${size}`);
    assert.equal(body, '');
  }
});

test('requests with an invalid range, several ranges or another version get the whole file', async () => {
  for (const headers of [
    { range: 'bytes=0-1,4-5' },
    { range: 'bytes=5-4' },
    { range: 'bytes=a-b' },
    { range: 'bytes=-' },
    { range: 'items=0-1' },
    { range: 'bytes=0-1', 'if-range': '"another"' },
    { range: 'bytes=0-1', 'if-range': `W/${tag}` },
    { range: 'bytes=0-1', 'if-range': 'Thu, 01 Jan 2026 00:00:00 GMT' },
  ]) {
    const { status, body } = await get(headers);
    assert.equal(status, 200, JSON.stringify(headers));
    assert.equal(body.length, FILM.length);
  }
  assert.equal((await get({ range: 'bytes=0-1', 'if-range': tag })).status, 206);
  const head = await get({ range: 'bytes=0-1' }, { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.equal(head.headers['content-length'], '300000');
});

test('a client with the current version gets 304', async () => {
  for (const known of [tag, `W/${tag}`, `"another", ${tag}`, `"a", W/${tag}, "b"`, '*'])
    for (const method of ['GET', 'HEAD']) {
      const { status, headers, body } = await get({ 'if-none-match': known, range: 'bytes=0-1' }, { method });
      assert.equal(status, 304, `${method} ${known}`);
      assert.equal(headers.etag, tag);
      assert.equal(headers['content-length'], undefined);
      assert.equal(body, '');
    }
  assert.equal((await get({ 'if-none-match': '"another", "more"' })).status, 200);
  assert.equal((await get({ 'if-none-match': '"another"', range: 'bytes=0-1' })).status, 206);
});

test("a Worker's own answer is unchanged", async () => {
  for (const own of ['"own"', tag]) {
    const path = `/own.mkv?tag=${encodeURIComponent(own)}`;
    for (const asked of [{}, { range: 'bytes=0-1' }, { 'if-none-match': own }, { 'if-none-match': '*' }]) {
      const { status, headers, body } = await get(asked, { path });
      assert.deepEqual([status, headers['content-type'], body], [200, undefined, '0123456789']);
    }
  }
});

test('a range of an answer with as many fields as allowed is answered', async () => {
  for (const path of ['/own', '/own.mkv'])
    for (const [fields, status, body] of [
      [0, 206, '01234'],
      [251, 206, '01234'],
      [253, 200, '0123456789'],
      [254, 200, '0123456789'],
    ] as const) {
      const query = `tag=${encodeURIComponent('"a-a-a"')}&fields=${fields}`;
      const found = await get({ range: 'bytes=0-4' }, { path: `${path}?${query}` });
      assert.deepEqual([fields, found.status, found.body], [fields, status, body], path);
    }
});

test('a connection is reused after a range request', async () => {
  using client = new RawClient(port);
  for (const [range, body] of [
    ['bytes=0-4', '10000'],
    ['bytes=299995-', '69999'],
    ['bytes=5-9', '10001'],
  ]) {
    client.received = '';
    client.send(`GET /film.mp4 HTTP/1.1\r\nHost: a\r\nRange: ${range}\r\n\r\n`);
    await client.expect(`\r\n\r\n${body}`);
  }
});
