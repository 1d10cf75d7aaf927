// The Cache API in an app's process: what is cached, for how long, and its size limit.
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { call, cellOptions, makeRelease } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** Runs the `method` of the JSON in the header `x-do`, on the cache called `name` or on the default one. */
const CODE = `
/** Puts a response repeatedly while readers of earlier bodies never finish. */
async function hold(cache, key, count, size) {
  const readers = [];
  for (let n = 0; n < count; n++) {
    await cache.put(key, new Response(new Uint8Array(size), { headers: { 'cache-control': 'max-age=100' } }));
    const found = await cache.match(key);
    if (found === undefined) return 'refused';
    readers.push(found.body.getReader());
    await readers.at(-1).read();
  }
  return 'held';
}
export default {
  async fetch(request) {
    const { method, key: url = 'https://site.example/a', cf, name, headers, status, body, streamed, size, count } = JSON.parse(request.headers.get('x-do'));
    const cache = name === undefined ? caches.default : await caches.open(name);
    const key = new Request(url, { cf });
    try {
      if (method === 'put') {
        const stream = () => new Blob([streamed]).stream().pipeThrough(new TransformStream());
        await cache.put(key, new Response(streamed !== undefined ? stream() : size === undefined ? body : new Uint8Array(size).fill(7), { status, headers }));
        return new Response('put');
      }
      if (method === 'delete') return new Response(String(await cache.delete(key)));
      if (method === 'post') return new Response(String(await cache.put(new Request(url, { method: 'POST' }), new Response('x'))));
      if (method === 'hold') return new Response(await hold(cache, key, count, size));
      const found = await cache.match(new Request(key, { headers }));
      if (found === undefined) return new Response('miss', { status: 404 });
      if (method === 'head') {
        const framing = found.headers.get('content-length') + ' ' + found.headers.get('transfer-encoding');
        return new Response(found.body, { headers: { 'x-cached': framing } });
      }
      if (method === 'text') return new Response(await found.text());
      if (method === 'sum') {
        const bytes = new Uint8Array(await found.arrayBuffer());
        return new Response(bytes.length + ' ' + bytes.every((byte) => byte === 7));
      }
      return found;
    } catch (error) {
      return new Response(error.message, { status: 500 });
    }
  },
};`;

type Do = (asked: object) => ReturnType<typeof call>;

async function cached(
  t: TestContext,
  cacheMb = 4,
): Promise<{ ask: Do; again: () => Promise<void>; root: string }> {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, CODE);
  let cell: Cell = await startCell(await cellOptions(root, directory, cacheMb));
  t.after(() => cell.stop());
  const ask: Do = (asked) =>
    call(cell.socketPath('http'), '/', { headers: { 'x-do': JSON.stringify(asked) } });
  const again = async () => {
    cell.kill();
    await cell.exited;
    cell = await startCell(await cellOptions(root, directory, cacheMb));
  };
  return { ask, again, root };
}

test('a response is cached for its max-age with its status and headers, also after the process was killed', async (t) => {
  const { ask, again } = await cached(t);
  const headers = { 'cache-control': 'max-age=100', 'content-type': 'text/x', 'x-own': 'yes', etag: '"one"' };
  assert.equal((await ask({ method: 'match' })).status, 404);
  assert.equal((await ask({ method: 'put', body: 'kept', headers })).text, 'put');
  await again();
  const found = await ask({ method: 'match' });
  assert.deepEqual([found.status, found.text, found.headers['x-own']], [200, 'kept', 'yes']);
  assert.equal(found.headers['cf-cache-status'], 'HIT');
  assert.ok(Number(found.headers.age) < 100, `${found.headers.age}`);
  // The length of a streamed body is known once it is stored.
  const asked = { key: 'https://site.example/streamed', headers };
  await ask({ ...asked, method: 'put', streamed: 'flowed' });
  const { text, headers: got } = await ask({ ...asked, method: 'head', headers: {} });
  assert.deepEqual([text, got['x-cached']], ['flowed', '6 null']);
  // Each cache has its own keys.
  assert.equal((await ask({ method: 'match', name: 'other' })).status, 404);
  await ask({ method: 'put', name: 'other', body: 'other', headers });
  assert.equal((await ask({ method: 'match', name: 'other' })).text, 'other');
  // A `cf.cacheKey` takes the place of the URL.
  const cf = { cacheKey: 'https://site.example/keyed' };
  await ask({ method: 'put', cf, body: 'keyed', headers });
  assert.equal((await ask({ method: 'match' })).text, 'kept');
  assert.equal((await ask({ method: 'match', cf })).text, 'keyed');
  assert.equal((await ask({ method: 'match', key: 'https://other.example/', cf })).text, 'keyed');
  assert.equal((await ask({ method: 'delete', cf })).text, 'true');
  assert.equal((await ask({ method: 'match', cf })).status, 404);
  // Conditional and range requests.
  assert.equal((await ask({ method: 'match', headers: { 'if-none-match': 'W/"one"' } })).status, 304);
  assert.equal((await ask({ method: 'match', headers: { 'if-none-match': '"two"' } })).status, 200);
  const part = await ask({ method: 'match', headers: { range: 'bytes=1-2' } });
  assert.deepEqual([part.status, part.text, part.headers['content-range']], [206, 'ep', 'bytes 1-2/4']);
  assert.equal((await ask({ method: 'match', headers: { range: 'bytes=9-' } })).status, 416);
  const resumed = async (validator: string) => {
    const { status } = await ask({
      method: 'match',
      headers: { range: 'bytes=1-2', 'if-range': validator },
    });
    return status;
  };
  assert.equal(await resumed('"one"'), 206);
  assert.equal(await resumed('"two"'), 200, 'another version');
  assert.equal(await resumed('W/"one"'), 200, 'a weak etag');
  const dated = 'Wed, 21 Oct 2026 07:28:00 GMT';
  assert.equal(await resumed(dated), 200, 'a response without a date');
  await ask({ method: 'put', body: 'kept', headers: { ...headers, 'last-modified': dated } });
  assert.equal(await resumed(dated), 206);
  assert.equal(await resumed('Wed, 21 Oct 2026 07:28:01 GMT'), 200, 'another date');
  assert.deepEqual(
    [(await ask({ method: 'delete' })).text, (await ask({ method: 'delete' })).text],
    ['true', 'false'],
  );
  assert.equal((await ask({ method: 'match' })).status, 404);
});

test('uncacheable responses are not stored, and a missing max-age gets the default of Cloudflare', async (t) => {
  const { ask } = await cached(t);
  const later = new Date(Date.now() + 60_000).toUTCString();
  const cases: [object, boolean][] = [
    [{ 'cache-control': 'no-store' }, false],
    [{ 'cache-control': 'private, max-age=5' }, false],
    [{ 'cache-control': 'max-age=0' }, false],
    [{ 'cache-control': 'max-age=100, s-maxage=0' }, false],
    [{ 'cache-control': 'max-age=0, s-maxage=100' }, true],
    [{ 'cache-control': 'max-age=100', age: '100' }, false],
    [{ 'cache-control': 'max-age=100', 'set-cookie': 'a=b' }, false],
    [{ 'cache-control': 'max-age=100, private=set-cookie', 'set-cookie': 'a=b' }, true],
    [{ expires: later }, true],
    [{ expires: new Date(0).toUTCString() }, false],
    [{}, true],
  ];
  for (const [n, [headers, isKept]] of cases.entries()) {
    const key = `https://site.example/${n}`;
    assert.equal((await ask({ method: 'put', key, body: 'x', headers })).text, 'put');
    const found = await ask({ method: 'match', key });
    assert.equal(found.status, isKept ? 200 : 404, JSON.stringify(headers));
    assert.equal(found.headers['set-cookie'], undefined);
  }
  assert.equal((await ask({ method: 'put', status: 500, body: 'x' })).text, 'put');
  assert.equal((await ask({ method: 'match' })).status, 404);
  assert.match((await ask({ method: 'put', body: 'x', headers: { vary: '*' } })).text, /Vary: \*/);
  assert.match((await ask({ method: 'post' })).text, /non-GET/);
  assert.match((await ask({ method: 'put', status: 206, body: 'x' })).text, /206/);
});

test('expired responses are gone, and an encoded body is unchanged', async (t) => {
  const { ask } = await cached(t);
  await ask({ method: 'put', body: 'soon', headers: { 'cache-control': 'max-age=3' } });
  assert.equal((await ask({ method: 'match' })).text, 'soon');
  const from = performance.now();
  while ((await ask({ method: 'match' })).status === 200) assert.ok(performance.now() - from < 30_000);
  assert.ok(performance.now() - from > 500);
  const key = 'https://site.example/gzip';
  await ask({
    method: 'put',
    key,
    body: 'zipped',
    headers: { 'content-encoding': 'gzip', 'cache-control': 'max-age=9' },
  });
  assert.equal((await ask({ method: 'text', key })).text, 'zipped');
});

test('a full cache evicts the least recently used response, and one response may take half of it', async (t) => {
  const { ask, root } = await cached(t);
  const MB = 2 ** 20;
  const put = (n: number, size = MB) => ask({ method: 'put', key: `https://site.example/${n}`, size });
  const has = async (n: number) =>
    (await ask({ method: 'match', key: `https://site.example/${n}` })).status === 200;
  for (let n = 0; n < 12; n++) await put(n);
  const kept = [];
  for (let n = 0; n < 12; n++) if (await has(n)) kept.push(n);
  assert.deepEqual(kept, [9, 10, 11]);
  await put(100, 2 * MB + 1);
  assert.equal(await has(100), false);
  await put(101, 2 * MB - 2_048);
  const { text } = await ask({ method: 'sum', key: 'https://site.example/101' });
  assert.equal(text, `${2 * MB - 2_048} true`);
  assert.ok(statSync(`${root}/run/cache`).isDirectory());
});

test('headers and keys count against the size limit', async (t) => {
  const { ask } = await cached(t, 1);
  const rest = 'k'.repeat(10_000);
  const key = (n: number) => `https://site.example/${n}?${rest}`;
  for (let n = 0; n < 60; n++)
    await ask({ method: 'put', key: key(n), body: 'x', headers: { 'x-own': rest } });
  let kept = 0;
  for (let n = 0; n < 60; n++) if ((await ask({ method: 'match', key: key(n) })).status === 200) kept++;
  assert.ok(kept > 20 && kept < 35, `${kept} of about 30 kB each in 1 MiB`);
});

test('replaced bodies count against the size limit until their readers finish', async (t) => {
  const { ask, root } = await cached(t);
  const MB = 2 ** 20;
  assert.equal((await ask({ method: 'hold', count: 16, size: 1.5 * MB })).text, 'refused');
  const files = readdirSync(`${root}/run/cache`, { recursive: true }).map((name) =>
    statSync(`${root}/run/cache/${name}`),
  );
  const bytes = files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
  // SQLite's write-ahead log comes on top of the 4 MiB.
  assert.ok(bytes < 12 * MB, `${bytes} bytes`);
  assert.equal((await ask({ method: 'put', body: 'x' })).text, 'put');
});
