// Copies a database of the control plane into an SQLite file, over the socket of workerd's D1 service. In a Cellar of
// several hosts, any host may have the newest data, and the files on this disk may be older.
import Database from 'better-sqlite3';
import { isOwn, quote } from '../../control/copy-database.ts';
import { runQueries } from '../../control/run-queries.ts';

/** Maximum bytes of all rows, as JSON. */
const DUMP_BYTES = 256 * 2 ** 20;
const SEQUENCES = 'sqlite_sequence';

/**
 * Copies all rows as of one moment.
 * @param file is created, and must not exist
 * @throws {Error} when the control plane does not answer, or the database has too many bytes
 */
export async function dumpDatabase(socket: string, file: string): Promise<void> {
  const [schema] = await runQueries(socket, [
    { sql: 'SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid' },
  ]);
  const all = schema!.results as unknown as { type: string; name: string; sql: string }[];
  const entries = all.filter(({ name }) => isOwn(name));
  const isTable = ({ type }: { type: string }) => type === 'table';
  const hasSequences = all.some(({ name }) => name === SEQUENCES);
  const tables = [...entries.filter(isTable).map(({ name }) => name), ...(hasSequences ? [SEQUENCES] : [])];
  // All queries run in one transaction.
  const rows = await runQueries(
    socket,
    tables.map((name) => ({ sql: `SELECT * FROM ${quote(name)}` })),
    DUMP_BYTES,
  );
  const database = new Database(file);
  try {
    database.pragma('foreign_keys = off');
    database.transaction(() => {
      for (const { sql } of entries.filter(isTable)) database.exec(sql);
      for (const [at, name] of tables.entries()) insertAll(database, name, rows[at]!.results);
      // Triggers come last: the copied rows have their effects already.
      for (const { sql } of entries.filter((entry) => !isTable(entry))) database.exec(sql);
    })();
  } finally {
    database.close();
  }
}

function insertAll(database: Database.Database, table: string, rows: Record<string, unknown>[]): void {
  const [first] = rows;
  if (first === undefined) return;
  if (table === SEQUENCES) database.exec(`DELETE FROM ${SEQUENCES}`);
  const columns = Object.keys(first);
  const places = columns.map(() => '?').join(', ');
  const insert = database.prepare<unknown[]>(
    `INSERT INTO ${quote(table)} (${columns.map(quote).join(', ')}) VALUES (${places})`,
  );
  for (const row of rows) insert.run(columns.map((column) => storedValue(row[column])));
}

/** Converts a value of D1's response for SQLite: a list of numbers becomes bytes. */
function storedValue(value: unknown): unknown {
  return Array.isArray(value) ? Buffer.from(value as number[]) : value;
}
