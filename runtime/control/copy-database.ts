// Copies an SQLite database into an empty database of workerd, over the socket of workerd's D1 service. Runs in a worker
// thread.
import Database from 'better-sqlite3';
import { type Query, runQueries, type Value } from './run-queries.ts';

/** Approximate size of one request, in bytes. */
const REQUEST_BYTES = 2 * 2 ** 20;
/** A table that exists while a copy is incomplete. */
const UNFINISHED = 'cellar_unfinished_copy';

interface Entry {
  type: string;
  name: string;
  sql: string;
}

/**
 * Copies a database, or starts an interrupted copy again.
 * @param file path of the database @param socket of the target database
 * @returns the number of copied rows; null when the target has other tables already, and nothing was copied
 * @throws {Error} when a query fails, or a table and its copy differ in their number of rows
 */
export async function copyDatabase(file: string, socket: string): Promise<number | null> {
  const database = new Database(file, { readonly: true });
  try {
    const target = await tablesOf(socket);
    if (target.length > 0 && !target.includes(UNFINISHED)) return null;
    await begin(socket, target);
    const entries = database
      .prepare<[], Entry>('SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid')
      .all()
      .filter(({ name }) => isOwn(name));
    const tables = parentsFirst(
      database,
      entries.filter(({ type }) => type === 'table').map(({ name }) => name),
    );
    await runQueries(
      socket,
      entries.filter(({ type }) => type === 'table').map(({ sql }) => ({ sql })),
    );
    let rows = 0;
    for (const table of tables) rows += await copyTable(database, table, socket);
    await compareCounts(database, tables, socket);
    // Indexes, views and triggers come last: the copied rows have the effects of the triggers already.
    const rest = entries.filter(({ type }) => type !== 'table').map(({ sql }) => ({ sql }));
    await runQueries(socket, [...rest, ...sequences(database), { sql: `DROP TABLE ${UNFINISHED}` }]);
    return rows;
  } finally {
    database.close();
  }
}

/** Marks the copy as unfinished, and removes what an interrupted copy left. */
async function begin(socket: string, left: string[]): Promise<void> {
  await runQueries(socket, [
    { sql: 'PRAGMA defer_foreign_keys = on' },
    { sql: `CREATE TABLE IF NOT EXISTS ${UNFINISHED} (id INTEGER)` },
    ...left.filter((name) => name !== UNFINISHED).map((name) => ({ sql: `DROP TABLE ${quote(name)}` })),
  ]);
}

/** Copies the rows of a table, in the order in which SQLite returns them. @returns the number of rows */
async function copyTable(database: Database.Database, table: string, socket: string): Promise<number> {
  const columns = database
    .prepare<[], { name: string }>(`SELECT name FROM pragma_table_info(${literal(table)})`)
    .all()
    .map(({ name }) => quote(name));
  const sql = `INSERT INTO ${quote(table)} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`;
  let rows = 0;
  let queries: Query[] = [];
  let bytes = 0;
  const statement = database.prepare<[], unknown[]>(`SELECT ${columns.join(', ')} FROM ${quote(table)}`);
  for (const row of statement.raw().iterate()) {
    const params = row.map(parameterOf);
    queries.push({ sql, params });
    bytes += sql.length + params.reduce<number>((sum, value) => sum + sizeOf(value), 0);
    rows++;
    if (bytes < REQUEST_BYTES) continue;
    await runQueries(socket, queries);
    [queries, bytes] = [[], 0];
  }
  if (queries.length > 0) await runQueries(socket, queries);
  return rows;
}

/** @throws {Error} when a table and its copy differ in their number of rows */
async function compareCounts(database: Database.Database, tables: string[], socket: string): Promise<void> {
  if (tables.length === 0) return;
  const counts = tables.map((table) => ({ sql: `SELECT count(*) AS count FROM ${quote(table)}` }));
  const copied = await runQueries(socket, counts);
  tables.forEach((table, at) => {
    const { count } = database.prepare<[], { count: number }>(counts[at]!.sql).get()!;
    const found = copied[at]!.results[0]!.count;
    if (found !== count) throw new Error(`the copy of ${table} has ${String(found)} rows of ${count}`);
  });
}

/** Returns queries that copy the counters of AUTOINCREMENT keys. */
function sequences(database: Database.Database): Query[] {
  const has = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").get();
  if (has === undefined) return [];
  const rows = database
    .prepare<[], { name: string; seq: number }>('SELECT name, seq FROM sqlite_sequence')
    .all();
  return rows.flatMap(({ name, seq }) => [
    { sql: 'DELETE FROM sqlite_sequence WHERE name = ?', params: [name] },
    { sql: 'INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)', params: [name, seq] },
  ]);
}

/** Sorts tables: each comes after the tables that its foreign keys name. */
function parentsFirst(database: Database.Database, tables: string[]): string[] {
  const sorted = new Set<string>();
  const add = (table: string, from: string[]): void => {
    if (from.includes(table)) return;
    const parents = database
      .prepare<[], { parent: string }>(
        `SELECT DISTINCT "table" AS parent FROM pragma_foreign_key_list(${literal(table)})`,
      )
      .all();
    for (const { parent } of parents) if (!sorted.has(parent)) add(parent, [...from, table]);
    sorted.add(table);
  };
  for (const table of tables) add(table, []);
  return [...sorted].filter((table) => tables.includes(table));
}

async function tablesOf(socket: string): Promise<string[]> {
  const [found] = await runQueries(socket, [{ sql: "SELECT name FROM sqlite_schema WHERE type = 'table'" }]);
  return found!.results.map(({ name }) => String(name)).filter(isOwn);
}

/** Whether a table is neither SQLite's nor workerd's. */
export function isOwn(name: string): boolean {
  return !/^(sqlite|_cf)_/.test(name);
}

function parameterOf(value: unknown): Value {
  return value instanceof Uint8Array ? [...value] : (value as Value);
}

function sizeOf(value: Value): number {
  return typeof value === 'string' || Array.isArray(value) ? 4 * value.length : 8;
}

/** Returns a name quoted for SQL. */
export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
