// Exports a database, or some of its tables, as SQL.
import { limitBytes, Refusal } from './answer.js';
import { columnsOf, isTable, OWN, open, prepare, quoted, sqlRefusal } from './databases.js';
import { sizeOf } from './objects.js';

/**
 * Yields the statements that recreate a database: tables, rows, counters, and then views, indexes and triggers.
 * @param wanted names of the tables to export, with their indexes and triggers; undefined for everything
 */
function* dump(database, wanted) {
  yield 'PRAGMA defer_foreign_keys=TRUE;';
  const made = database
    .prepare(
      'SELECT type, name, tbl_name, sql, rootpage FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid',
    )
    .all()
    .filter(({ name, tbl_name }) => !/^(_cf_|sqlite_)/i.test(name) && !OWN.test(tbl_name))
    .filter(({ tbl_name }) => isWanted(tbl_name, wanted));
  const ofType = (type) => made.filter((each) => each.type === type);
  const missing = wanted?.find((name) => !ofType('table').some((table) => isWanted(table.name, [name])));
  if (missing !== undefined) throw new Refusal('query_failed', `no such table: ${missing}`);
  const tables = ofType('table');
  for (const { name, sql, rootpage } of tables) {
    if (rootpage === 0) throw new Refusal('query_failed', `the virtual table ${name} cannot be exported`);
    yield `${sql};`;
  }
  // The rows follow after all tables, because a row may refer to a later table.
  for (const { name } of tables) yield* inserts(database, name);
  yield* sequences(database, wanted);
  for (const type of ['view', 'index', 'trigger']) for (const { sql } of ofType(type)) yield `${sql};`;
}

function* inserts(database, table) {
  const columns = columnsOf(database, table)
    .filter(({ hidden }) => hidden === 0)
    .map(({ name }) => quoted(name));
  // Reads text as bytes, because a text may contain NUL.
  const values = columns.map(
    (name) => `typeof(${name}), iif(typeof(${name}) = 'text', CAST(${name} AS BLOB), ${name})`,
  );
  const head = `INSERT INTO ${quoted(table)} (${columns}) VALUES(`;
  for (const row of prepare(database, `SELECT ${values} FROM ${quoted(table)}`).iterate())
    yield `${head}${columns.map((_, n) => literal(row[2 * n], row[2 * n + 1]))});`;
}

/** Whether to export a table. Ignores case in names, as SQLite does. */
function isWanted(table, wanted) {
  return wanted === undefined || wanted.some((name) => name.toLowerCase() === table.toLowerCase());
}

/** Yields the statements that restore AUTOINCREMENT's counters. */
function* sequences(database, wanted) {
  if (!isTable(database, 'sqlite_sequence')) return;
  for (const [name, seq] of prepare(database, 'SELECT name, seq FROM sqlite_sequence').iterate()) {
    if (typeof name !== 'string' || typeof seq !== 'bigint' || OWN.test(name) || !isWanted(name, wanted))
      continue;
    const table = literal('text', Buffer.from(name));
    yield `DELETE FROM sqlite_sequence WHERE name = ${table};`;
    yield `INSERT INTO sqlite_sequence (name,seq) VALUES(${table},${seq});`;
  }
}

/** Returns a value as an SQL literal. @param value for the type `text`, the text's bytes */
function literal(type, value) {
  if (type === 'null') return 'NULL';
  if (type === 'integer') return String(value);
  if (type === 'blob') return `X'${toHex(value)}'`;
  if (type === 'text') {
    const text = textOf(value);
    return text === null ? `CAST(X'${toHex(value)}' AS TEXT)` : `'${text.replaceAll("'", "''")}'`;
  }
  if (!Number.isFinite(value)) return value > 0 ? '9e999' : '-9e999';
  const number = Object.is(value, -0) ? '-0' : String(value);
  return /[.e]/.test(number) ? number : `${number}.0`;
}

/** Decodes bytes as UTF-8. Returns null when they contain NUL or are not valid UTF-8. */
function textOf(value) {
  if (value.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value);
  } catch {
    return null;
  }
}

function toHex(view) {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('hex');
}

export function exportDatabase({ path, tables }) {
  const database = open(path);
  const parts = [];
  let size = 0;
  try {
    for (const statement of database === null ? [] : dump(database, tables)) {
      const part = JSON.stringify(`${statement}\n`).slice(1, -1);
      size += Buffer.byteLength(part);
      if (size > limitBytes)
        throw new Refusal(
          'answer_too_large',
          `the export of the database, which has ${sizeOf(path)} bytes, is larger than ${limitBytes} bytes: export fewer tables at once`,
        );
      parts.push(part);
    }
  } catch (error) {
    throw sqlRefusal(error);
  }
  return `{"sql":"${parts.join('')}"}`;
}
