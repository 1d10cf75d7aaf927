// Display of stored values, and changes of rows as SQL.
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { before, test } from 'node:test';
import { changeSet, onlyReads, readable, type TableColumn } from '../../../ui/models/source/change-set.ts';
import {
  ownFirst,
  type Reader,
  type Table,
  tableModel,
  type Writer,
} from '../../../ui/models/storage/storage.ts';
import { base64Of, cellOf, prettyJson, textIn, typed, written } from '../../../ui/models/storage/values.ts';

before(() => {
  const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  Object.assign(globalThis, { document: page });
});

const column = (name: string, type: string, primary_key = 0): TableColumn => ({
  name,
  type,
  primary_key,
  not_null: false,
  default: null,
  generated: false,
});

test('lists internal tables of tools after the others', () => {
  const named = (...names: string[]) => names.map((name) => ({ name }));
  assert.deepEqual(
    ownFirst(named('_cf_KV', 'd1_migrations', 'entries', 'sqlite_sequence', 'orders')),
    named('entries', 'orders', '_cf_KV', 'd1_migrations', 'sqlite_sequence'),
  );
});

test('distinguishes NULL from an empty text, and bytes from a text', () => {
  assert.deepEqual(cellOf(null), { kind: 'null', text: 'NULL' });
  assert.deepEqual(cellOf(''), { kind: 'empty', text: 'empty' });
  assert.deepEqual(cellOf('NULL'), { kind: 'text', text: 'NULL' });
  assert.deepEqual(cellOf({ $bytes: 'AQL/' }), { kind: 'bytes', text: '01 02 ff' });
  assert.deepEqual(cellOf({ $bigint: '9007199254740993' }), { kind: 'number', text: '9007199254740993' });
});

test('converts input to the type of the column', () => {
  assert.equal(typed('12', 'INTEGER'), 12);
  assert.equal(typed('12', 'TEXT'), '12');
  assert.equal(typed('1.5e3', 'REAL'), 1500);
  assert.equal(typed('twelve', 'INTEGER'), 'twelve');
  assert.equal(typed('', 'INTEGER'), '');
  assert.deepEqual(typed('9007199254740993', 'BIGINT'), { $bigint: '9007199254740993' });
});

test('prints the stored values of objects as in code', () => {
  const value = {
    when: { $date: '2026-11-22T07:00:00.000Z' },
    'two words': { $map: [['a', { $set: [1, 'b'] }]] },
    none: { $undefined: true },
    big: { $bigint: '12' },
    raw: { $bytes: 'AQI=', type: 'Uint8Array' },
  };
  assert.equal(
    written(value),
    `{
  when: Date 2026-11-22T07:00:00.000Z,
  "two words": Map(1) { "a" → Set(2) { 1, "b" } },
  none: undefined,
  big: 12n,
  raw: Uint8Array(2) 01 02
}`,
  );
  assert.equal(written([]), '[]');
  assert.equal(written([1, [2]]), '[1, [2]]');
});

test('distinguishes text from bytes, and JSON from text', () => {
  const of = (text: string) => new TextEncoder().encode(text);
  assert.equal(textIn(of('wörld\n')), 'wörld\n');
  assert.equal(textIn(new Uint8Array([0, 1])), null);
  assert.equal(textIn(new Uint8Array([0xff])), null);
  assert.equal(prettyJson('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(prettyJson('12'), null);
  const exact = '{"a": [1, -2.5, true, null, "b \\" \\n ] 1.0  é"], "c": {}}';
  assert.equal(prettyJson(exact), JSON.stringify(JSON.parse(exact), null, 2));
  // The indented text would be another value, or would have other characters.
  for (const text of [
    '{"id":1234567890123456789}',
    '[0.12345678901234567890]',
    '[1.0]',
    '[-0]',
    '[1e400]',
    '{"a":1,"a":2}',
    '{"b":1,"1":2}',
    '["\\u00e9"]',
  ])
    assert.equal(prettyJson(text), null, text);
  const long = JSON.stringify([`\\"${'x '.repeat(2_000_000)}`]);
  assert.equal(prettyJson(long), JSON.stringify(JSON.parse(long), null, 2));
  assert.equal(base64Of(of('x'.repeat(20_000))), Buffer.from('x'.repeat(20_000)).toString('base64'));
});

test('changed, deleted and new rows are applied to a table in one batch', () => {
  const database = new DatabaseSync(':memory:');
  database.exec('CREATE TABLE "odd "" name" (id INTEGER PRIMARY KEY, name TEXT, n REAL)');
  database.exec(`INSERT INTO "odd "" name" VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)`);
  const set = changeSet('odd " name', [
    column('id', 'INTEGER', 1),
    column('name', 'TEXT'),
    column('n', 'REAL'),
  ]);
  const [one, two, three] = [
    [1, 'a', 1],
    [2, 'b', 2],
    [3, 'c', 3],
  ] as const;
  set.update(one, 'name', null);
  set.update(one, 'n', { $number: 'Infinity' });
  set.update(two, 'name', 'x');
  set.update(two, 'name', 'b');
  assert.equal(set.count.value, 1, 'a cell that is as it was is no change');
  assert.equal(set.valueOf(one, 'name'), null);
  set.toggleDelete(three);
  set.update(two, 'n', -(2 ** 60));
  set.insert(new Map([['id', { $bigint: '9007199254740993' }]]));
  set.insert(new Map());
  const statements = set.statements();
  assert.deepEqual(statements.map(readable), [
    'DELETE FROM "odd "" name" WHERE "id" = 3',
    'UPDATE "odd "" name" SET "name" = NULL, "n" = 9e999 WHERE "id" = 1',
    'UPDATE "odd "" name" SET "n" = -1.152921504606847e+18 WHERE "id" = 2',
    'INSERT INTO "odd "" name" ("id") VALUES (9007199254740993)',
    'INSERT INTO "odd "" name" DEFAULT VALUES',
  ]);
  for (const { sql, params } of statements) {
    const statement = database.prepare(sql);
    statement.setReadBigInts(true);
    statement.run(...(params as (string | number | null)[]));
  }
  const rows = database
    .prepare('SELECT CAST(id AS TEXT) AS id, name, CAST(n AS TEXT) AS n FROM "odd "" name"')
    .all();
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['1', null, 'Inf'],
      ['2', 'b', '-1.152921504606847e+18'],
      ['9007199254740993', null, null],
      ['9007199254740994', null, null],
    ],
  );
  set.clear();
  assert.equal(set.count.value, 0);
});

/** Returns a table whose writes end when the test calls `ended` or `failed`. `writes` has the SQL of each. */
function heldTable() {
  const columns = [column('id', 'INTEGER', 1), column('name', 'TEXT'), column('n', 'REAL')];
  const set = changeSet('t', columns);
  const writes: string[][] = [];
  let end!: PromiseWithResolvers<{ changes: number }[]>;
  const write: Writer = (statements) => {
    writes.push(statements.map(readable));
    end = Promise.withResolvers();
    return end.promise;
  };
  const read = async () => ({ columns: [], rows: [], next: null });
  const table = { name: 't', type: 'table', columns } as unknown as Table;
  const model = tableModel(read, table, { sort: '', filter: '' }, write, set);
  model.close();
  return { set, model, writes, ended: () => end.resolve([]), failed: () => end.reject(new Error('no')) };
}

test('edits made while rows are written stay, for the rows as they were written', async () => {
  const { set, model, writes, ended } = heldTable();
  const rows = [1, 2, 3, 4].map((id) => [id, 'a', 1] as const);
  set.update(rows[0]!, 'name', 'b');
  set.update(rows[0]!, 'n', null);
  set.update(rows[1]!, 'id', 20);
  set.update(rows[2]!, 'name', 'b');
  set.toggleDelete(rows[2]!);
  set.insert(new Map([['id', 5]]));
  const first = model.write();
  set.update(rows[0]!, 'n', 1);
  set.update(rows[1]!, 'name', 'c');
  set.update(rows[3]!, 'name', 'c');
  set.toggleDelete([6, 'a', 1]);
  set.insert(new Map([['id', 7]]));
  ended();
  await first;
  assert.equal(set.count.value, 5);
  const second = model.write();
  ended();
  await second;
  assert.deepEqual(writes[1], [
    'DELETE FROM "t" WHERE "id" = 6',
    'UPDATE "t" SET "n" = 1 WHERE "id" = 1',
    'UPDATE "t" SET "name" = \'c\' WHERE "id" = 20',
    'UPDATE "t" SET "name" = \'c\' WHERE "id" = 4',
    'INSERT INTO "t" ("id") VALUES (7)',
  ]);
  assert.equal(set.count.value, 0);
});

test('changes stay when they cannot be written, and what is dropped during a write stays away', async () => {
  const { set, model, ended, failed } = heldTable();
  set.update([1, 'a', 1], 'name', 'b');
  const first = model.write();
  set.update([2, 'a', 1], 'name', 'b');
  failed();
  await assert.rejects(first, /no/);
  assert.equal(set.count.value, 2);
  const second = model.write();
  await assert.rejects(model.write(), /are being written/);
  set.clear();
  ended();
  await second;
  assert.equal(set.count.value, 0);
});

test('a cell that gets its old value again before the written rows are read stays changed', async () => {
  const columns = [column('id', 'INTEGER', 1), column('name', 'TEXT')];
  const set = changeSet('t', columns);
  let row = [1, 'a'];
  let read: Reader = async () => ({ columns: [], rows: [row], next: null });
  const write: Writer = async () => [{ changes: 1 }];
  const table = { name: 't', type: 'table', columns } as unknown as Table;
  const model = tableModel((asked) => read(asked), table, { sort: '', filter: '' }, write, set);
  await model.rows.refresh();
  const [shown] = model.rows.data.value!.rows;
  set.update(shown!, 'name', 'b');
  const reading = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  read = async () => {
    reading.resolve();
    await answer.promise;
    row = [1, 'b'];
    return { columns: [], rows: [row], next: null };
  };
  const writing = model.write();
  await reading.promise;
  assert.equal(set.valueOf(shown!, 'name'), 'b', 'the written value stays shown');
  set.update(shown!, 'name', 'a');
  answer.resolve();
  assert.equal(await writing, 1);
  model.close();
  assert.equal(set.valueOf(row, 'name'), 'a');
  assert.equal(set.count.value, 1);
});

test('further rows are added to the newest rows', async () => {
  let n = 1;
  const further = Promise.withResolvers<void>();
  const read: Reader = async ({ cursor }) => {
    if (cursor !== undefined) await further.promise;
    return { columns: [], rows: [[cursor ?? 'first', n]], next: cursor === undefined ? 'two' : null };
  };
  const table = { name: 't', type: 'table', columns: [] } as unknown as Table;
  const model = tableModel(read, table, { sort: '', filter: '' }, null, changeSet('t', []));
  await model.rows.refresh();
  const reading = model.more();
  n = 2;
  await model.rows.refresh();
  further.resolve();
  await reading;
  model.close();
  assert.deepEqual(model.rows.data.value!.rows, [
    ['first', 2],
    ['two', 2],
  ]);
});

test('a row without a primary key, or with NULL in it, cannot be changed', () => {
  assert.equal(changeSet('t', [column('a', 'TEXT')]).canChange(['x']), false);
  assert.equal(changeSet('t', [column('a', 'TEXT', 1)]).canChange([null]), false);
  assert.equal(changeSet('t', [column('a', 'TEXT', 1)]).canChange(['x']), true);
});

test('recognizes statements that only read', () => {
  for (const sql of [
    'SELECT 1',
    '  -- why\nselect 1',
    'WITH a AS (SELECT 1) SELECT * FROM a',
    'PRAGMA table_info(t)',
    "WITH a AS (SELECT 'delete') SELECT * FROM a",
  ])
    assert.equal(onlyReads(sql), true, sql);
  for (const sql of [
    'DELETE FROM t',
    'WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a',
    'PRAGMA user_version = 2',
    '/* SELECT */ DROP TABLE t',
  ])
    assert.equal(onlyReads(sql), false, sql);
});
