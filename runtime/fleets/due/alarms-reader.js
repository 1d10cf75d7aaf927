// Prints an app's alarms. Runs as the app's user, because an attacker who escaped the sandbox may have written the files.
// The host kills this process when it exceeds its time or memory.
import { copyFileSync, lstatSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_NAMED = 1_000;
const MAX_NAME_BYTES = 1_000;
/** SQL that converts an alarm's time to ms. workerd stores nanoseconds, which are too large for JavaScript's numbers. */
const TIME = `CASE WHEN typeof(scheduled_time) = 'integer' THEN scheduled_time / 1000000 END`;
const EARLIEST = `SELECT min(${TIME}) AS time FROM _cf_ALARM`;
const NAMED = `SELECT actor_name AS name, ${TIME} AS time FROM _cf_ALARM
  WHERE octet_length(actor_name) <= ${MAX_NAME_BYTES} AND ${TIME} <= ? ORDER BY scheduled_time DESC LIMIT ${MAX_NAMED}`;

const EVERY = `SELECT actor_id AS id, actor_name AS name, ${TIME} AS time FROM _cf_ALARM WHERE ${TIME} IS NOT NULL`;

/** Finds workerd's own table. A view or a table with computed columns is not accepted, because it could run for ever. */
const IS_TABLE = `SELECT 1 FROM sqlite_schema WHERE name = '_cf_ALARM' AND type = 'table' AND rootpage > 0
  AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('_cf_ALARM') WHERE hidden <> 0)`;

const { earliest, named, every, before, copy } = JSON.parse(process.argv[1]);

/** Queries a copy of a database, so that workerd never waits for a lock of this process. */
function query(path, sql, parameters = []) {
  const files = ['', '-wal', '-shm'];
  try {
    for (const suffix of files.slice(0, 2)) {
      const stat = lstatSync(path + suffix, { throwIfNoEntry: false });
      if (stat === undefined) continue;
      if (!stat.isFile()) throw new Error(`${path}${suffix} is not a file`);
      if (stat.size > MAX_BYTES) throw new Error(`${path}${suffix} has more than ${MAX_BYTES} bytes`);
      copyFileSync(path + suffix, copy + suffix);
    }
    const database = new DatabaseSync(copy, { enableForeignKeyConstraints: false });
    try {
      if (database.prepare(IS_TABLE).get() === undefined) throw new Error(`${path} has no table of alarms`);
      return database.prepare(sql).all(...parameters);
    } finally {
      database.close();
    }
  } finally {
    for (const suffix of files) rmSync(copy + suffix, { force: true });
  }
}

const times = earliest.map((path) => query(path, EARLIEST)[0].time);
const alarms = named.map((path) => (path === null ? [] : query(path, NAMED, [before])));
const all = every?.map((path) => query(path, EVERY));
process.stdout.write(JSON.stringify({ times, alarms, every: all }));
