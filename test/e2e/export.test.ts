// Export and import of databases of pushed apps as SQL.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { cells } from '../support/processes.ts';

const cellar = sharedCellar('storage');
const rpc = rpcOf(cellar);

const CONFIG = `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "main"
`;

async function pushed(slug: string): Promise<string> {
  const id = await cellar.create(slug);
  const work = await cellar.checkout('hello');
  writeFileSync(join(work, 'index.js'), `export default { fetch: () => new Response('here') };`);
  writeFileSync(join(work, 'wrangler.toml'), CONFIG);
  await cellar.commit(work, 'a database');
  const { stderr } = await cellar.push(work, slug, '--force');
  assert.match(stderr, /serves this push/, stderr);
  return id;
}

const exported = (id: string, tables?: string[]) =>
  rpc('storage.d1.export', { id, database_id: 'DB', tables });
const imported = (id: string, sql: string) => rpc('storage.d1.import', { id, database_id: 'DB', sql });
const rowsOf = async (id: string, sql: string) => {
  const answer = await rpc('storage.d1.get', { id, database_id: 'DB', sql });
  assert.ok('rows' in answer, JSON.stringify(answer));
  return answer.rows;
};

const SCHEMA = `
CREATE TABLE "odd "" name" ("the; key" INTEGER PRIMARY KEY AUTOINCREMENT, a, b REAL, 'c' TEXT DEFAULT 'it''s; END');
CREATE TABLE child (id TEXT PRIMARY KEY, parent INTEGER REFERENCES parents (id)) WITHOUT ROWID; -- before its parents
CREATE TABLE parents (id INTEGER PRIMARY KEY, twice INTEGER GENERATED ALWAYS AS (id * 2) STORED) STRICT;
CREATE TABLE made (what TEXT);
CREATE VIEW seen AS SELECT a FROM "odd "" name";
CREATE UNIQUE INDEX by_a ON "odd "" name" (a, b) WHERE a > 'z';
CREATE TRIGGER on_parents AFTER INSERT ON parents BEGIN
  INSERT INTO made VALUES ('a; parent'); UPDATE made SET what = CASE WHEN what THEN 1 ELSE what END;
END;
CREATE TRIGGER on_seen INSTEAD OF INSERT ON seen BEGIN INSERT INTO made VALUES (new.a); END;
INSERT INTO parents (id) VALUES (1), (2);
INSERT INTO child VALUES ('x', 1), ('y', NULL);
INSERT INTO "odd "" name" (a, b) VALUES
  (9007199254740993, 1), (-9223372036854775808, 0.1), (9223372036854775807, 1e300), (1.0, 5e-324), (NULL, 9e999),
  (X'', -9e999), (X'00ff27', 3), ('', 4), ('it''s "quoted"; -- no comment', 5), ('two
lines' || char(13) || char(10), 6), (CAST(X'610062' AS TEXT), 7), (CAST(X'ff27fe' AS TEXT), 8), ('é😀', 9), ('123', 10);
DELETE FROM "odd "" name" WHERE b = 10;
`;
const LONG = `it's "long" \n é `.repeat(20_000);

test('a database that is exported as SQL and imported into another app is unchanged', async () => {
  const [one, two] = [await pushed('one'), await pushed('two')];
  assert.deepEqual(await exported(one), { sql: '' }, 'it was never used');
  const first = await imported(one, SCHEMA);
  assert.equal(first.statements, 12, JSON.stringify(first));
  const written = await rpc('storage.d1.write', {
    id: one,
    database_id: 'DB',
    sql: 'INSERT INTO made VALUES (?), (?)',
    params: [LONG, { $bytes: Buffer.alloc(300_000, 'x').toString('base64') }],
  });
  assert.equal(written.changes, 2, JSON.stringify(written));

  await cellar.call('POST', `/v1/apps/${one}/sleep`);
  const { sql } = await exported(one);
  assert.deepEqual(cells(one), []);
  assert.equal((await cellar.app(one)).status, 'sleeping');
  assert.match(sql, /^PRAGMA defer_foreign_keys=TRUE;\nCREATE TABLE /);
  assert.doesNotMatch(sql, /_cf_/);
  const some = (await exported(one, ['Parents', 'odd " name'])).sql;
  for (const words of [
    /CREATE TABLE parents/,
    /CREATE TRIGGER on_parents/,
    /CREATE UNIQUE INDEX by_a/,
    /sqlite_sequence/,
  ])
    assert.match(some, words);
  assert.doesNotMatch(some, /CREATE TABLE (child|made)|CREATE VIEW|INSERT INTO "made"/);
  assert.match((await exported(one, ['parents', 'nobody'])).detail, /^No such table: nobody/);

  await cellar.call('POST', `/v1/apps/${two}/sleep`);
  const into = await imported(two, sql);
  assert.ok(into.statements > 30 && into.changes > 20, JSON.stringify(into));
  assert.equal((await cellar.app(two)).status, 'sleeping');
  assert.equal((await exported(two)).sql, sql);
  for (const query of [
    `SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY type, name`,
    `SELECT "the; key", typeof(a), hex(a), a, typeof(b), b, c FROM "odd "" name" ORDER BY 1`,
    'SELECT typeof(what), length(what), hex(substr(what, 1, 1000)) FROM made',
    'SELECT * FROM parents',
    'SELECT * FROM child',
    'SELECT name, seq FROM sqlite_sequence',
  ]) {
    const rows = await rowsOf(one, query);
    assert.ok(rows.length > 0, query);
    assert.deepEqual(await rowsOf(two, query), rows, query);
  }
  // NUL characters and invalid UTF-8 are unchanged, and AUTOINCREMENT counters continue.
  assert.deepEqual(await rowsOf(two, `SELECT hex(a) FROM "odd "" name" WHERE b IN (7, 8)`), [
    ['610062'],
    ['FF27FE'],
  ]);
  assert.deepEqual(await rowsOf(two, 'SELECT seq FROM sqlite_sequence'), [[14]]);
});

test('an import with a failing statement changes nothing, and an impossible export is refused with the reason', async () => {
  const id = await pushed('failing');
  const failed = await imported(
    id,
    'CREATE TABLE a (x UNIQUE); INSERT INTO a VALUES (1); INSERT INTO a VALUES (1);',
  );
  assert.equal(failed.code, 'query_failed');
  assert.match(failed.detail, /UNIQUE constraint failed: a\.x/);
  assert.equal((await exported(id)).sql, 'PRAGMA defer_foreign_keys=TRUE;\n');
  const broken = await imported(
    id,
    'PRAGMA defer_foreign_keys = TRUE; CREATE TABLE p (id PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id)); INSERT INTO c VALUES (1)',
  );
  assert.equal(broken.code, 'query_failed', JSON.stringify(broken));
  assert.equal((await exported(id)).sql, 'PRAGMA defer_foreign_keys=TRUE;\n');
  for (const sql of [
    '-- nothing',
    'SELECT * FROM _cf_KV',
    "ATTACH '/etc/passwd' AS p",
    'ROLLBACK; SELECT 1',
    'SAVEPOINT a',
    'BEGIN; COMMIT',
  ])
    assert.equal((await imported(id, sql)).code, 'query_failed', sql);
  assert.equal((await imported(id, ' '.repeat(11 * 2 ** 20))).code, 'body_too_large');

  const many = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6)
    INSERT INTO big SELECT zeroblob(1000000) FROM n`;
  assert.equal((await imported(id, `CREATE TABLE big (x); ${many}`)).changes, 6);
  const large = await exported(id);
  assert.equal(large.code, 'answer_too_large');
  assert.match(large.detail, /database, which has \d{7,} bytes, is larger than 10485760 bytes/);
  await imported(id, 'DROP TABLE big; CREATE VIRTUAL TABLE words USING fts5 (word)');
  const virtual = await exported(id);
  assert.equal(virtual.code, 'query_failed');
  assert.match(virtual.detail, /virtual table words cannot be exported/);
  const nowhere = { id, database_id: 'nothing' };
  assert.equal((await rpc('storage.d1.export', nowhere)).code, 'storage_not_found');
  assert.equal((await rpc('storage.d1.import', { ...nowhere, sql: 'SELECT 1' })).code, 'storage_not_found');
});

test('dumps of sqlite3 are imported, and dumps of D1 that insert rows before the tables they reference', async () => {
  const id = await pushed('from-elsewhere');
  const dump = `PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE pages (id INTEGER PRIMARY KEY AUTOINCREMENT, book INTEGER REFERENCES books (id));
INSERT INTO pages VALUES(7,1);
CREATE TABLE books (id INTEGER PRIMARY KEY);
INSERT INTO books VALUES(1);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('pages',7);
COMMIT;
`;
  assert.equal((await imported(id, dump)).statements, 7);
  const ofD1 = (table: string, last: string) => `PRAGMA defer_foreign_keys=TRUE;
CREATE TABLE ${table} (id INTEGER PRIMARY KEY, b INTEGER REFERENCES ${table}_b (id) ON DELETE CASCADE);
INSERT INTO "${table}" ("id","b") VALUES(1,1);
CREATE TABLE ${table}_b (id INTEGER PRIMARY KEY);
${last}`;
  assert.equal((await imported(id, ofD1('a', 'INSERT INTO "a_b" ("id") VALUES(1);'))).changes, 2);
  const without = await imported(id, ofD1('c', ''));
  assert.match(without.detail, /row 1 of c refers to a missing row of c_b/);
  assert.match(
    (await imported(id, ofD1('d', 'INSERT INTO nowhere VALUES (1);'))).detail,
    /nowhere.*\(line 5\)/,
  );
  assert.deepEqual(
    await rowsOf(id, "SELECT name FROM sqlite_schema WHERE name IN ('a', 'c', 'd', 'pages')"),
    [['pages'], ['a']],
  );
  assert.deepEqual(await rowsOf(id, "SELECT seq FROM sqlite_sequence WHERE name = 'pages'"), [[7]]);
});
