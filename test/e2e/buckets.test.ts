// Buckets of apps that were pushed, on a real host.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/e2e/processes.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const put = (slug: string, path: string, body: string) => cellar.get(slug, path, { method: 'PUT', body });

test('an app keeps files in its bucket, across deploys, sleep and a killed host, and apart from other apps', async () => {
  const work = await cellar.checkout('bucket');
  const [id, other] = [await cellar.create('keeper'), await cellar.create('stranger')];
  const { stderr } = await cellar.push(work, 'keeper');
  assert.match(stderr, /r2_buckets\.jurisdiction ignored/);
  await cellar.push(work, 'stranger');

  assert.equal((await put('keeper', '/a/b.txt', 'hello')).status, 200);
  assert.equal((await cellar.get('keeper', '/a/b.txt')).text, 'hello');
  assert.deepEqual(JSON.parse((await cellar.get('keeper', '/')).text), ['a/b.txt']);
  assert.deepEqual(JSON.parse((await cellar.get('stranger', '/')).text), []);

  await cellar.deployAgain('keeper', 'bucket', { 'extra.txt': 'another release' });
  assert.equal((await cellar.get('keeper', '/a/b.txt')).text, 'hello');
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
  assert.equal((await cellar.get('keeper', '/a/b.txt')).text, 'hello');

  assert.equal((await put('keeper', '/late', 'acknowledged')).status, 200);
  await cellar.stop('SIGKILL');
  await cellar.start();
  assert.equal((await cellar.get('keeper', '/late')).text, 'acknowledged');
  await cellar.get('keeper', '/late', { method: 'DELETE' });
  assert.equal((await cellar.get('keeper', '/late')).status, 404);

  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  await eventually(() => !existsSync(join(cellar.data, 'buckets', id)), 'the buckets have gone');
  const trash = readdirSync(join(cellar.data, 'trash')).find((name) => name.startsWith(id))!;
  assert.equal(readdirSync(join(cellar.data, 'trash', trash, 'buckets', 'blobs')).length, 1);
  assert.equal((await put('stranger', '/x', 'still here')).status, 200);
  assert.ok(statSync(join(cellar.data, 'buckets', other, 'r2.sock')).isSocket());
  assert.equal(cells(other).length, 1);
});

test('the API reads, lists, changes and deletes objects of an app that sleeps, and starts nothing', async () => {
  const id = await cellar.deploy('library', 'bucket');
  const text = 'x'.repeat(5_000);
  assert.equal((await put('library', '/books/1.txt', text)).status, 200);
  assert.equal((await put('library', '/books/2.html', '<script>alert(1)</script>')).status, 200);
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
  const path = `/v1/apps/${id}/storage/r2/files`;
  const rpc = async (method: string, params: object) => {
    const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
    return body.error?.data ?? body.result;
  };

  const first = await cellar.call('GET', `${path}?limit=1&prefix=books/`);
  assert.deepEqual([first.status, first.body.items.length], [200, 1]);
  const { key, size, etag, uploaded_at } = first.body.items[0];
  assert.deepEqual([key, size, etag.length], ['books/1.txt', 5_000, 32]);
  assert.ok(Math.abs(Date.parse(uploaded_at) - Date.now()) < 60_000);
  const second = await cellar.call('GET', `${path}?limit=1&prefix=books/&cursor=${first.body.next_cursor}`);
  assert.deepEqual(
    second.body.items.map((item: { key: string }) => item.key),
    ['books/2.html'],
  );
  assert.equal(second.body.next_cursor, null);

  const got = await cellar.call('GET', `${path}/object?key=books/1.txt`);
  assert.equal(Buffer.from(got.body.content_base64, 'base64').toString(), text);
  assert.deepEqual([got.body.content_type, got.body.metadata], [null, {}]);

  const raw = (key: string, headers: Record<string, string> = {}) =>
    fetch(`${cellar.api}${path}/raw?key=${encodeURIComponent(key)}`, {
      headers: { authorization: `Bearer ${cellar.token}`, ...headers },
    });
  const whole = await raw('books/2.html');
  assert.equal(await whole.text(), '<script>alert(1)</script>');
  assert.equal(whole.headers.get('x-content-type-options'), 'nosniff');
  assert.match(whole.headers.get('content-security-policy')!, /^sandbox/);
  assert.equal(whole.headers.get('content-type'), 'application/octet-stream');
  assert.equal((await raw('books/2.html', { 'if-none-match': whole.headers.get('etag')! })).status, 304);
  const part = await raw('books/1.txt', { range: 'bytes=10-19' });
  assert.deepEqual([part.status, part.headers.get('content-range')], [206, 'bytes 10-19/5000']);
  assert.equal((await part.text()).length, 10);
  assert.equal((await raw('books/1.txt', { range: 'bytes=5000-' })).status, 416);
  assert.equal((await raw('none')).status, 404);

  const content_base64 = Buffer.from('from outside').toString('base64');
  const wanted = {
    id,
    bucket: 'files',
    key: 'ключ/../x',
    content_base64,
    content_type: 'text/plain',
    metadata: { by: 'ö' },
  };
  const made = await rpc('storage.r2.put', wanted);
  assert.deepEqual([made.key, made.size, made.metadata], ['ключ/../x', 12, { by: 'ö' }]);
  assert.equal((await raw('ключ/../x')).headers.get('content-type'), 'text/plain');
  assert.deepEqual(
    await rpc('storage.r2.raw', { id, bucket: 'files', key: 'ключ/../x', range: 'bytes=5-' }),
    {
      content_base64: Buffer.from('outside').toString('base64'),
    },
  );
  assert.equal((await rpc('storage.r2.put', { ...wanted, bucket: 'other' })).code, 'storage_not_found');
  assert.equal((await rpc('storage.r2.put', { ...wanted, key: 'ж'.repeat(600) })).code, 'invalid_input');
  assert.equal(
    (await rpc('storage.r2.put', { ...wanted, metadata: { x: 'y'.repeat(8192) } })).code,
    'invalid_input',
  );

  const { buckets } = (await cellar.call('GET', `/v1/apps/${id}/storage`)).body;
  assert.deepEqual(buckets, [{ bucket: 'files', binding: 'FILES', objects: 3, bytes: 5_037 }]);
  assert.equal((await cellar.call('GET', `/v1/apps/${id}/storage/r2/FILES`)).body.items.length, 3);
  const folders = (await cellar.call('GET', `${path}?delimiter=/&limit=1`)).body;
  assert.deepEqual([folders.items, folders.prefixes], [[], ['books/']]);
  const rest = await cellar.call('GET', `${path}?delimiter=/&cursor=${folders.next_cursor}`);
  assert.ok(rest.body.prefixes.includes('ключ/') && !rest.body.prefixes.includes('books/'));
  assert.equal((await cellar.call('DELETE', `${path}/object?key=books/1.txt`)).status, 204);
  assert.equal(
    (await cellar.call('DELETE', `${path}/object?key=books/1.txt`)).body.code,
    'storage_not_found',
  );
  assert.equal((await cellar.call('GET', `${path}/object?key=books/1.txt`)).status, 404);
  assert.equal(
    (await cellar.call('GET', `/v1/apps/${id}/storage/r2/constructor`)).body.code,
    'storage_not_found',
  );

  assert.equal(cells(id).length, 0, 'no process was started');
  assert.equal((await cellar.app(id)).status, 'sleeping');
  assert.equal((await cellar.get('library', '/ключ%2F..%2Fx')).text, 'from outside');
});
