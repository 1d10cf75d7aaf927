// Rows of the host's table of pull requests of connected repositories.
import type { Database } from 'better-sqlite3';
import type { PullEvent, PullState } from '../../../handlers/contract/source/pulls.ts';

/** A pull request, with the progress of its preview and of the reports to the Git host. */
export interface StoredPull extends Omit<PullEvent, 'repository' | 'is_open'> {
  state: PullState;
  /** The commit that a person approved; null for none. */
  approved_sha: string | null;
  /** Failed attempts in a row of the work that is due. */
  attempts: number;
  error: string | null;
  /** The state and the commit last reported to the Git host; null for none. */
  reported: string | null;
  /** The Git host's number of Cellar's comment; null before there is one. */
  comment: number | null;
  /** ISO 8601. */
  updated_at: string;
}

/** A pull request of an app. */
export interface PullRow {
  appId: string;
  pull: StoredPull;
  /** When it has work to do, in ms since 1970; null for none. */
  dueAt: number | null;
}

interface Stored {
  appId: string;
  pull: string;
  dueAt: number | null;
}

const COLUMNS = 'app_id AS appId, pull, due_at AS dueAt';
const NEWEST_FIRST = "ORDER BY pull ->> 'updated_at' DESC, number DESC";

export function pullQueries(database: Database) {
  const find = database.prepare<[string, number], Stored>(
    `SELECT ${COLUMNS} FROM pulls WHERE app_id = ? AND number = ?`,
  );
  const list = database.prepare<[string, number], Stored>(
    `SELECT ${COLUMNS} FROM pulls WHERE app_id = ? ${NEWEST_FIRST} LIMIT ?`,
  );
  // `INDEXED BY`, because SQLite would otherwise read all rows, to group them by their key.
  const due = database.prepare<{ now: number; running: string; limit: number }, Stored>(
    `SELECT app_id AS appId, pull, min(due_at) AS dueAt FROM pulls INDEXED BY pulls_due
     WHERE due_at <= @now AND app_id NOT IN (SELECT value FROM json_each(@running))
     GROUP BY app_id ORDER BY dueAt LIMIT @limit`,
  );
  const save = database.prepare<[string, number, string, number | null]>(
    `INSERT INTO pulls (app_id, number, pull, due_at) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET pull = excluded.pull, due_at = excluded.due_at`,
  );
  const trim = database.prepare<{ appId: string; most: number }>(
    `DELETE FROM pulls WHERE app_id = @appId AND number IN
       (SELECT number FROM pulls WHERE app_id = @appId ${NEWEST_FIRST} LIMIT -1 OFFSET @most)`,
  );
  const remove = database.prepare<[string]>('DELETE FROM pulls WHERE app_id = ?');

  return {
    find: (appId: string, number: number): PullRow | undefined => parsed(find.get(appId, number)),
    /** Returns the pull requests of an app, the most recently changed first. */
    list: (appId: string, limit: number): PullRow[] => list.all(appId, limit).map((row) => parsed(row)!),
    /**
     * Returns the first due pull request of each app that is not in `running`, the earliest due first.
     */
    due: (now: number, running: string[], limit: number): PullRow[] =>
      due.all({ now, running: JSON.stringify(running), limit }).map((row) => parsed(row)!),
    /** Adds a pull request, or replaces it. */
    save: (appId: string, pull: StoredPull, dueAt: number | null): void => {
      save.run(appId, pull.number, JSON.stringify(pull), dueAt);
    },
    /** Removes the pull requests of an app, except the `most` most recently changed ones. */
    trim: (appId: string, most: number): void => {
      trim.run({ appId, most });
    },
    /** Removes all pull requests of an app. */
    delete: (appId: string): void => {
      remove.run(appId);
    },
  };
}

function parsed(row: Stored | undefined): PullRow | undefined {
  return row && { ...row, pull: JSON.parse(row.pull) as StoredPull };
}
