// The reader of apps' storage: its answers, and its protection against hostile files and statements.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { after, type TestContext, test } from 'node:test';
import { Serializer } from 'node:v8';
import { type Question, ReadingRefused, StorageReaders } from '../../runtime/storage/reading.ts';
import { eventually, readers as readersOf } from '../support/processes.ts';
import { ENDLESS_QUERY } from '../support/storage/endless-query.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const NOTHING = { sql: null, table: null, sort: null, filter: null, after: null, limit: 50 };
const DEADLINE_MS = 4_000;
const readers = new StorageReaders(DEADLINE_MS);
after(() => readers.close());
const runningReaders = () => readersOf(process.pid).map(({ pid }) => pid);

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function ask(question: Question): Promise<any> {
  return JSON.parse((await readers.ask({ appId: 'app', owner: 'account' }, null, question)).toString('utf8'));
}

/** Creates a database with these statements in WAL mode, as workerd does. It stays open. */
function makeDatabase(t: TestContext, ...statements: string[]) {
  const path = `${temporaryDirectory(t)}/${'0'.repeat(64)}.sqlite`;
  const database = new DatabaseSync(path, { enableForeignKeyConstraints: false });
  database.exec('PRAGMA journal_mode = WAL');
  for (const statement of statements) database.exec(statement);
  t.after(() => database.close());
  const look = (asked: object) => ask({ kind: 'database', path, ...NOTHING, ...asked });
  const refused = async (asked: object) => {
    const error = await look(asked).then(
      (answer) => assert.fail(JSON.stringify(answer).slice(0, 200)),
      (error: unknown) => error,
    );
    assert.ok(error instanceof ReadingRefused, String(error));
    return error;
  };
  return { path, database, look, refused };
}

test('values of every type are returned, and only one statement is accepted', async (t) => {
  const { look, refused } = makeDatabase(t, "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x')");
  const sql = `SELECT 1, 1.5, 'é', NULL, x'0102', 9007199254740993, 9e999 -- the end`;
  const { columns, rows } = await look({ sql });
  assert.equal(columns.length, 7);
  assert.deepEqual(rows, [
    [1, 1.5, 'é', null, { $bytes: 'AQI=' }, { $bigint: '9007199254740993' }, { $number: 'Infinity' }],
  ]);
  assert.deepEqual((await look({ sql: 'SELECT * FROM t; /* no more */ ;' })).rows, [[1, 'x']]);
  for (const sql of ['SELECT 1; SELECT 2', `SELECT 1; ${'/**/'.repeat(40)} SELECT 2`])
    assert.match((await refused({ sql })).message, /send one at a time/);
  assert.match((await refused({ sql: 'SELEC 1' })).message, /near "SELEC": syntax error/);
  for (const nothing of [';', '-- so', ' '])
    assert.deepEqual((await refused({ sql: nothing })).message, 'there is no statement');
  // The limit is in bytes; these characters have three each.
  const wide = await refused({ sql: "SELECT replace(hex(zeroblob(2000000)), '00', '€€')" });
  assert.equal(wide.code, 'answer_too_large');
});

test('a full-text table is read and searched without a write to it', async (t) => {
  const { look, refused } = makeDatabase(
    t,
    "CREATE VIRTUAL TABLE texts USING fts5(body); INSERT INTO texts VALUES ('an old text'), ('another')",
  );
  assert.deepEqual((await look({ table: 'texts', limit: 1 })).rows, [['an old text']]);
  const found = await look({ sql: "SELECT rowid, highlight(texts, 0, '[', ']') FROM texts('old')" });
  assert.deepEqual(found.rows, [[1, 'an [old] text']]);
  assert.equal((await refused({ sql: "INSERT INTO texts (texts) VALUES ('rebuild')" })).code, 'query_failed');
});

test("the authorizer refuses statements that write, attach, or read outside the app's data", async (t) => {
  const { path, look, refused, database } = makeDatabase(
    t,
    'CREATE TABLE t (a); CREATE TABLE _cf_KV (key, value)',
  );
  for (const sql of [
    'INSERT INTO t VALUES (1)',
    'WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x',
    'CREATE TABLE u (a)',
    'CREATE TEMP TABLE u (a)',
    'DROP TABLE t',
    `ATTACH '${path}' AS other`,
    `VACUUM INTO '${path}.copy'`,
    'PRAGMA journal_mode = DELETE',
    'PRAGMA writable_schema = ON',
    'BEGIN',
    'SELECT * FROM _cf_KV',
    "SELECT load_extension('x')",
    "SELECT * FROM pragma_temp_store_directory('/')",
  ]) {
    const { code } = await refused({ sql });
    assert.equal(code, 'query_failed', sql);
  }
  // A database without a file allows no escape either.
  const gone = { kind: 'database', path: `${path}.none`, ...NOTHING };
  await assert.rejects(ask({ ...gone, sql: `ATTACH '${path}' AS other` }), /not authorized/);
  assert.deepEqual((await ask(gone)).tables, []);
  assert.equal(database.prepare('SELECT count(*) AS n FROM t').get()!.n, 0);
  assert.deepEqual(
    (await look({})).tables.map(({ name }: { name: string }) => name),
    ['t'],
  );
});

test('pages of a table by key or by column have each row once, for any keys', async (t) => {
  const { look, refused } = makeDatabase(
    t,
    'CREATE TABLE plain (n, kind TEXT)',
    'CREATE TABLE pairs (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID',
    'CREATE TABLE shadowed (rowid TEXT, _rowid_ TEXT, oid TEXT)',
    'CREATE TABLE long (name TEXT PRIMARY KEY) WITHOUT ROWID',
    `WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 57) INSERT INTO plain
     SELECT CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN i WHEN 2 THEN 'text' WHEN 3 THEN x'00' ELSE i / 2.0 END, i FROM s`,
    `INSERT INTO pairs SELECT kind % 3, kind FROM plain`,
    `INSERT INTO shadowed SELECT kind, kind, kind FROM plain`,
    `INSERT INTO long SELECT printf('%0900d', kind) FROM plain`,
    'CREATE VIEW seen AS SELECT kind FROM plain',
    'CREATE TABLE far (r REAL, kind TEXT)',
    'INSERT INTO far SELECT CASE kind % 3 WHEN 0 THEN 1e300 WHEN 1 THEN -9e999 ELSE 1e18 END, kind FROM plain',
  );
  const all = async (asked: object) => {
    const rows: unknown[][] = [];
    let after: string | null = null;
    do {
      const answer = await look({ ...asked, after, limit: 10 });
      rows.push(...answer.rows);
      after = answer.next;
    } while (after !== null);
    return rows;
  };
  const orders: [string, string | null][] = [
    ['plain', null],
    ['plain', 'n'],
    ['plain', '-n'],
    ['plain', '-kind'],
    ['pairs', null],
    ['pairs', '-b'],
    ['shadowed', 'oid'],
    ['long', null],
    ['seen', 'kind'],
    ['far', 'r'],
    ['far', '-r'],
  ];
  for (const [table, sort] of orders) {
    const rows = await all({ table, sort });
    assert.equal(rows.length, 57, `${table} ${sort}`);
    assert.equal(new Set(rows.map((row) => JSON.stringify(row))).size, 57, `${table} ${sort}`);
  }
  const sorted = await look({ sql: 'SELECT * FROM plain ORDER BY n, rowid' });
  assert.deepEqual(await all({ table: 'plain', sort: 'n' }), sorted.rows);
  const filtered = await all({ table: 'plain', filter: "kind > 50 OR n = 'text' -- so" });
  assert.equal(
    filtered.length,
    (await look({ sql: "SELECT * FROM plain WHERE kind > 50 OR n = 'text'" })).rows.length,
  );
  assert.equal((await refused({ table: 'nobody' })).code, 'storage_not_found');
  assert.equal((await refused({ table: 'plain', sort: 'nobody' })).code, 'invalid_input');
  assert.equal((await refused({ table: 'plain', filter: '1) UNION SELECT 1 --' })).code, 'query_failed');
  for (const after of ['garbage', '{}', '-1', '[]', '[1,2]', '[{"$bytes":5}]', 'null'])
    assert.deepEqual(
      await refused({ table: 'plain', after }).then(({ code }) => code),
      'invalid_input',
      after,
    );
});

test('a database is read while others write to it, and nobody waits', async (t) => {
  const { look, database } = makeDatabase(t, 'CREATE TABLE t (a)');
  database.exec('BEGIN IMMEDIATE; INSERT INTO t VALUES (1)');
  assert.deepEqual((await look({ sql: 'SELECT count(*) FROM t' })).rows, [[0]]);
  database.exec('COMMIT');
  assert.deepEqual((await look({ sql: 'SELECT count(*) FROM t' })).rows, [[1]]);
});

test('endless or memory-hungry statements and files are killed in time, and the next query is answered', async (t) => {
  const forever = 'WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s) SELECT count(*) FROM s';
  const { look, refused } = makeDatabase(
    t,
    `CREATE TABLE looping (a, b AS (hex(zeroblob(19000000)) || hex(zeroblob(19000000))))`,
    'INSERT INTO looping VALUES (1)',
    `CREATE VIEW endless AS ${forever}`,
  );
  const from = performance.now();
  assert.equal((await refused({ sql: forever })).code, 'query_timeout');
  assert.ok(performance.now() - from < 10 * DEADLINE_MS);
  assert.equal((await refused({ table: 'endless' })).code, 'query_timeout');
  for (const asked of [
    { table: 'looping' },
    { sql: 'SELECT zeroblob(900000000)' },
    { sql: 'SELECT hex(zeroblob(6000000)) FROM sqlite_schema' },
    { sql: forever.replace('count(*)', 'group_concat(hex(zeroblob(5000)))') },
    { sql: forever.replace('count(*)', 'hex(zeroblob(5000))') },
  ]) {
    const { code } = await refused(asked);
    // On a busy machine the timeout may come first.
    assert.ok(
      ['query_failed', 'answer_too_large', 'storage_unreadable', 'query_timeout'].includes(code),
      code,
    );
  }
  assert.deepEqual((await look({ sql: 'SELECT 1' })).rows, [[1]]);
});

test('a file that is not a database, is damaged, a link or a pipe is refused', async (t) => {
  const { path, database } = makeDatabase(
    t,
    'CREATE TABLE t (a)',
    'INSERT INTO t SELECT hex(randomblob(40000))',
  );
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const directory = temporaryDirectory(t);
  const look = (file: string, asked: object = { sql: 'SELECT * FROM t' }) =>
    ask({ kind: 'database', path: file, ...NOTHING, ...asked });
  const text = `${directory}/text`;
  writeFileSync(text, 'not a database, but longer than the head of one would be: '.repeat(50));
  await assert.rejects(look(text), /not a database/);
  symlinkSync(path, `${directory}/link`);
  await assert.rejects(look(`${directory}/link`), /not a file/);
  execFileSync('mkfifo', [`${directory}/pipe`]);
  await assert.rejects(look(`${directory}/pipe`), /not a file/);
  mkdirSync(`${directory}/directory`);
  await assert.rejects(look(`${directory}/directory`), /not a file/);
  truncateSync(path, 12_288);
  await assert.rejects(look(path), /malformed|corrupt|I\/O error/);
});

/** Serializes a value as workerd stores it, in V8's own format. Node's `serialize` has additions of its own. */
function serialize(value: unknown): Buffer {
  const serializer = new Serializer();
  serializer.writeHeader();
  serializer.writeValue(value);
  return serializer.releaseBuffer();
}

test('the values of an object are decoded, also those that JSON lacks', async (t) => {
  const { path, database } = makeDatabase(
    t,
    'CREATE TABLE _cf_KV (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID',
  );
  const directory = path.slice(0, path.lastIndexOf('/'));
  const cyclic: { self?: unknown; list: unknown[] } = { list: [] };
  cyclic.self = cyclic;
  cyclic.list.push(cyclic.list);
  const values: Record<string, [value: unknown, shown: unknown]> = {
    bigint: [2n ** 70n, { $bigint: String(2n ** 70n) }],
    bytes: [new Uint8Array([1, 2]), { $bytes: 'AQI=', type: 'Uint8Array' }],
    cyclic: [cyclic, { self: { $ref: '$' }, list: [{ $ref: '$["list"]' }] }],
    date: [new Date(0), { $date: '1970-01-01T00:00:00.000Z' }],
    // The format of older compatibility dates. That of newer ones is tested with workerd itself.
    error: [new RangeError('far'), { $error: { name: 'RangeError', message: 'far' } }],
    dollar: [{ $bigint: 1 }, { $object: [['$bigint', 1]] }],
    json: [{ a: [1, 'é', true, null] }, { a: [1, 'é', true, null] }],
    map: [new Map<unknown, unknown>([[{ a: 1 }, 2n]]), { $map: [[{ a: 1 }, { $bigint: '2' }]] }],
    numbers: [
      [Number.NaN, -0, Number.NEGATIVE_INFINITY],
      [{ $number: 'NaN' }, { $number: '-0' }, { $number: '-Infinity' }],
    ],
    set: [new Set(['a']), { $set: ['a'] }],
    undefined: [undefined, { $undefined: true }],
  };
  const insert = database.prepare('INSERT INTO _cf_KV VALUES (?, ?)');
  for (const [key, [value]] of Object.entries(values)) insert.run(key, serialize(value));
  insert.run('large', serialize('x'.repeat(100_000)));
  insert.run('nonsense', Buffer.from([255, 15, 1, 2, 3]));
  const one = { object: '0'.repeat(64), name: null, key: null };
  const question = { kind: 'object', directory, alarms: null, ...one, ...NOTHING };
  const { items, object } = await ask(question);
  assert.deepEqual(object.tables, []);
  const shown = Object.fromEntries(
    items.map(({ key, value }: { key: string; value: unknown }) => [key, value]),
  );
  for (const [key, [, expected]] of Object.entries(values)) assert.deepEqual(shown[key], expected, key);
  assert.deepEqual(shown.large, { $large: 100_006 });
  assert.ok('$unreadable' in shown.nonsense);
  const large = await ask({ ...question, key: 'large' });
  assert.equal(large.items[0].value.length, 100_000);
  const first = await ask({ ...question, limit: 3 });
  const rest = await ask({ ...question, after: first.next });
  assert.deepEqual([...first.items, ...rest.items], items);
});

test('a reader waits for the next query of its app, and exits after a large answer', async (t) => {
  const { path } = makeDatabase(t, 'CREATE TABLE t (a)');
  const own = new StorageReaders(DEADLINE_MS);
  t.after(() => own.close());
  const ask = async (app: string, sql: string) => {
    const answer = await own.ask({ appId: app, owner: 'account' }, null, {
      kind: 'database',
      path,
      ...NOTHING,
      sql,
    });
    return JSON.parse(answer.toString('utf8')).rows[0][0];
  };
  const before = runningReaders();
  const running = () => runningReaders().filter((pid) => !before.includes(pid));
  assert.equal(await ask('one', 'SELECT 1'), 1);
  const [pid] = running();
  await assert.rejects(ask('one', 'SELEC 1'), /syntax error/);
  assert.equal(await ask('one', 'SELECT 2'), 2);
  assert.deepEqual(running(), [pid]);
  assert.equal(await ask('another', 'SELECT 3'), 3);
  assert.equal(running().length, 2);
  process.kill(pid!, 'SIGKILL');
  assert.equal(await ask('one', 'SELECT 4'), 4);
  assert.ok(!running().includes(pid!));
  assert.equal((await ask('one', 'SELECT hex(zeroblob(1000000))')).length, 2_000_000);
  await eventually(() => running().length === 1, 'the one with the large answer has ended');
  for (const app of ['a', 'b', 'c', 'd']) await ask(app, 'SELECT 5');
  await eventually(() => running().length === 3, 'no more than three wait');
  own.close();
  await eventually(() => running().length === 0, 'they end when the host stops');
});

test('endless reads of one account leave a turn to others, have a timeout, and end when their clients disconnect', async (t) => {
  const { path } = makeDatabase(t, 'CREATE TABLE t (a)');
  const own = new StorageReaders(60_000);
  t.after(() => own.close());
  const before = runningReaders();
  const running = () => runningReaders().filter((pid) => !before.includes(pid));
  const leaving = new AbortController();
  const ask = (owner: string, appId: string, sql: string, signal?: AbortSignal) =>
    own.ask({ owner, appId, signal }, null, { kind: 'database', path, ...NOTHING, sql });
  const asked = Array.from({ length: 22 }, (_, i) =>
    ask('greedy', `app ${i % 4}`, ENDLESS_QUERY, leaving.signal),
  );
  const ends = Promise.allSettled(asked);
  await assert.rejects(
    ask('greedy', 'app 0', 'SELECT 1'),
    (error) =>
      error instanceof ReadingRefused &&
      error.code === 'host_unavailable' &&
      /at most 20 storage reads of one account may wait at once/.test(error.message),
  );
  assert.deepEqual(JSON.parse(String(await ask('other', 'other', 'SELECT 1'))).rows, [[1]]);
  await eventually(
    () => running().length === 3,
    'two endless reads run, beside the reader of the other account',
  );
  leaving.abort(new Error('the asker has left'));
  for (const end of await ends)
    assert.equal(end.status === 'rejected' && end.reason.message, 'the asker has left');
  await eventually(() => running().length === 1, 'the endless reads have ended');
  assert.deepEqual(JSON.parse(String(await ask('greedy', 'app 0', 'SELECT 2'))).rows, [[2]]);
});
