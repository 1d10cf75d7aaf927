// Reads SQLite files: runs one statement of the caller, lists tables, or returns a page of a table's rows.
import { lstatSync } from 'node:fs';
import { constants, DatabaseSync } from 'node:sqlite';
import { json, placeOf, Refusal } from './answer.js';
import { bound, sqlValue } from './values.js';

/** Longest wait for a database lock, in ms. */
const BUSY_MS = 2_000;
/** Longest text or blob that a statement may create, in bytes. */
const VALUE_BYTES = 20 * 1024 * 1024;
/** Longest cursor of keys, in characters of JSON. If the first page has a longer one, row offsets are used as cursors. */
const PLACE_LENGTH = 600;
const TABLES = 2_000;

const {
  SQLITE_OK,
  SQLITE_DENY,
  SQLITE_SELECT,
  SQLITE_READ,
  SQLITE_FUNCTION,
  SQLITE_RECURSIVE,
  SQLITE_PRAGMA,
} = constants;
const READS = [SQLITE_SELECT, SQLITE_READ, SQLITE_FUNCTION, SQLITE_RECURSIVE];
const PRAGMAS = [
  'table_info',
  'table_xinfo',
  'table_list',
  'index_list',
  'index_info',
  'index_xinfo',
  'foreign_key_list',
  // Full-text tables use it internally.
  'data_version',
];
/** SQL that prepares a database for reads, as one `exec` for speed. The transaction makes all reads see the same data. */
const BEGIN = `PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;
  PRAGMA cache_size = -8000; BEGIN`;
const FUNCTIONS_REFUSED = ['load_extension', 'fts3_tokenizer'];
/** workerd's own tables. */
export const OWN = /^_cf_/i;

/** Open databases, which are closed after each answer: an open transaction would make the app's write-ahead log grow. */
const opened = [];

export function closeAll() {
  for (const database of opened.splice(0)) if (database.isOpen) database.close();
}

/** Opens a database for reading, while other processes may write to it. Returns null if the file is missing. */
export function open(path, ownTables = false) {
  for (const suffix of ['', '-wal', '-shm']) {
    const stat = lstatSync(path + suffix, { throwIfNoEntry: false });
    if (stat === undefined && suffix === '') return null;
    if (stat !== undefined && !stat.isFile())
      throw new Refusal('storage_unreadable', 'its path is not a file');
  }
  const database = new DatabaseSync(path, {
    readOnly: true,
    timeout: BUSY_MS,
    allowExtension: false,
    defensive: true,
    limits: { length: VALUE_BYTES, attach: 0, sqlLength: 200_000 },
  });
  return guarded(database, ownTables);
}

/** Restricts a database to reads. */
function guarded(database, ownTables = false) {
  opened.push(database);
  database.exec(BEGIN);
  database.setAuthorizer((action, first, second) => {
    if (action === SQLITE_PRAGMA) return PRAGMAS.includes(first) ? SQLITE_OK : SQLITE_DENY;
    if (!READS.includes(action)) return SQLITE_DENY;
    if (action === SQLITE_READ && !ownTables && OWN.test(first)) return SQLITE_DENY;
    if (action === SQLITE_FUNCTION && FUNCTIONS_REFUSED.includes(second)) return SQLITE_DENY;
    return SQLITE_OK;
  });
  return database;
}

export function prepare(database, sql) {
  let statement;
  try {
    statement = database.prepare(sql);
  } catch (error) {
    throw sqlRefusal(error);
  }
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  return statement;
}

export function sqlRefusal(error) {
  if (error.code === 'ERR_INVALID_ARG_VALUE') return new Refusal('query_failed', 'there is no statement');
  if (error instanceof Refusal || error.code !== 'ERR_SQLITE_ERROR') return error;
  const denied = error.message === 'not authorized' ? ': only statements that read are allowed' : '';
  return new Refusal('query_failed', `${error.message}${denied}`);
}

/** Yields the rows of a statement, each as a list of values that JSON can contain. */
function* rowsOf(statement, parameters = []) {
  try {
    for (const row of statement.iterate(...parameters)) yield row.map(sqlValue);
  } catch (error) {
    throw sqlRefusal(error);
  }
}

const rest = /^(?:\s|;|--[^\n]*(?:\n|$)|\/\*(?:[^*]|\*(?!\/))*\*\/)*$/;

function query(database, sql) {
  const statement = prepare(database, sql);
  const tail = sql.slice(sql.indexOf(statement.sourceSQL) + statement.sourceSQL.length);
  if (!rest.test(tail))
    throw new Refusal('query_failed', 'the query has several statements: send one at a time');
  const columns = statement.columns().map(({ name }) => name);
  const rows = [];
  for (const row of rowsOf(statement)) rows.push(json(row));
  return `"columns":${json(columns)},"rows":[${rows}],"next":null`;
}

export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

/** Returns the app's tables and views, without those of SQLite and workerd. At most `TABLES`. */
export function tables(database) {
  const listed = database
    .prepare(
      `SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
       AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name LIMIT ${TABLES}`,
    )
    .all();
  return listed.map(({ name, type }) => ({ name, type, columns: columnsOf(database, name).map(describe) }));
}

export function columnsOf(database, table) {
  return database
    .prepare(`SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)`)
    .all(table);
}

function describe({ name, type, notnull, dflt_value, pk, hidden }) {
  return {
    name: name.toWellFormed(),
    type,
    not_null: notnull === 1,
    default: dflt_value,
    primary_key: pk,
    generated: hidden > 1,
  };
}

/** Returns a page of a table's rows as JSON, ordered by the table's key, or by a column and then the key. */
function page(database, { table, sort, filter, limit, after }) {
  const found = OWN.test(table)
    ? undefined
    : database
        .prepare(
          `SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE`,
        )
        .get(table);
  if (found === undefined) throw new Refusal('storage_not_found', `the database has no table ${table}`);
  const columns = columnsOf(database, found.name).filter(({ hidden }) => hidden !== 1);
  const descending = sort?.startsWith('-') === true;
  const sorted = sort === null ? null : sort.slice(descending ? 1 : 0);
  if (sorted !== null && !columns.some(({ name }) => name === sorted))
    throw new Refusal('invalid_input', `sort: ${found.name} has no column ${sorted}`);
  const keys = keysOf(found, columns);
  const places = [...(sorted === null ? [] : [quoted(sorted)]), ...keys];
  const direction = descending ? 'DESC' : 'ASC';
  const place = after === null ? null : placeOf(after, (given) => rowPlace(given, places.length));
  const offset = typeof place === 'number' ? place : null;
  const conditions = [];
  const parameters = [];
  if (filter !== null) conditions.push(`(${filter}\n)`);
  if (place !== null && offset === null) {
    const { condition, values } = behind(sorted, keys, descending, place);
    conditions.push(condition);
    parameters.push(...values);
  }
  const order = places.map((term) => `${term} ${direction}`);
  const sql = `SELECT ${[...columns.map(({ name }) => quoted(name)), ...places].join(', ')} FROM ${quoted(found.name)}
    ${conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`}
    ${order.length === 0 ? '' : `ORDER BY ${order.join(', ')}`} LIMIT ${limit + 1} OFFSET ${offset ?? 0}`;
  const rows = [];
  const nextPlace = (last) => {
    const place = JSON.stringify(last);
    const isByKey = keys.length > 0 && place.length <= PLACE_LENGTH;
    if (!isByKey && conditions.length > (filter === null ? 0 : 1))
      throw new Refusal(
        'query_failed',
        'the next page has no address: a key or a sorted value is too long; use `sql` with LIMIT and OFFSET',
      );
    return isByKey && offset === null ? place : String((offset ?? 0) + limit);
  };
  let next = null;
  let last = null;
  for (const row of rowsOf(prepare(database, sql), parameters)) {
    if (rows.length === limit) {
      next = nextPlace(last);
      break;
    }
    rows.push(json(row.slice(0, columns.length)));
    last = row.slice(columns.length);
  }
  const shown = json(columns.map(({ name }) => name.toWellFormed()));
  return `"columns":${shown},"rows":[${rows}],"next":${JSON.stringify(next)}`;
}

/** Returns a cursor's row offset, or its values of the ordering columns for SQLite; null when it is invalid. */
function rowPlace(place, columns) {
  if (Number.isSafeInteger(place) && place >= 0) return place;
  return Array.isArray(place) && place.length === columns ? place.map(bound) : null;
}

/** Returns the columns that identify a row of a table. Empty for a view, and for a table whose columns hide the rowid. */
function keysOf({ type, wr }, columns) {
  if (type === 'view') return [];
  if (wr === 1)
    return columns
      .filter(({ pk }) => pk > 0)
      .sort((a, b) => a.pk - b.pk)
      .map(({ name }) => quoted(name));
  const names = columns.map(({ name }) => name.toLowerCase());
  const free = ['rowid', '_rowid_', 'oid'].find((name) => !names.includes(name));
  return free === undefined ? [] : [free];
}

/** Returns the condition for the rows after the cursor's row. NULL sorts before all other values. */
function behind(sorted, keys, descending, place) {
  const than = descending ? '<' : '>';
  const values = sorted === null ? place : place.slice(1);
  const tuple = (terms) => (terms.length === 1 ? terms[0] : `(${terms.join(', ')})`);
  const key = `${tuple(keys)} ${than} ${tuple(keys.map(() => '?'))}`;
  if (sorted === null) return { condition: key, values };
  const column = quoted(sorted);
  if (place[0] === null) {
    const same = `(${column} IS NULL AND ${key})`;
    return { condition: descending ? same : `(${same} OR ${column} IS NOT NULL)`, values };
  }
  const later = `(${column} ${than}= ? AND (${column} ${than} ? OR ${key}))`;
  const condition = descending ? `(${later} OR ${column} IS NULL)` : later;
  return { condition, values: [place[0], place[0], ...values] };
}

/** Returns a part of the answer about one database: rows of a statement, a page of a table, or the list of tables. */
export function look(database, asked) {
  if (asked.sql !== null) return query(database, asked.sql);
  if (asked.table !== null) return page(database, asked);
  return `"columns":[],"rows":[],"next":null,"tables":${json(tables(database))}`;
}

export function isTable(database, name) {
  const sql = `SELECT 1 FROM sqlite_schema WHERE name = ? AND type = 'table' AND rootpage > 0
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden <> 0)`;
  return database.prepare(sql).get(name, name) !== undefined;
}

export function readDatabase({ path, ...asked }) {
  // A database that was never used has no file yet.
  const database = open(path) ?? guarded(new DatabaseSync(':memory:'));
  return `{${look(database, asked)}}`;
}
