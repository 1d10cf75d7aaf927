import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { splitStatements } from '../../../sqlite/statements.js';
import { randomCases } from '../../support/random.ts';

test('a file is split where SQLite ends a statement, and each statement knows its line', () => {
  const file = `-- a; comment
CREATE TABLE a(x TEXT); /* ; */ INSERT INTO a VALUES ('one; ''two''
');;
CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN
  UPDATE a SET x = CASE WHEN x THEN 1 END; -- END;
  DELETE FROM a WHERE "x;" = [y;] AND \`z;\`;
END;
SELECT 1 -- no end`;
  assert.deepEqual(splitStatements(file), [
    { line: 2, sql: 'CREATE TABLE a(x TEXT)' },
    { line: 2, sql: "INSERT INTO a VALUES ('one; ''two''\n')" },
    {
      line: 4,
      sql: `CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN
  UPDATE a SET x = CASE WHEN x THEN 1 END; -- END;
  DELETE FROM a WHERE "x;" = [y;] AND \`z;\`;
END`,
    },
    { line: 8, sql: 'SELECT 1' },
  ]);
  for (const empty of ['', ' \n', ';;', '-- only\n', '/* only */;', '/* open'])
    assert.deepEqual(splitStatements(empty), []);
});

test('SQLite accepts each piece of a file as exactly one statement', () => {
  const database = new Database(':memory:');
  database.exec('CREATE TABLE a(x)');
  const statement = fc.constantFrom(
    'SELECT 1',
    "INSERT INTO a VALUES (';')",
    'EXPLAIN SELECT 1',
    'CREATE TRIGGER IF NOT EXISTS t AFTER INSERT ON a BEGIN SELECT 1; SELECT CASE WHEN 1 THEN 2 END; END',
    'CREATE TABLE "b;"(x)',
    'CREATE VIEW v AS SELECT 1',
  );
  const gap = fc.constantFrom(' ', '\n', ' -- ; \n', '/* ; */', '\n;\n');
  fc.assert(
    fc.property(fc.array(fc.tuple(gap, statement, gap)), (parts) => {
      const text = parts.map(([before, sql, after]) => `${before}${sql}${after};`).join('');
      const pieces = splitStatements(text).map(({ sql }) => sql);
      assert.deepEqual(
        pieces,
        parts.map(([, sql]) => sql),
      );
      for (const piece of pieces) database.prepare(piece);
    }),
    randomCases(),
  );
});

test('a long file is split quickly and without recursion', () => {
  const long = `INSERT INTO a VALUES ('${'x'.repeat(3e6)}'); /*${'*'.repeat(3e6)}*/ SELECT 1`;
  assert.deepEqual(
    splitStatements(long).map(({ sql }) => sql.length),
    [3_000_025, 8],
  );
});
