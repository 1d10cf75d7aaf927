// workerd's database of the alarms of a namespace.
import Database from 'better-sqlite3';

/** An alarm. `time`: in ms since 1970; `name`: null for an object without one. */
export interface AlarmRow {
  id: string;
  name: string | null;
  time: number;
}

/** Creates the database in workerd's format. @param path the path of a file that does not exist yet */
export function writeAlarms(path: string, alarms: readonly AlarmRow[]): void {
  const database = new Database(path);
  try {
    database.exec(
      'CREATE TABLE _cf_ALARM (actor_id TEXT PRIMARY KEY, scheduled_time INTEGER, actor_name TEXT) WITHOUT ROWID',
    );
    const insert = database.prepare<[string, bigint, string | null]>(
      'INSERT INTO _cf_ALARM VALUES (?, ?, ?)',
    );
    database.transaction(() => {
      for (const { id, name, time } of alarms) insert.run(id, BigInt(time) * 1_000_000n, name);
    })();
  } finally {
    database.close();
  }
}
