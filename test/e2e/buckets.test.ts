// Buckets of pushed apps, on a real host.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { sharedCellar } from '../support/e2e/shared.ts';
import { cells, eventually } from '../support/processes.ts';

const cellar = sharedCellar('storage');

const put = (slug: string, path: string, body: string) => cellar.get(slug, path, { method: 'PUT', body });

test('a bucket keeps its files across deploys, sleep and a killed host, and separate from other apps', async () => {
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

test('the API reads, lists, changes and deletes objects of a sleeping app without starting it', async () => {
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

test('the API streams uploads, whole or in parts, needs the role push, and stores no more than Content-Length', async () => {
  const id = await cellar.deploy('warehouse', 'bucket');
  const other = await cellar.deploy('neighbour', 'bucket');
  const path = (app: string, query: Record<string, string>, bucket = 'files') =>
    `/v1/apps/${app}/storage/r2/${bucket}/raw?${new URLSearchParams(query)}`;
  const send = async (
    query: Record<string, string>,
    body: string | Buffer | ReadableStream,
    { app = id, token = cellar.token, bucket = 'files', headers = {} } = {},
  ) => {
    const response = await fetch(cellar.api + path(app, query, bucket), {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'text/plain', ...headers },
      body,
      duplex: 'half',
    } as RequestInit);
    // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what is asserted
    return { status: response.status, body: (await response.json()) as any };
  };
  const rpc = async (method: string, params: object) => {
    const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
    return body.error?.data ?? body.result;
  };
  const place = { id, bucket: 'files', key: 'large/ж.bin' };
  const size = async (key: string) => (await rpc('storage.r2.get', { ...place, key })).size;

  const made = await send({ key: 'a/at once' }, 'x'.repeat(20 * 2 ** 20));
  assert.deepEqual([made.status, made.body.size, made.body.content_type], [200, 20 * 2 ** 20, 'text/plain']);
  assert.equal((await send({ key: 'empty' }, '')).body.size, 0);
  for (const [name, value] of [
    ['expires', 'soon'],
    ['content-disposition', `inline; filename="${'x'.repeat(500)}"`],
  ] as const) {
    const refused = await send({ key: 'refused' }, 'x', { headers: { [name]: value } });
    assert.deepEqual([refused.body.code, refused.body.errors[0].path], ['invalid_input', name]);
  }

  const { upload_id } = await rpc('storage.r2.create_upload', { ...place, content_type: 'video/mp4' });
  const part = (n: number, body: string | Buffer, options = {}) =>
    send({ key: place.key, upload_id, part: String(n) }, body, options);
  const piece = 5 * 2 ** 20;
  assert.equal((await part(2, Buffer.alloc(piece, 'b'))).status, 200);
  const parts = [
    (await part(1, Buffer.alloc(piece, 'a'))).body,
    // Part 2 is sent twice, as after a broken connection: the later one counts.
    (await part(2, Buffer.alloc(piece, 'c'))).body,
    (await part(3, 'the end')).body,
  ];
  const complete = (over: object) =>
    rpc('storage.r2.complete_upload', { ...place, upload_id, parts, ...over });
  const [first, second] = parts;
  for (const [over, code] of [
    [{ key: 'another' }, 'storage_not_found'],
    [{ upload_id: 'x'.repeat(171) }, 'storage_not_found'],
    [{ id: other }, 'storage_not_found'],
    [{ parts: [{ ...first, etag: 'wrong' }] }, 'invalid_input'],
    [{ parts: [first, first] }, 'invalid_input'],
    [{ parts: [parts[2], second] }, 'invalid_input'],
    [{ parts: Array.from({ length: 1_001 }, (_, n) => ({ part: n + 1, etag: 'x' })) }, 'invalid_input'],
  ] as const)
    assert.equal((await complete(over)).code, code, JSON.stringify(over).slice(0, 100));
  const whole = await complete({});
  assert.deepEqual([whole.size, whole.content_type], [2 * piece + 7, 'video/mp4']);
  assert.equal((await complete({})).code, 'storage_not_found', 'an upload is completed once');
  const end = await rpc('storage.r2.raw', { ...place, range: `bytes=${2 * piece - 1}-` });
  assert.equal(Buffer.from(end.content_base64, 'base64').toString(), 'cthe end');

  const blobs = join(cellar.data, 'buckets', id, 'blobs');
  const kept = new Set(readdirSync(blobs));
  // Files of replaced parts may still be deleted in the background.
  const isOld = () => readdirSync(blobs).every((file) => kept.has(file));
  const begun = (await rpc('storage.r2.create_upload', place)).upload_id;
  assert.equal((await send({ key: place.key, upload_id: begun, part: '1' }, 'left over')).status, 200);
  assert.equal(isOld(), false);
  assert.equal(await rpc('storage.r2.abort_upload', { ...place, upload_id: begun }), null);
  await eventually(isOld, 'what came of an aborted upload has gone');
  assert.equal(
    (await send({ key: place.key, upload_id: begun, part: '2' }, 'late')).body.code,
    'storage_not_found',
  );

  // Missing roles and invalid requests.
  const { id: account } = (
    await cellar.call('POST', '/rpc', {
      jsonrpc: '2.0',
      id: 1,
      method: 'accounts.create',
      params: { name: 'Guest', email: 'guest@example.com' },
    })
  ).body.result;
  const { key: token } = await rpc('keys.create', { account });
  assert.equal((await send({ key: 'x' }, 'x', { token })).body.code, 'forbidden');
  await rpc('collaborators.set', { id, account, role: 'view' });
  assert.equal((await send({ key: 'x' }, 'x', { token })).body.code, 'forbidden');
  assert.equal((await part(1, 'x', { token })).body.code, 'forbidden');
  await rpc('collaborators.set', { id, account, role: 'push' });
  assert.equal((await send({ key: 'x' }, 'x', { token })).status, 200);
  assert.equal((await send({ key: 'x' }, 'x', { token, app: other })).body.code, 'forbidden');
  assert.equal((await send({ key: 'x' }, 'x', { app: '0000000000000000' })).body.code, 'app_not_found');
  assert.equal((await send({ key: 'x' }, 'x', { bucket: '..' })).status, 404);
  assert.equal((await send({ key: 'x' }, 'x', { bucket: 'none' })).body.code, 'storage_not_found');
  for (const query of [
    {},
    { key: '' },
    { key: 'ж'.repeat(600) },
    { key: 'x', part: '1' },
    { key: 'x', upload_id },
    { key: 'x', upload_id, part: '0' },
    { key: 'x', upload_id, part: '1001' },
    { key: 'x', upload_id, part: '1e3' },
    { key: 'x', upload_id: '../..', part: '1' },
    { key: 'x', id: other },
  ] as Record<string, string>[])
    assert.equal((await send(query, 'x')).body.code, 'invalid_input', JSON.stringify(query));
  for (const key of ['../../etc/passwd', '..', '/', '\0', '<img src=x onerror=alert(1)>', 'a\r\nx: y'])
    assert.deepEqual((await send({ key }, key)).body.key, key);
  assert.equal(await size('../../etc/passwd'), 16);
  const unsaid = new ReadableStream({
    start: (controller) => {
      controller.enqueue(new TextEncoder().encode('of any length'));
      controller.close();
    },
  });
  assert.match((await send({ key: 'x' }, unsaid)).body.detail, /Content-Length/);

  // A truncated body stores nothing. Of a body longer than its Content-Length, the surplus is ignored.
  const wire = (length: number, body: string, end: boolean) =>
    new Promise<string>((resolve, reject) => {
      const { hostname, port } = new URL(cellar.api);
      const socket = connect(Number(port), hostname);
      const head = `PUT ${path(id, { key: 'wire' })} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${cellar.token}\r\n`;
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
        if (text.includes('\r\n\r\n') && length <= body.length) socket.destroy();
      });
      socket.on('close', () => resolve(text)).on('error', reject);
      socket.write(`${head}Content-Length: ${length}\r\n\r\n${body}`, () => end && socket.end());
    });
  const before = new Set(readdirSync(blobs));
  await wire(1_000_000, 'half', true);
  assert.equal((await rpc('storage.r2.get', { ...place, key: 'wire' })).code, 'storage_not_found');
  await eventually(
    () => readdirSync(blobs).every((file) => before.has(file)),
    'nothing is left of a body that broke off',
  );
  assert.match(await wire(4, 'foursurplus', false), /^HTTP\/1\.1 200/);
  assert.equal(await size('wire'), 4);
  assert.match(await wire(6 * 2 ** 30, 'x', true), /body_too_large|^$/);
});
