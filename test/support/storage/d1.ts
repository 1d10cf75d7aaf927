// Generates requests to D1, and runs them on Miniflare's D1.
import fc from 'fast-check';
import { newMiniflare } from '../miniflare.ts';

export type Value = string | number | null | number[];
export interface Statement {
  sql: string;
  params: Value[];
}
/** D1's result of one statement. */
export interface Answered {
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  results: any[];
  meta: Record<string, unknown>;
}

const text = fc.oneof(
  fc.constantFrom('', "it's", 'a;b', '-- no comment', 'é😀', 'x'.repeat(3_000), 'line\nline\r\n', '\u0001'),
  fc.string({ maxLength: 12 }),
);
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(0, -0, 1.5, 2 ** 53, -(2 ** 53), 1e300, 5e-324),
);
const bytes = fc.array(fc.integer({ min: 0, max: 255 }), { maxLength: 20 });
const value: fc.Arbitrary<Value> = fc.oneof(text, number, bytes, fc.constant(null));
const id = fc.integer({ min: 1, max: 40 });
const literal = fc.constantFrom(
  ...['NULL', "''", "'it''s; here'", "X''", "X'00ff27'", '9007199254740993', '-9223372036854775808', '9e999'],
  ...['-9e999', '0.1', '1e20', "CAST(X'610062' AS TEXT)", 'TRUE', "'é'"],
);

const bound = (sql: string, ...params: fc.Arbitrary<Value>[]) =>
  fc.tuple(...params).map((params): Statement => ({ sql, params }));
const plain = (parts: fc.Arbitrary<string>) => parts.map((sql): Statement => ({ sql, params: [] }));

/** Writes that usually succeed. */
const write = fc.oneof(
  bound('INSERT INTO people (name, data) VALUES (?, ?)', text, value),
  bound(
    'INSERT INTO people (id, name, data) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET data = ?3',
    id,
    text,
    value,
  ),
  bound('INSERT INTO people (name, data) VALUES (?, ?) RETURNING *, typeof(data), data AS name', text, value),
  bound('UPDATE people SET data = ?2, name = name || ?1 WHERE id < ?3 RETURNING id, name', text, value, id),
  bound('DELETE FROM people WHERE id = ? RETURNING id', id),
  bound('INSERT INTO notes (text, person) SELECT ?, id FROM people ORDER BY id LIMIT 3', text),
  bound('WITH t(a) AS (SELECT ?) INSERT INTO notes (text) SELECT a FROM t RETURNING rowid, text', text),
  bound('REPLACE INTO people (id, name) VALUES (?, ?)', id, text),
  plain(
    fc
      .tuple(literal, literal)
      .map(([a, b]) => `INSERT INTO people (name, data) VALUES ('literal', ${a}), ('', ${b})`),
  ),
  bound('INSERT INTO found (body) VALUES (?)', text),
);
const read = fc.oneof(
  bound('SELECT *, typeof(data) AS type FROM people WHERE id <= ? ORDER BY id', id),
  bound('SELECT ? AS a, ? AS b, ? AS a, typeof(?) AS "t;"', value, value, value, value),
  plain(literal.map((literal) => `SELECT ${literal} AS v, typeof(${literal}) AS "t", 1 AS 'a b', 2 AS [c;]`)),
  bound(
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i, i * 0.5 FROM n',
    id,
  ),
  plain(
    fc.constantFrom(
      'SELECT count(*) FROM people; ',
      'SELECT * FROM log ORDER BY rowid DESC LIMIT 5 -- the last',
      'VALUES (1, 2), (3, NULL)',
      'SELECT * FROM seen ORDER BY 1 LIMIT 4',
      'PRAGMA table_info(people)',
      'PRAGMA foreign_key_list(notes)',
      'PRAGMA foreign_keys',
      'PRAGMA quick_check',
      'PRAGMA table_list',
      'EXPLAIN QUERY PLAN SELECT * FROM people WHERE name = 1',
      "SELECT json_object('a', json_array(1, 'x', NULL)) AS j, json_extract('{\"a\":[1,2]}', '$.a[1]') AS k",
      "SELECT rowid, body FROM found WHERE found MATCH 'a OR line' ORDER BY rowid",
      'SELECT name, type FROM sqlite_schema ORDER BY name',
      "SELECT CASE WHEN 1 THEN 'END;' END /* ; */ AS c;",
    ),
  ),
);
const change = plain(
  fc.oneof(
    fc
      .integer({ min: 0, max: 3 })
      .map((n) => `CREATE TABLE IF NOT EXISTS made${n} (a INTEGER PRIMARY KEY AUTOINCREMENT, b)`),
    fc.integer({ min: 0, max: 3 }).map((n) => `DROP TABLE IF EXISTS made${n}`),
    fc.integer({ min: 0, max: 3 }).map((n) => `INSERT INTO made${n} (b) VALUES (${n}), (';')`),
    fc.integer({ min: 0, max: 9_999 }).map((n) => `ALTER TABLE notes ADD COLUMN c${n}`),
    fc.constantFrom(
      'CREATE INDEX IF NOT EXISTS by_name ON people (name)',
      'DROP INDEX by_name',
      "CREATE TRIGGER t2 AFTER DELETE ON people BEGIN INSERT INTO log VALUES ('gone;', old.id); SELECT CASE WHEN 1 THEN 2 END; END;",
      'DROP TRIGGER IF EXISTS t2',
      'PRAGMA defer_foreign_keys = on',
      'PRAGMA optimize',
      'ANALYZE',
    ),
  ),
);
/** Statements that D1 refuses. The last is only a comment. */
const wrong = plain(
  fc.constantFrom(
    'SELECT * FROM nowhere',
    'INSERT INTO people (id, name) VALUES (1, NULL)',
    'INSERT INTO notes (text, person) VALUES (1, 999)',
    'SELEC 1',
    'SELECT * FROM _cf_KV',
    'CREATE TABLE _cf_KV (a)',
    'CREATE TABLE sqlite_mine (a)',
    "ATTACH 'x' AS y",
    'BEGIN',
    'SAVEPOINT a',
    'VACUUM',
    'PRAGMA journal_mode = DELETE',
    'SELECT sqlite_version()',
    "SELECT load_extension('x')",
    'SELECT ?',
    'SELECT 1 FROM people WHERE name = "no such',
    `SELECT '${'x'.repeat(120_000)}'`,
    '-- only a comment',
  ),
);
const statement = fc.oneof(
  { weight: 10, arbitrary: write },
  { weight: 8, arbitrary: read },
  { weight: 3, arbitrary: change },
  { weight: 2, arbitrary: fc.oneof({ weight: 9, arbitrary: wrong }, bound('SELECT 1', value)) },
);

/** The statements of one request. */
export const requests = fc.array(statement, { minLength: 1, maxLength: 4 });

/** Tables that the requests use. */
export const SETUP = `
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, data);
CREATE TABLE notes (text TEXT, person INTEGER REFERENCES people (id) ON DELETE CASCADE);
CREATE TABLE log (what TEXT, id INTEGER);
CREATE VIEW seen AS SELECT name, count(*) AS n FROM people GROUP BY name;
CREATE VIRTUAL TABLE found USING fts5 (body);
CREATE TRIGGER t1 AFTER INSERT ON people BEGIN
  INSERT INTO log VALUES ('made; ' || CASE WHEN new.name = '' THEN 'unnamed' ELSE 'named' END, new.id);
END`;

const WORKER = `export default { async fetch(request, env) {
  const statements = await request.json();
  try {
    const results = await env.DB.batch(statements.map(({ sql, params }) =>
      env.DB.prepare(sql).bind(...params.map((value) => Array.isArray(value) ? Uint8Array.from(value).buffer : value))));
    return Response.json(results.map(({ results, meta }) => ({ results, meta })));
  } catch (error) {
    return Response.json({ failed: error.message });
  }
} }`;

export function startMiniflareD1(directory: string) {
  const instance = newMiniflare({
    resourcePersistencePath: directory,
    name: 'app',
    modules: true,
    script: WORKER,
    compatibilityDate: '2026-10-01',
    d1Databases: { DB: 'main' },
  });
  return {
    run: async (statements: Statement[]): Promise<Answered[] | { failed: string }> => {
      const response = await fetch(await instance.ready, {
        method: 'POST',
        body: JSON.stringify(statements),
      });
      return (await response.json()) as Answered[] | { failed: string };
    },
    dispose: () => instance.dispose(),
  };
}
