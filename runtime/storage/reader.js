// Run by a process of the app's user: answers one question about what an app keeps. What lies there may be made to harm whoever
// reads it: nothing is written, nothing but the named files is opened, and the host ends this process when it takes too long,
// too much memory, or prints too much. The question comes on standard input, the answer goes to standard output as JSON.
import { lstatSync, opendirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { constants, DatabaseSync } from 'node:sqlite';
import { deserialize } from 'node:v8';

/** How this process ends that has the reason of a refusal in its output. */
const REFUSED = 3;
/** Longest wait for whoever has a database locked, in ms. */
const BUSY_MS = 2_000;
/** Longest text or bytes that a statement may make. */
const VALUE_BYTES = 20 * 1024 * 1024;
/** Longer values are left out of a list of keys. */
const LISTED_BYTES = 64 * 1024;
/** Longest place of a page as JSON; where it would be longer, pages count rows. */
const PLACE_LENGTH = 600;
/** Values in values that are shown. */
const DEPTH = 100;
const TABLES = 2_000;

class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const { kind, limitBytes, ...question } = JSON.parse(readFileSync(0, 'utf8'));
let bytes = 0;

/** A part of the answer as JSON, counted. */
function json(value) {
  const text = JSON.stringify(value);
  bytes += text.length;
  if (bytes > limitBytes)
    throw new Refusal(
      'answer_too_large',
      `the answer would have more than ${limitBytes} bytes; ask for fewer rows or columns`,
    );
  return text;
}

// Values.

/** What SQLite keeps, as JSON. */
function sqlValue(value) {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : { $bigint: String(value) };
  }
  if (typeof value === 'number') return numberValue(value);
  if (value instanceof Uint8Array) return { $bytes: toBase64(value) };
  return typeof value === 'string' ? value.toWellFormed() : value;
}

/** What `sqlValue` made, as SQLite takes it. */
function bound(value) {
  if (typeof value === 'number' && Number.isInteger(value)) return BigInt(value);
  if (typeof value !== 'object' || value === null) return value;
  if ('$bigint' in value) return BigInt(value.$bigint);
  if ('$number' in value) return Number(value.$number);
  return Buffer.from(value.$bytes, 'base64');
}

function numberValue(value) {
  if (Number.isFinite(value) && !Object.is(value, -0)) return value;
  return { $number: Object.is(value, -0) ? '-0' : String(value) };
}

function toBase64(view) {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('base64');
}

/** What an object keeps under a key, as JSON: the form is described in docs/storage.md. */
function keptValue(value, path = '$', above = new Map()) {
  if (value === undefined) return { $undefined: true };
  if (typeof value === 'bigint') return { $bigint: String(value) };
  if (typeof value === 'number') return numberValue(value);
  if (typeof value === 'string') return value.toWellFormed();
  if (value === null || typeof value !== 'object') return value;
  if (above.has(value)) return { $ref: above.get(value) };
  if (above.size >= DEPTH) return { $deep: true };
  above.set(value, path);
  try {
    return objectValue(value, path, above);
  } finally {
    above.delete(value);
  }
}

function objectValue(value, path, above) {
  const inner = (name, child) => keptValue(child, `${path}[${JSON.stringify(name)}]`, above);
  if (Array.isArray(value)) return Array.from(value, (child, n) => inner(n, child));
  if (value instanceof Date)
    return { $date: Number.isNaN(value.getTime()) ? 'invalid' : value.toISOString() };
  if (value instanceof Map)
    return { $map: [...value].map(([key, child], n) => [inner(n, key), inner(n, child)]) };
  if (value instanceof Set) return { $set: [...value].map((child, n) => inner(n, child)) };
  if (value instanceof RegExp) return { $regexp: String(value).toWellFormed() };
  if (value instanceof Error) return { $error: { name: String(value.name), message: String(value.message) } };
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer)
    return { $bytes: Buffer.from(value).toString('base64'), type: 'ArrayBuffer' };
  if (ArrayBuffer.isView(value)) return { $bytes: toBase64(value), type: value.constructor.name };
  if (
    value instanceof Number ||
    value instanceof String ||
    value instanceof Boolean ||
    value instanceof BigInt
  )
    return keptValue(value.valueOf(), path, above);
  const entries = Object.entries(value);
  // So that no object of the app's looks like one of these forms.
  if (entries.some(([name]) => name.startsWith('$')))
    return { $object: entries.map(([name, child]) => [name.toWellFormed(), inner(name, child)]) };
  return Object.fromEntries(entries.map(([name, child]) => [name.toWellFormed(), inner(name, child)]));
}

function decoded(serialized) {
  try {
    return keptValue(deserialize(serialized));
  } catch (error) {
    return { $unreadable: String(error.message), $bytes: toBase64(serialized) };
  }
}

// Databases.

const READS = [
  constants.SQLITE_SELECT,
  constants.SQLITE_READ,
  constants.SQLITE_FUNCTION,
  constants.SQLITE_RECURSIVE,
];
const PRAGMAS = [
  'table_info',
  'table_xinfo',
  'table_list',
  'index_list',
  'index_info',
  'index_xinfo',
  'foreign_key_list',
];
const FUNCTIONS_REFUSED = ['load_extension', 'fts3_tokenizer'];
/** Tables of workerd's own. */
const OWN = /^_cf_/i;

/** Opens a database to be read, while others may write to it. `null` when there is none. */
function open(path, ownTables = false) {
  for (const suffix of ['', '-wal', '-shm']) {
    const stat = lstatSync(path + suffix, { throwIfNoEntry: false });
    if (stat === undefined && suffix === '') return null;
    if (stat !== undefined && !stat.isFile()) throw new Refusal('storage_unreadable', 'its file is no file');
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

/** Has a database carry out what reads, and nothing else. */
function guarded(database, ownTables = false) {
  for (const pragma of [
    'query_only = ON',
    'trusted_schema = OFF',
    'temp_store = MEMORY',
    'cache_size = -8000',
  ])
    database.exec(`PRAGMA ${pragma}`);
  // All that is read is as it was at one time.
  database.exec('BEGIN');
  database.setAuthorizer((action, first, second) => {
    const { SQLITE_OK, SQLITE_DENY, SQLITE_READ, SQLITE_FUNCTION, SQLITE_PRAGMA } = constants;
    if (action === SQLITE_PRAGMA) return PRAGMAS.includes(first) ? SQLITE_OK : SQLITE_DENY;
    if (!READS.includes(action)) return SQLITE_DENY;
    if (action === SQLITE_READ && !ownTables && OWN.test(first)) return SQLITE_DENY;
    if (action === SQLITE_FUNCTION && FUNCTIONS_REFUSED.includes(second)) return SQLITE_DENY;
    return SQLITE_OK;
  });
  return database;
}

/** Prepares a statement whose words are the caller's. */
function prepare(database, sql) {
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

function sqlRefusal(error) {
  if (error instanceof Refusal || error.code !== 'ERR_SQLITE_ERROR') return error;
  const denied = error.message === 'not authorized' ? ': only statements that read are carried out here' : '';
  return new Refusal('query_failed', `${error.message}${denied}`);
}

/** The rows of a statement, as JSON, each counted. */
function* rowsOf(statement, parameters = []) {
  try {
    for (const row of statement.iterate(...parameters)) yield row.map(sqlValue);
  } catch (error) {
    throw sqlRefusal(error);
  }
}

const rest = /^(?:\s|;|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*$/;

/** What one statement of the caller's gives. */
function query(database, sql) {
  const statement = prepare(database, sql);
  const tail = sql.slice(sql.indexOf(statement.sourceSQL) + statement.sourceSQL.length);
  if (!rest.test(tail)) throw new Refusal('query_failed', 'this takes one statement at a time');
  const columns = statement.columns().map(({ name }) => name);
  const rows = [];
  for (const row of rowsOf(statement)) rows.push(json(row));
  return `"columns":${json(columns)},"rows":[${rows}],"next":null`;
}

const quoted = (name) => `"${name.replaceAll('"', '""')}"`;

/** The tables and views that are the app's. */
function tables(database) {
  const listed = database
    .prepare(
      `SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
       AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name LIMIT ${TABLES}`,
    )
    .all();
  return listed.map(({ name, type }) => ({ name, type, columns: columnsOf(database, name).map(describe) }));
}

function columnsOf(database, table) {
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

/** A page of one table, in the order of its key, or of a column and then the key. */
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
  const direction = descending ? 'DESC' : 'ASC';
  const place = after === null ? null : JSON.parse(after);
  const offset = typeof place === 'number' ? place : null;
  const conditions = [];
  const parameters = [];
  if (filter !== null) conditions.push(`(${filter}\n)`);
  if (place !== null && offset === null) {
    const { condition, values } = behind(sorted, keys, descending, place.map(bound));
    conditions.push(condition);
    parameters.push(...values);
  }
  const order = [...(sorted === null ? [] : [quoted(sorted)]), ...keys].map((term) => `${term} ${direction}`);
  const places = [...(sorted === null ? [] : [quoted(sorted)]), ...keys];
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
        'the keys of this table are too long to page by; use LIMIT and OFFSET in sql',
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

/** What names a row of a table for good; nothing for a view. */
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

/** The condition of rows that come after one. NULL is before everything. */
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

/** The part of an answer that is a database's: one statement, a page of a table, or what tables there are. */
function look(database, asked) {
  if (asked.sql !== null) return query(database, asked.sql);
  if (asked.table !== null) return page(database, asked);
  return `"columns":[],"rows":[],"next":null,"tables":${json(tables(database))}`;
}

function isTable(database, name) {
  const sql = `SELECT 1 FROM sqlite_schema WHERE name = ? AND type = 'table' AND rootpage > 0
    AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden <> 0)`;
  return database.prepare(sql).get(name, name) !== undefined;
}

// Directories.

const OBJECT = /^([0-9a-f]{64})\.sqlite$/;

function sizeOf(path) {
  let size = 0;
  for (const suffix of ['', '-wal']) size += lstatSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0;
  return size;
}

/** The ids of the objects of a class. */
function* objectsIn(directory) {
  const stat = lstatSync(directory, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isDirectory()) throw new Refusal('storage_unreadable', 'its directory is no directory');
  const entries = opendirSync(directory);
  try {
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
      const id = OBJECT.exec(entry.name)?.[1];
      if (id !== undefined && entry.isFile()) yield id;
    }
  } finally {
    entries.closeSync();
  }
}

/** Name and next alarm of objects, as far as workerd has them written down. */
function alarmsOf(directory) {
  const database = open(join(directory, 'metadata.sqlite'), true);
  if (database === null || !isTable(database, '_cf_ALARM')) return () => ({ name: null, alarm: null });
  // workerd has the time as nanoseconds, too many for a double.
  const find = database.prepare(
    `SELECT substr(actor_name, 1, 1024) AS name,
       CASE WHEN typeof(scheduled_time) = 'integer' THEN scheduled_time / 1000000 END AS alarm
     FROM _cf_ALARM WHERE actor_id = ?`,
  );
  return (id) => find.get(id) ?? { name: null, alarm: null };
}

function objectRecord(directory, id, { name, alarm }, given = null) {
  const time = alarm === null || Math.abs(alarm) > 8.64e15 ? null : new Date(alarm).toISOString();
  return { id, name: given ?? name, bytes: sizeOf(join(directory, `${id}.sqlite`)), next_alarm: time };
}

function listObjects({ directory, after, limit }) {
  let ids = [];
  const cut = () => {
    ids = ids.sort().slice(0, limit + 1);
  };
  for (const id of objectsIn(directory)) {
    if (after !== null && id <= after) continue;
    if (ids.push(id) > 10_000) cut();
  }
  cut();
  const alarms = alarmsOf(directory);
  const items = ids.slice(0, limit).map((id) => json(objectRecord(directory, id, alarms(id))));
  const next = ids.length > limit ? ids[limit - 1] : null;
  return `{"object":null,"items":[${items}],"next":${JSON.stringify(next)}}`;
}

function readObject(asked) {
  const { directory, object, name, key, after, limit } = asked;
  const path = join(directory, `${object}.sqlite`);
  const database = open(path, true);
  if (database === null) throw new Refusal('storage_not_found', 'the class has no such object');
  const record = {
    ...objectRecord(directory, object, alarmsOf(directory)(object), name),
    tables: tables(database),
  };
  const head = `"object":${json(record)}`;
  if (asked.sql !== null || asked.table !== null) return `{${head},"items":[],${look(open(path), asked)}}`;
  const items = [];
  let next = null;
  if (isTable(database, '_cf_KV')) {
    const sql =
      key === null
        ? `SELECT key, octet_length(value), CASE WHEN octet_length(value) <= ${LISTED_BYTES} THEN value END
           FROM _cf_KV WHERE key > ? ORDER BY key LIMIT ${limit + 1}`
        : `SELECT key, octet_length(value), value FROM _cf_KV WHERE key = ?`;
    const statement = prepare(database, sql);
    let last = null;
    for (const [found, length, value] of statement.iterate(key ?? after ?? '')) {
      if (items.length === limit) {
        next = last;
        break;
      }
      last = String(found);
      const shown = value === null ? { $large: Number(length ?? 0) } : decoded(value);
      items.push(json({ key: last.toWellFormed(), bytes: Number(length ?? 0), value: shown }));
    }
  }
  return `{${head},"items":[${items}],"next":${JSON.stringify(next)}}`;
}

// Namespaces of KV.

/** How a row names a file in the namespace's own directory. */
const BLOB = /^[0-9a-f]{64}\/b\/([0-9a-f]{1,128})$/;
const PRESENT = '(expiration IS NULL OR expiration > ?)';

function openNamespace(path) {
  const database = open(path);
  return database !== null && isTable(database, 'entries') ? database : null;
}

function listKeys({ path, prefix, after, limit }) {
  const database = openNamespace(path);
  const items = [];
  let next = null;
  if (database !== null) {
    const statement = prepare(
      database,
      `SELECT key, octet_length(value), expiration, substr(metadata, 1, 2048) FROM entries
       WHERE key > ? AND key >= ? AND substr(key, 1, ?) = ? AND ${PRESENT} ORDER BY key LIMIT ${limit + 1}`,
    );
    const parameters = [after ?? '', prefix, [...prefix].length, prefix, Date.now()];
    for (const [key, length, expiration, metadata] of statement.iterate(...parameters)) {
      if (items.length === limit) {
        next = items.at(-1).key;
        break;
      }
      items.push({ key, bytes: length === null ? null : Number(length), ...entry(expiration, metadata) });
    }
  }
  return `{"items":[${items.map(json)}],"next":${JSON.stringify(next)}}`;
}

function readKey({ path, blobs, key }) {
  const database = openNamespace(path);
  const statement =
    database &&
    prepare(database, `SELECT value, blob, expiration, metadata FROM entries WHERE key = ? AND ${PRESENT}`);
  const row = statement?.get(key, Date.now());
  if (!row) throw new Refusal('storage_not_found', 'the namespace has no such key');
  const [inline, blob, expiration, metadata] = row;
  const value = Buffer.from(inline ?? readBlob(blobs, blob));
  return json({ key, value_base64: value.toString('base64'), ...entry(expiration, metadata) });
}

function entry(expiration, metadata) {
  const time = expiration === null ? null : new Date(Number(expiration));
  return {
    expires_at: time && !Number.isNaN(time.getTime()) ? time.toISOString() : null,
    metadata: parsed(metadata),
  };
}

function parsed(metadata) {
  try {
    return metadata === null ? null : JSON.parse(String(metadata));
  } catch {
    return null;
  }
}

function readBlob(blobs, blob) {
  const nowhere = new Refusal('storage_unreadable', 'its value lies nowhere');
  const file = BLOB.exec(blob)?.[1];
  if (file === undefined) throw nowhere;
  const path = join(blobs, file);
  for (const directory of [dirname(blobs), blobs])
    if (!lstatSync(directory, { throwIfNoEntry: false })?.isDirectory()) throw nowhere;
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isFile()) throw nowhere;
  if (stat.size > (limitBytes / 4) * 3)
    throw new Refusal('answer_too_large', `the value has ${stat.size} bytes, more than one answer has`);
  return readFileSync(path);
}

// Workflows: an instance is an object of the engine's, which keeps what it knows under keys of its own.

const STATUSES = new Set([
  'queued',
  'running',
  'waiting',
  'paused',
  'waitingForPause',
  'rollingBack',
  'complete',
  'errored',
  'terminated',
]);
/** Files that are opened for one page of a list. */
const SCANNED = 2_000;
/** Longer values are left out of what is shown of an instance, and all values behind so many bytes. */
const SHOWN_BYTES = 16 * 1024;
const SHOWN_IN_ALL = 4 * 1024 * 1024;
/** Steps that are shown of one instance, and events of its history that are looked at for their times. */
const STEPS_SHOWN = 1_000;
const HISTORY = 50_000;

function listWorkflows({ workflows }) {
  return `[${workflows.map(({ directory, ...named }) => {
    const { objects, bytes: size } = countObjects(directory);
    return json({ ...named, instances: objects, bytes: size });
  })}]`;
}

function timeOf(value) {
  const time = typeof value === 'number' && Math.abs(value) <= 8.64e15 ? new Date(value) : null;
  return time === null || Number.isNaN(time.getTime()) ? null : time.toISOString();
}

/** What an instance keeps under a key, when that is an object; null when there is none, or it is too long. */
function stateOf(serialized) {
  try {
    const value = serialized === undefined || serialized === null ? null : deserialize(serialized);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

/** What is known of an instance; null for one that was removed. */
function openInstance(path) {
  const database = open(path, true);
  if (database === null || !isTable(database, '_cf_KV')) return null;
  const row = database.prepare(`SELECT value FROM _cf_KV WHERE key = 'meta'`).get();
  const meta = stateOf(row?.value);
  if (meta === null || typeof meta.id !== 'string') {
    database.close();
    return null;
  }
  const last = database
    .prepare(`SELECT value FROM _cf_KV WHERE key >= 'l:' AND key < 'l;' ORDER BY key DESC LIMIT 1`)
    .get();
  const created = timeOf(meta.created) ?? new Date(0).toISOString();
  const record = {
    id: meta.id.slice(0, 100).toWellFormed(),
    status: STATUSES.has(meta.status) ? meta.status : 'queued',
    created_at: created,
    changed_at: timeOf(stateOf(last?.value)?.timestamp) ?? created,
  };
  return { database, meta, record };
}

function listInstances({ directory, status, after, limit }) {
  const files = [];
  for (const id of objectsIn(directory)) {
    const made = lstatSync(join(directory, `${id}.sqlite`), { throwIfNoEntry: false })?.birthtimeMs ?? 0;
    files.push({ id, at: Math.floor(made) });
  }
  const behind = (one, other) => other.at - one.at || (one.id < other.id ? -1 : 1);
  const [at, id] = after === null ? [] : JSON.parse(after);
  const rest = files.filter((file) => after === null || behind({ at, id }, file) < 0).sort(behind);
  const items = [];
  let next = null;
  for (const [n, file] of rest.entries()) {
    if (items.length === limit || n === SCANNED) {
      next = JSON.stringify([rest[n - 1].at, rest[n - 1].id]);
      break;
    }
    const found = openInstance(join(directory, `${file.id}.sqlite`));
    found?.database.close();
    if (found !== null && (status === null || found.record.status === status)) items.push(json(found.record));
  }
  return `{"items":[${items}],"next":${JSON.stringify(next)}}`;
}

function readInstance({ path }) {
  const found = openInstance(path);
  if (found === null) throw new Refusal('workflow_instance_not_found', 'the Workflow has no such instance');
  const { database, meta, record } = found;
  let left = SHOWN_IN_ALL;
  const shown = (value) => {
    if (value === undefined) return null;
    const kept = keptValue(value);
    const size = JSON.stringify(kept).length;
    if (size > SHOWN_BYTES || size > left) return { $large: size };
    left -= size;
    return kept;
  };
  const times = timesOf(database);
  const steps = [];
  const rows = database.prepare(
    `SELECT key, octet_length(value) AS size, CASE WHEN octet_length(value) <= ${LISTED_BYTES} THEN value END AS value
     FROM _cf_KV WHERE key >= 's:' AND key < 's;'`,
  );
  for (const row of rows.iterate()) steps.push(stepOf(row, times));
  steps.sort((one, other) => one.order - other.order);
  const leftOut = Math.max(0, steps.length - STEPS_SHOWN);
  return json({
    ...record,
    params: shown(meta.params),
    output: shown(meta.output),
    error: errorOf(meta.error),
    steps: steps.slice(leftOut).map(({ order, output, ...step }) => ({ ...step, output: shown(output) })),
    steps_left_out: leftOut,
  });
}

function errorOf(error) {
  if (typeof error !== 'object' || error === null) return null;
  const text = (value) =>
    String(value ?? '')
      .slice(0, SHOWN_BYTES)
      .toWellFormed();
  return { name: text(error.name), message: text(error.message) };
}

/** When each step was begun and ended, by the name that the engine's history has for it. */
function timesOf(database) {
  const times = new Map();
  const rows = database.prepare(
    `SELECT value FROM _cf_KV WHERE key >= 'l:' AND key < 'l;' AND octet_length(value) <= ${LISTED_BYTES}
     ORDER BY key DESC LIMIT ${HISTORY}`,
  );
  for (const { value } of rows.iterate()) {
    const event = stateOf(value);
    const [, kind, what] =
      /^(step|sleep|wait)_(started|completed|errored|timed_out)$/.exec(event?.type) ?? [];
    if (kind === undefined) continue;
    const key = `${kind}:${event.stepName}`;
    const known = times.get(key) ?? { started: null, ended: null };
    if (what === 'started') known.started = timeOf(event.timestamp);
    else known.ended ??= timeOf(event.timestamp);
    times.set(key, known);
  }
  return times;
}

const KINDS = { do: 'step', sleep: 'sleep', waitForEvent: 'wait' };

/** A step, from the key `s:<type>:<count>:<name>` and what is kept there; what is too long has ended with it. */
function stepOf({ key, size, value }, times) {
  const [, type, count, name] = /^s:(do|sleep|waitForEvent):(\d{1,9}):(.*)$/s.exec(key) ?? [
    '',
    'do',
    '0',
    key,
  ];
  const state = stateOf(value) ?? { done: true, value: undefined, ord: Number.MAX_SAFE_INTEGER };
  const { started = null, ended = null } = times.get(`${KINDS[type]}:${name}-${count}`) ?? {};
  const waits = typeof state.retryAt === 'number' || type !== 'do';
  const status = state.error ? 'errored' : state.done ? 'complete' : waits ? 'waiting' : 'running';
  return {
    name: name.slice(0, 256).toWellFormed(),
    count: Number(count),
    type,
    status,
    attempts: type === 'do' && Number.isSafeInteger(state.attempts) ? state.attempts : null,
    started_at: started,
    ended_at: status === 'complete' || status === 'errored' ? ended : null,
    due_at: status === 'waiting' ? timeOf(state.retryAt ?? state.deadline) : null,
    error: errorOf(state.error),
    output:
      value === null
        ? { $large: Number(size) }
        : state.stream
          ? { $large: Number(state.stream.bytes) || 0 }
          : state.value,
    order: Number(state.ord) || 0,
  };
}

// All that there is.

function countObjects(directory) {
  let objects = 0;
  let size = 0;
  for (const id of objectsIn(directory)) {
    objects++;
    size += sizeOf(join(directory, `${id}.sqlite`));
  }
  return { objects, bytes: size };
}

function countKeys({ path, blobs }) {
  const database = openNamespace(path);
  if (database === null) return { keys: 0, bytes: 0 };
  const [keys] = prepare(database, `SELECT count(*) FROM entries WHERE ${PRESENT}`).get(Date.now());
  let size = sizeOf(path);
  const stat = lstatSync(blobs, { throwIfNoEntry: false });
  if (stat?.isDirectory()) {
    const entries = opendirSync(blobs);
    for (let file = entries.readSync(); file !== null; file = entries.readSync())
      size += lstatSync(join(blobs, file.name), { throwIfNoEntry: false })?.size ?? 0;
    entries.closeSync();
  }
  return { keys: Number(keys), bytes: size };
}

/** A queue has several objects, each of which knows whose it is. */
function countMessages(directory) {
  const queues = new Map();
  for (const id of objectsIn(directory)) {
    const database = open(join(directory, `${id}.sqlite`), true);
    if (database === null || !isTable(database, 'messages') || !isTable(database, '_cf_KV')) continue;
    const named = database.prepare(`SELECT value FROM _cf_KV WHERE key = 'queue'`).get();
    const { n, size } = database.prepare('SELECT count(*) AS n, total(size) AS size FROM messages').get();
    database.close();
    const queue = named === undefined ? null : decoded(named.value);
    if (typeof queue !== 'string') continue;
    const before = queues.get(queue) ?? { messages: 0, bytes: 0 };
    queues.set(queue, { messages: before.messages + n, bytes: before.bytes + size });
  }
  return queues;
}

function overview({ databases, classes, namespaces, queues, queueDirectory }) {
  const messages = countMessages(queueDirectory);
  return json({
    databases: databases.map(({ path, ...named }) => ({ ...named, bytes: sizeOf(path) })),
    classes: classes.map(({ directory, ...named }) => ({ ...named, ...countObjects(directory) })),
    namespaces: namespaces.map(({ path, blobs, ...named }) => ({ ...named, ...countKeys({ path, blobs }) })),
    queues: queues.map((queue) => ({ queue, messages: 0, bytes: 0, ...messages.get(queue) })),
  });
}

function readDatabase({ path, ...asked }) {
  // One that was never used has no file yet.
  const database = open(path) ?? guarded(new DatabaseSync(':memory:'));
  return `{${look(database, asked)}}`;
}

// A whole database as SQL.

/** @yields the statements that make a database anew: tables, rows, and then what depends on both */
function* dump(database) {
  yield 'PRAGMA defer_foreign_keys=TRUE;';
  const made = database
    .prepare(
      'SELECT type, name, tbl_name, sql, rootpage FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid',
    )
    .all()
    .filter(({ name, tbl_name }) => !/^(_cf_|sqlite_)/i.test(name) && !OWN.test(tbl_name));
  const ofType = (wanted) => made.filter(({ type }) => type === wanted);
  const tables = ofType('table');
  for (const { name, sql, rootpage } of tables) {
    if (rootpage === 0) throw new Refusal('query_failed', `the virtual table ${name} cannot be exported`);
    yield `${sql};`;
  }
  // After all tables: a row may name one of a table that comes later.
  for (const { name } of tables) yield* inserts(database, name);
  yield* sequences(database);
  for (const type of ['view', 'index', 'trigger']) for (const { sql } of ofType(type)) yield `${sql};`;
}

function* inserts(database, table) {
  const columns = columnsOf(database, table)
    .filter(({ hidden }) => hidden === 0)
    .map(({ name }) => quoted(name));
  // As bytes, text comes with all that it has, NUL too.
  const values = columns.map(
    (name) => `typeof(${name}), iif(typeof(${name}) = 'text', CAST(${name} AS BLOB), ${name})`,
  );
  const head = `INSERT INTO ${quoted(table)} (${columns}) VALUES(`;
  for (const row of prepare(database, `SELECT ${values} FROM ${quoted(table)}`).iterate())
    yield `${head}${columns.map((_, n) => literal(row[2 * n], row[2 * n + 1]))});`;
}

/** What AUTOINCREMENT has counted to. */
function* sequences(database) {
  if (!isTable(database, 'sqlite_sequence')) return;
  for (const [name, seq] of prepare(database, 'SELECT name, seq FROM sqlite_sequence').iterate()) {
    if (typeof name !== 'string' || typeof seq !== 'bigint' || OWN.test(name)) continue;
    const table = literal('text', Buffer.from(name));
    yield `DELETE FROM sqlite_sequence WHERE name = ${table};`;
    yield `INSERT INTO sqlite_sequence (name,seq) VALUES(${table},${seq});`;
  }
}

/** A value as SQL. @param value of a text its bytes */
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

/** Bytes as a text that stands for them in SQL; null when none does. */
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

function exportDatabase({ path }) {
  const database = open(path);
  const parts = [];
  let size = 0;
  try {
    for (const statement of database === null ? [] : dump(database)) {
      const part = JSON.stringify(`${statement}\n`).slice(1, -1);
      size += Buffer.byteLength(part);
      if (size > limitBytes)
        throw new Refusal(
          'answer_too_large',
          `the database has ${sizeOf(path)} bytes, and its SQL more than ${limitBytes}, the most that one answer has`,
        );
      parts.push(part);
    }
  } catch (error) {
    throw sqlRefusal(error);
  }
  return `{"sql":"${parts.join('')}"}`;
}

const answers = {
  overview,
  export: exportDatabase,
  database: readDatabase,
  objects: listObjects,
  object: readObject,
  keys: listKeys,
  key: readKey,
  workflows: listWorkflows,
  instances: listInstances,
  instance: readInstance,
};

try {
  process.stdout.write(answers[kind](question));
} catch (error) {
  const refusal =
    error instanceof Refusal
      ? error
      : error.code === 'ERR_SQLITE_ERROR'
        ? new Refusal('storage_unreadable', `the database cannot be read: ${error.message}`)
        : null;
  if (refusal === null) throw error;
  process.stdout.write(JSON.stringify({ code: refusal.code, message: refusal.message }));
  process.exitCode = REFUSED;
}
