// Reads and writes of a pushed app's storage over REST and RPC, while it runs, hibernates and sleeps.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { cells, eventually, readers } from '../support/processes.ts';
import { ENDLESS_QUERY } from '../support/storage/endless-query.ts';

const cellar = sharedCellar('storage');
const rpc = rpcOf(cellar);

const CODE = `
import { DurableObject } from 'cloudflare:workers';
export class Room extends DurableObject {
  async fill(alarm) {
    await this.ctx.storage.put({ n: 1, when: new Date(0), map: new Map([['a', 2n]]), '': 'no name' });
    // workerd serializes errors and its own objects in a special format.
    const late = new DOMException('é', 'TimeoutError');
    const failed = Object.assign(new TypeError('bad', { cause: new Error('inner') }), { code: 42 });
    class Refused extends Error { name = 'Refused' }
    await this.ctx.storage.put('failed', { a: 1, failed, late, refused: new Refused('no'), z: [2] });
    await this.ctx.storage.put('headers', new Headers({ a: 'b' }));
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS said (line TEXT)');
    this.ctx.storage.sql.exec('INSERT INTO said VALUES (?)', 'hello');
    if (alarm) await this.ctx.storage.setAlarm(Date.UTC(2100, 0, 1));
  }
  alarm() {}
}
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/read') {
      const { results } = await env.DB.prepare('SELECT * FROM people ORDER BY id').all();
      return Response.json({ people: results, kv: await env.KV.get('new') });
    }
    await env.ROOM.getByName('one').fill(true);
    await env.ROOM.getByName('two').fill(false);
    await env.DB.exec('CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, photo BLOB)');
    for (const name of ['Ada', 'Grace', 'Edsger'])
      await env.DB.prepare('INSERT INTO people (name, photo) VALUES (?, ?)').bind(name, new Uint8Array([1, 2])).run();
    await env.KV.put('small', 'é', { metadata: { x: 1 }, expirationTtl: 3600 });
    await env.KV.put('dir/large', 'v'.repeat(100_000));
    await env.KV.put('nul\\0/a', 'a');
    await env.JOBS.send('one', { delaySeconds: 43200 });
    return new Response('filled');
  },
  queue() {},
};`;
const PEOPLE = '7c1e4a1c-6c53-4f0e-9d43-0d0b8f1c2a3b';
const CONFIG = `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
[[d1_databases]]
binding = "DB"
database_name = "people"
database_id = "${PEOPLE}"
[[kv_namespaces]]
binding = "KV"
id = "the-namespace"
[[queues.producers]]
binding = "JOBS"
queue = "jobs"
[[queues.consumers]]
queue = "jobs"
`;

async function push(slug: string, config = CONFIG): Promise<void> {
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), CODE);
  writeFileSync(join(work, 'wrangler.toml'), config);
  await cellar.commit(work, 'keeping');
  const { stderr } = await cellar.push(work, slug, '--force');
  assert.match(stderr, /serves this push/, stderr);
}

/** Asserts that all storage can be read. Holds in every state of the app. */
async function assertReadable(id: string): Promise<void> {
  const get = async (path: string) => {
    const { status, body } = await cellar.call('GET', `/v1/apps/${id}/storage${path}`);
    assert.equal(status, 200, `${path} ${JSON.stringify(body)}`);
    return body;
  };
  const all = await get('');
  assert.deepEqual(
    all.databases.map(({ bytes, ...named }: { bytes: number }) => [named, bytes > 0]),
    [[{ id: PEOPLE, binding: 'DB', name: 'people' }, true]],
  );
  assert.deepEqual([all.classes[0].class_name, all.classes[0].objects], ['Room', 2]);
  assert.deepEqual([all.namespaces[0].id, all.namespaces[0].keys], ['the-namespace', 3]);
  assert.ok(all.namespaces[0].bytes > 100_000);
  assert.deepEqual([all.queues[0].queue, all.queues[0].messages], ['jobs', 1]);

  const { tables } = await get('/d1/people');
  const [people] = tables.filter(({ name }: { name: string }) => name === 'people');
  assert.deepEqual(people.columns[0], {
    name: 'id',
    type: 'INTEGER',
    not_null: false,
    default: null,
    primary_key: 1,
    generated: false,
  });
  const first = await get('/d1/DB?table=people&limit=2&sort=-name&filter=id+%3C+10');
  assert.deepEqual(first.columns, ['id', 'name', 'photo']);
  assert.deepEqual(
    first.rows.map((row: unknown[]) => row[1]),
    ['Grace', 'Edsger'],
  );
  assert.deepEqual(first.rows[0][2], { $bytes: 'AQI=' });
  const more = `/d1/DB?table=people&limit=2&sort=-name&filter=id+%3C+10&cursor=${first.next_cursor}`;
  assert.deepEqual((await get(more)).rows, [[1, 'Ada', { $bytes: 'AQI=' }]]);
  const counted = await rpc('storage.d1.get', {
    id,
    database_id: 'people',
    sql: 'SELECT count(*) AS n FROM people',
  });
  assert.deepEqual(counted, { columns: ['n'], rows: [[3]], next_cursor: null });

  const { items } = await get('/do/Room');
  assert.equal(items.length, 2);
  const alarmed = items.find(({ name }: { name: string | null }) => name === 'one');
  assert.equal(alarmed.next_alarm, '2100-01-01T00:00:00.000Z');
  const two = await get('/do/Room?name=two');
  assert.deepEqual([two.object.name, two.object.next_alarm], ['two', null]);
  assert.deepEqual(
    two.items.map(({ key, value }: { key: string; value: unknown }) => [key, value]),
    [
      ['', 'no name'],
      [
        'failed',
        {
          a: 1,
          failed: { $error: { name: 'TypeError', message: 'bad' } },
          late: { $error: { name: 'TimeoutError', message: 'é' } },
          refused: { $error: { name: 'Refused', message: 'no' } },
          z: [2],
        },
      ],
      ['headers', two.items[2].value],
      ['map', { $map: [['a', { $bigint: '2' }]] }],
      ['n', 1],
      ['when', { $date: '1970-01-01T00:00:00.000Z' }],
    ],
  );
  assert.match(two.items[2].value.$unreadable, /an object of workerd's own/);
  assert.deepEqual((await get('/do/Room?name=two&limit=1')).items[0].key, '');
  assert.deepEqual((await get('/do/Room?name=two&key=')).items[0].value, 'no name');
  assert.deepEqual(
    two.object.tables.map(({ name }: { name: string }) => name),
    ['said'],
  );
  const said = await get(`/do/Room?id=${two.object.id}&table=said`);
  assert.deepEqual([said.columns, said.rows], [['line'], [['hello']]]);

  const keys = await rpc('storage.kv.list', { id, namespace_id: 'KV' });
  assert.deepEqual(
    keys.items.map(({ key, bytes, metadata }: { key: string; bytes: number; metadata: unknown }) => [
      key,
      bytes,
      metadata,
    ]),
    [
      ['dir/large', null, null],
      ['nul\0/a', 1, null],
      ['small', 2, { x: 1 }],
    ],
  );
  for (const prefix of ['dir/', 'nul\0/'])
    assert.equal((await rpc('storage.kv.list', { id, namespace_id: 'KV', prefix })).items.length, 1, prefix);
  const value = async (key: string) =>
    Buffer.from(
      (await rpc('storage.kv.get', { id, namespace_id: 'KV', key })).value_base64,
      'base64',
    ).toString();
  assert.deepEqual([await value('small'), (await value('dir/large')).length], ['é', 100_000]);
}

test('all storage of an app can be read while it runs, and while it sleeps without starting it', async () => {
  const id = await cellar.create('keeping');
  await push('keeping');
  assert.equal((await cellar.get('keeping')).text, 'filled');
  assert.equal(cells(id).length, 1);
  await assertReadable(id);
  const { body } = await cellar.call('POST', `/v1/apps/${id}/sleep`);
  assert.equal(body.status, 'sleeping');
  const from = cellar.output.length;
  await assertReadable(id);
  assert.deepEqual(cells(id), []);
  const app = await cellar.app(id);
  assert.deepEqual([app.status, app.asleep_since], ['sleeping', body.asleep_since]);
  assert.doesNotMatch(cellar.output.slice(from), /wakes/);
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  await assertReadable(id);
  assert.deepEqual(cells(id), []);
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'running' });
  assert.equal(JSON.parse((await cellar.get('keeping', '/read')).text).people.length, 3);
});

/** Returns the CPU time of a process, in hundredths of a second. */
function ticksOf(pid: number): number {
  const [, fields] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const [user, system] = fields!.split(' ').slice(11, 13);
  return Number(user) + Number(system);
}

test('a write runs in a process of the app as one transaction, and a sleeping app stays asleep', async () => {
  const id = await cellar.create('writing');
  await push('writing');
  await cellar.get('writing');
  const write = (body: object) => cellar.call('POST', `/v1/apps/${id}/storage/d1/people/write`, body);
  const count = async () => {
    const answer = await rpc('storage.d1.get', { id, database_id: 'DB', sql: 'SELECT count(*) FROM people' });
    assert.ok('rows' in answer, JSON.stringify(answer));
    return answer.rows[0][0];
  };
  const writeAll = async () => {
    const sql = 'INSERT INTO people (name, photo) VALUES (?, ?)';
    const before = await count();
    const { status, body } = await write({ sql, params: ["Barbara'); --", { $bytes: 'AAEC' }] });
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.changes, body.last_row_id], [1, before + 1]);
    const failed = await write({
      statements: [
        { sql, params: ['first', null] },
        { sql, params: [null, null] },
      ],
    });
    assert.deepEqual([failed.status, failed.body.code], [400, 'query_failed']);
    assert.match(failed.body.detail, /NOT NULL constraint failed: people\.name/);
    assert.equal(await count(), before + 1, 'nothing of the transaction stays');
    const rounded = await write({
      statements: [
        { sql, params: ['x', null] },
        { sql, params: ['x', 2 ** 53] },
      ],
    });
    assert.deepEqual([rounded.status, rounded.body.code], [400, 'invalid_input']);
    assert.match(rounded.body.detail, /^statements\.1\.params\.1: .*2\^53.*CAST\(\? AS INTEGER\)/);
    const both = await write({
      statements: [{ sql, params: ['x', null] }, { sql: 'UPDATE people SET photo = NULL' }],
    });
    assert.equal(both.status, 200, JSON.stringify(both.body));
    assert.deepEqual(
      both.body.map(({ changes }: { changes: number }) => changes),
      [1, before + 2],
    );
    const found = { id, database_id: 'DB', table: 'people', sort: '-id', limit: 2 };
    assert.deepEqual(
      (await rpc('storage.d1.get', found)).rows.map((row: unknown[]) => row[1]),
      ['x', "Barbara'); --"],
    );
    const entry = { id, namespace_id: 'KV', key: 'new/ü' };
    const value_base64 = Buffer.from([0, 255, 128]).toString('base64');
    const expires_at = new Date(Date.UTC(2037, 0, 1)).toISOString();
    assert.deepEqual(
      await rpc('storage.kv.put', { ...entry, value_base64, expires_at, metadata: { a: 1 } }),
      {
        key: 'new/ü',
      },
    );
    const got = await rpc('storage.kv.get', entry);
    assert.deepEqual(got, { key: 'new/ü', value_base64, expires_at, metadata: { a: 1 } });
    assert.equal(await rpc('storage.kv.delete', entry), null);
    assert.equal((await rpc('storage.kv.get', entry)).code, 'storage_not_found');
  };
  await writeAll();
  // The SQL that the error about rounded numbers recommends.
  const large = await write({
    sql: 'INSERT INTO people (id, name) VALUES (CAST(? AS INTEGER), ?)',
    params: ['9007199254740993', 'large'],
  });
  assert.deepEqual([large.body.changes, large.body.last_row_id], [1, null]);
  const named = "SELECT id FROM people WHERE name = 'large'";
  const { rows: found } = await rpc('storage.d1.get', { id, database_id: 'DB', sql: named });
  assert.deepEqual(found, [[{ $bigint: '9007199254740993' }]]);
  await write({ sql: "DELETE FROM people WHERE name = 'large'" });
  const endless = 'WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s) SELECT count(*) FROM s';
  const { pid } = cells(id)[0]!;
  const before = ticksOf(pid);
  const cut = write({ sql: endless });
  await eventually(() => ticksOf(pid) > before + 30, 'the statement is under way');
  process.kill(pid, 'SIGKILL');
  const { status, body: said } = await cut;
  assert.deepEqual([status, said.code], [503, 'app_unavailable']);
  assert.match(said.detail, /process ended before it had answered/);
  const { body } = await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await writeAll();
  const app = await cellar.app(id);
  assert.deepEqual([app.status, app.asleep_since], ['sleeping', body.asleep_since]);
  assert.deepEqual((await write({ sql: 'SELECT 1', statements: [{ sql: 'SELECT 1' }] })).status, 400);
  await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  await writeAll();
  assert.equal((await cellar.app(id)).status, 'stopped');
  assert.equal((await cellar.get('writing')).status, 503);
});

test("Cloudflare's API stores a value of KV's largest size as an app's own put does", async () => {
  const code = `
  const bytes = (size) => new Uint8Array(size).map((_, at) => at * 31);
  export default { async fetch(request, { KV }) {
    const url = new URL(request.url);
    const key = url.searchParams.get('key');
    if (request.method === 'PUT') {
      const options = { metadata: { a: 'é' }, expiration: 2_100_000_000 };
      const put = KV.put(key, bytes(Number(url.searchParams.get('size'))), options);
      return new Response(await put.then(() => 'put', (error) => error.message));
    }
    const { value, metadata } = await KV.getWithMetadata(key, 'arrayBuffer');
    const digest = value && new Uint8Array(await crypto.subtle.digest('SHA-256', value)).toHex();
    return Response.json({ digest, size: value?.byteLength, metadata });
  } };`;
  const config =
    'main = "index.js"\ncompatibility_date = "2026-10-01"\nkv_namespaces = [{ binding = "KV", id = "large" }]';
  const id = await cellar.deploy('large-values', 'hello', { 'index.js': code, 'wrangler.toml': config });
  const { owner } = await cellar.app(id);
  const MOST = 25 * 2 ** 20;
  const bytes = (size: number) => new Uint8Array(size).map((_, at) => at * 31);
  const send = async (
    path: string,
    body: NonNullable<RequestInit['body']>,
    headers: Record<string, string> = {},
  ) => {
    const url = `${cellar.api}/client/v4/accounts/${owner}/storage/kv/namespaces/large/${path}`;
    const authorization = `Bearer ${cellar.token}`;
    const init = { method: 'PUT', headers: { authorization, ...headers }, body, duplex: 'half' };
    const response = await fetch(url, init as RequestInit);
    return { status: response.status, text: await response.text() };
  };
  const own = async (key: string, init = {}) => (await cellar.get('large-values', `/?key=${key}`, init)).text;
  assert.equal((await cellar.get('large-values', `/?key=own&size=${MOST}`, { method: 'PUT' })).text, 'put');
  const expected = JSON.parse(await own('own'));
  assert.equal(expected.size, MOST);

  const form = new FormData();
  form.set('value', new Blob([bytes(MOST)]));
  form.set('metadata', '{"a":"é"}');
  const chunked = ReadableStream.from([bytes(MOST)]);
  const value = Buffer.from(bytes(MOST)).toString('base64');
  const bulk = JSON.stringify([{ key: 'bulk', value, base64: true, metadata: { a: 'é' } }]);
  const puts = {
    raw: () => send('values/raw?expiration=2100000000', bytes(MOST)),
    form: () => send('values/form', form),
    chunked: () => send('values/chunked', chunked),
    bulk: () => send('bulk', bulk, { 'content-type': 'application/json' }),
  };
  for (const [key, put] of Object.entries(puts)) {
    const { status, text } = await put();
    assert.equal(status, 200, `${key}: ${text}`);
    const { metadata, ...kept } = JSON.parse(await own(key));
    assert.deepEqual(kept, { digest: expected.digest, size: MOST }, key);
    assert.deepEqual(metadata, key === 'form' || key === 'bulk' ? expected.metadata : null, key);
  }
  const { items } = await rpc('storage.kv.list', { id, namespace_id: 'large' });
  const expiring = (name: string) => items.find(({ key }: { key: string }) => key === name).expires_at;
  assert.equal(expiring('raw'), expiring('own'));

  // A value that is too large, invalid or incomplete is refused, and the stored value stays.
  const appRefused = await cellar.get('large-values', `/?key=own&size=${MOST + 1}`, { method: 'PUT' });
  assert.match(appRefused.text, /413.*26214401 exceeds limit of 26214400/);
  for (const body of [bytes(MOST + 1), ReadableStream.from([bytes(MOST + 1)])]) {
    const { status, text } = await send('values/raw', body);
    assert.equal(status, 413, text);
    assert.match(text, /may have at most 26214400 bytes/);
  }
  const past = await send('values/raw?expiration=1', bytes(MOST));
  assert.equal(past.status, 400, past.text);
  assert.match(past.text, /Expiration|expiration/);
  const heavy = await send('bulk', JSON.stringify([{ key: 'raw', value: 'a', metadata: 'm'.repeat(1100) }]), {
    'content-type': 'application/json',
  });
  assert.match(heavy.text, /metadata: must have at most 1024 bytes as JSON/);
  // A body of many empty values would keep the control plane's thread busy for seconds.
  const empty = `[${'[],'.repeat(10_000_000)}[]]`;
  const many = await send('bulk', empty, { 'content-type': 'application/json' });
  assert.equal(many.status, 413, many.text);
  assert.match(many.text, /may have at most 2000000 brackets and commas/);
  const left = new AbortController();
  let parts = 0;
  const broken = fetch(`${cellar.api}/client/v4/accounts/${owner}/storage/kv/namespaces/large/values/raw`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${cellar.token}`, 'content-length': String(MOST) },
    // Disconnects after the first part.
    body: new ReadableStream({
      pull(controller) {
        if (parts++ > 0) left.abort();
        else controller.enqueue(bytes(2 ** 20));
      },
    }),
    duplex: 'half',
    signal: left.signal,
  } as RequestInit);
  await assert.rejects(broken);
  assert.equal(JSON.parse(await own('raw')).digest, expected.digest);
});

test('missing, forbidden and unreadable storage is refused with the reason', async () => {
  const id = await cellar.create('refused');
  const get = async (path: string) => {
    const { status, body } = await cellar.call('GET', `/v1/apps/${id}/storage${path}`);
    return [status, body.code];
  };
  const empty = { databases: [], classes: [], namespaces: [], queues: [], buckets: [], vector_indexes: [] };
  assert.deepEqual((await cellar.call('GET', `/v1/apps/${id}/storage`)).body, empty);
  await push('refused');
  // Nothing was stored so far.
  assert.deepEqual((await cellar.call('GET', `/v1/apps/${id}/storage/d1/people`)).body.tables, []);
  assert.deepEqual((await cellar.call('GET', `/v1/apps/${id}/storage/do/Room`)).body.items, []);
  assert.deepEqual((await rpc('storage.kv.list', { id, namespace_id: 'KV' })).items, []);
  for (const path of [
    '/d1/nothing',
    '/do/Nothing',
    '/do/Room?id=..%2F..',
    `/do/Room?id=${'0'.repeat(64)}`,
    '/d1/people?table=x',
  ])
    assert.deepEqual(await get(path), [404, 'storage_not_found'], path);
  for (const sql of ['DELETE FROM people', "ATTACH '/etc/passwd' AS p", 'SELEC'])
    assert.deepEqual(await get(`/d1/people?sql=${encodeURIComponent(sql)}`), [400, 'query_failed'], sql);
  for (const path of ['/d1/people?sql=SELECT+1&table=t', '/d1/people?sort=a', '/do/Room?table=t'])
    assert.deepEqual(await get(path), [400, 'invalid_input'], path);

  const { id: account } = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await rpc('keys.create', { account });
  const reading = { id, database_id: 'people', sql: 'SELECT 1' };
  assert.equal((await rpc('storage.d1.get', reading, { key })).code, 'forbidden');
  await rpc('collaborators.set', { id, account, role: 'view' });
  assert.equal((await rpc('storage.d1.get', reading, { key })).code, 'forbidden');
  assert.equal((await rpc('secrets.list', { id }, { key })).code, 'forbidden');
  await rpc('collaborators.set', { id, account, role: 'push' });
  assert.deepEqual((await rpc('storage.d1.get', reading, { key })).rows, [[1]]);
});

test('endless reads of one account do not block others, and end when their clients disconnect', async () => {
  const id = await cellar.create('endless');
  await push('endless');
  const { id: account } = await rpc('accounts.create', { name: 'Ann', email: 'ann@example.com' });
  const { id: other } = await rpc('apps.create', { slug: 'beside-endless', owner: account });
  const sql = ENDLESS_QUERY;
  const leaving = new AbortController();
  const refusals: string[] = [];
  const read = async () => {
    const response = await fetch(
      `${cellar.api}/v1/apps/${id}/storage/d1/people?${new URLSearchParams({ sql })}`,
      {
        headers: { authorization: `Bearer ${cellar.token}` },
        signal: leaving.signal,
      },
    );
    refusals.push(`${response.status} ${await response.text()}`);
  };
  const reads = Promise.allSettled(Array.from({ length: 24 }, read));
  await eventually(() => refusals.length === 3, 'three reads are too many');
  for (const refusal of refusals)
    assert.match(refusal, /^503 .*At most 20 storage reads of one account may wait/);
  assert.equal((await cellar.call('GET', `/v1/apps/${other}/storage`)).status, 200);
  leaving.abort();
  await reads;
  await eventually(() => readers(cellar.pid).length === 0, 'no reader is left');
  const { status, body } = await cellar.call('GET', `/v1/apps/${id}/storage/d1/people?sql=SELECT+1`);
  assert.deepEqual([status, body.rows], [200, [[1]]]);
});

const LONG_KEYS = `
import { DurableObject } from 'cloudflare:workers';
export class Room extends DurableObject {
  put(keys) { return this.ctx.storage.put(Object.fromEntries(keys.map((key) => [key, 1]))); }
}
const three = (text) => ['a', 'b', 'c'].map((end) => text + end);
export default {
  async fetch(request, { ROOM, DB, KV, FILES }) {
    await ROOM.getByName('one').put(three('"'.repeat(2047)));
    await DB.exec('CREATE TABLE long (key TEXT PRIMARY KEY) WITHOUT ROWID');
    for (const key of three('語'.repeat(590))) await DB.prepare('INSERT INTO long VALUES (?)').bind(key).run();
    for (const key of three('\u0001'.repeat(511))) await KV.put(key, '');
    for (const key of three('ж'.repeat(511))) await FILES.put(key, '');
    return new Response('filled');
  },
};`;

test('every list continues after keys of the largest size', async () => {
  const id = await cellar.deploy('long-keys', 'hello', {
    'index.js': LONG_KEYS,
    'wrangler.toml': `${CONFIG.slice(0, CONFIG.indexOf('[[queues'))}[[r2_buckets]]\nbinding = "FILES"\nbucket_name = "files"\n`,
  });
  assert.equal((await cellar.get('long-keys')).text, 'filled');
  for (const [method, of] of [
    ['storage.do.get', { class_name: 'Room', name: 'one' }],
    ['storage.d1.get', { database_id: 'DB', table: 'long' }],
    ['storage.d1.get', { database_id: 'DB', table: 'long', sort: '-key' }],
    ['storage.kv.list', { namespace_id: 'the-namespace' }],
    ['storage.r2.list', { bucket: 'files' }],
  ] as const) {
    const ends: string[] = [];
    for (let cursor: string | null | undefined; cursor !== null && ends.length < 10; ) {
      const page = await rpc(method, { id, ...of, limit: 1, cursor });
      assert.equal(page.detail, undefined, method);
      const [key] = page.rows?.[0] ?? [page.items[0].key];
      ends.push(key.at(-1));
      cursor = page.next_cursor;
    }
    assert.equal(ends.toSorted().join(''), 'abc', method);
  }
});
