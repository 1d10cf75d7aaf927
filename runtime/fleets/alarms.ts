// The alarms that workerd keeps on disk. What lies there may be the work of an attacker who got out of the sandbox: it is
// never opened in its place, and no query over workerd's table takes without an end. (Reading the schema of a database made
// for it may.)
import { closeSync, constants, fstatSync, openSync, readSync, rmSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';

/** An alarm. `name`: its object's, null if it has none. `time`: in ms since 1970. */
export interface Alarm {
  name: string | null;
  time: number | null;
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_ALARMS = 1_000_000;
const MAX_NAME_BYTES = 1_000;
/** Not through a link, and not waiting for whoever writes to a pipe. */
const AS_IT_LIES = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** workerd's own table: a view, or a computed column, could compute for ever. */
const IS_TABLE = `SELECT 1 FROM sqlite_schema WHERE name = '_cf_ALARM' AND type = 'table' AND rootpage > 0
  AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('_cf_ALARM') WHERE hidden <> 0)`;
/** workerd has the time as nanoseconds, too many for a double. Sizes and types are known without reading a value. */
const ALARMS = `SELECT
    CASE WHEN octet_length(actor_name) <= ${MAX_NAME_BYTES} THEN actor_name END AS name,
    CASE WHEN typeof(scheduled_time) = 'integer' THEN scheduled_time / 1000000 END AS time
  FROM _cf_ALARM LIMIT ${MAX_ALARMS}`;

/** The time of the earliest alarm in a namespace's `metadata.sqlite`; null without one. `copy` and `@throws` as below. */
export function earliestAlarm(path: string, copy: string): number | null {
  return query<Alarm>(path, copy, `SELECT min(time) AS time FROM (${ALARMS})`)[0]?.time ?? null;
}

/**
 * The first alarms in a namespace's `metadata.sqlite`, at most `limit`; none if there is no such file.
 * @param copy path for a copy, in a directory that only the host can write
 * @throws {Error} when that is no database of alarms, or too large
 */
export function firstAlarms(path: string, copy: string, limit: number): Alarm[] {
  return query<Alarm>(path, copy, `SELECT name, time FROM (${ALARMS}) LIMIT ${limit}`);
}

function query<Row>(path: string, copy: string, sql: string): Row[] {
  const files = ['', '-wal'];
  const clean = () => {
    for (const suffix of [...files, '-shm']) rmSync(copy + suffix, { force: true });
  };
  // What a host that was killed left.
  clean();
  try {
    const [exists] = files.map((suffix) => copyFile(path + suffix, copy + suffix));
    if (!exists) return [];
    const database = new Database(copy);
    try {
      if (database.prepare(IS_TABLE).get() === undefined) throw new Error(`${path} has no table of alarms`);
      return database.prepare<[], Row>(sql).all();
    } finally {
      database.close();
    }
  } finally {
    clean();
  }
}

/** @returns whether there was something to copy */
function copyFile(from: string, to: string): boolean {
  let file: number;
  try {
    file = openSync(from, AS_IT_LIES);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new Error(`${from} is no file`);
    if (stat.size > MAX_BYTES) throw new Error(`${from} has more than ${MAX_BYTES} bytes`);
    const bytes = Buffer.allocUnsafe(stat.size);
    writeFileSync(to, bytes.subarray(0, readSync(file, bytes, 0, bytes.length, 0)), { mode: 0o600 });
    return true;
  } finally {
    closeSync(file);
  }
}
