// Rows of the last occurrences of grouped errors, in the database of `errors.ts`.
import type { Database } from 'better-sqlite3';

/** Where and how an error occurred. */
export interface ErrorContext {
  message: string;
  place: string | null;
  mechanism: string;
  handler: string | null;
  method: string | null;
  path: string | null;
  trace_id: string | null;
}

export interface OccurrenceRow extends ErrorContext {
  id: number;
  at: number;
  stack: string | null;
  release: string | null;
}

const COLUMNS = [
  'at',
  'message',
  'stack',
  'place',
  'mechanism',
  'handler',
  'method',
  'path',
  'trace_id',
  'release',
] as const satisfies (keyof OccurrenceRow)[];

/** SQL for the approximate bytes of a group's occurrences. Never change it, because a migration uses it. */
export const BYTES_OF_GROUP = `(
    SELECT coalesce(sum(60 + octet_length(message) + octet_length(mechanism) + coalesce(octet_length(stack), 0)
      + coalesce(octet_length(place), 0) + coalesce(octet_length(handler), 0) + coalesce(octet_length(method), 0)
      + coalesce(octet_length(path), 0) + coalesce(octet_length(trace_id), 0) + coalesce(octet_length(release), 0)), 0)
    FROM occurrences WHERE group_id = groups.id)`;

export function occurrenceQueries(database: Database) {
  const add = database.prepare<OccurrenceRow & { group: number }>(
    `INSERT INTO occurrences (id, group_id, ${COLUMNS.join(', ')}) VALUES (@id, @group, ${COLUMNS.map((name) => `@${name}`).join(', ')})`,
  );
  // Ids are assigned here: SQLite would reuse the highest id after the removal of its row, even for another app.
  let { lastId } = database
    .prepare<[], { lastId: number }>('SELECT coalesce(max(id), 0) AS lastId FROM occurrences')
    .get()!;
  const find = database.prepare<[number], OccurrenceRow>('SELECT * FROM occurrences WHERE id = ?');
  const last = database.prepare<[number], { id: number | null }>(
    'SELECT max(id) AS id FROM occurrences WHERE group_id = ?',
  );
  const update = database.prepare<Pick<OccurrenceRow, 'id' | 'mechanism' | 'method' | 'path' | 'trace_id'>>(
    'UPDATE occurrences SET mechanism = @mechanism, method = @method, path = @path, trace_id = @trace_id WHERE id = @id',
  );
  const trim = database.prepare<[number, number, number]>(
    `DELETE FROM occurrences WHERE group_id = ?
       AND id <= (SELECT id FROM occurrences WHERE group_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
  );
  const ofGroup = database.prepare<[number], OccurrenceRow>(
    `SELECT id, ${COLUMNS.join(', ')} FROM occurrences WHERE group_id = ? ORDER BY id DESC`,
  );
  const dispensable = database.prepare<[string, number], { id: number; group: number }>(
    `SELECT kept.id, kept.group_id AS "group", kept.id = (SELECT max(id) FROM occurrences WHERE group_id = kept.group_id) AS is_last
     FROM groups JOIN occurrences AS kept ON kept.group_id = groups.id WHERE groups.app_id = ?
     ORDER BY is_last, kept.id LIMIT ?`,
  );
  const recount = database.prepare<[number]>(`UPDATE groups SET bytes = ${BYTES_OF_GROUP} WHERE id = ?`);
  const bytes = database.prepare<[string], { bytes: number | null }>(
    'SELECT sum(bytes) AS bytes FROM groups WHERE app_id = ?',
  );
  const remove = database.prepare<[number]>('DELETE FROM occurrences WHERE id = ?');

  return {
    /**
     * Adds an occurrence, and keeps only the newest `most` of the group. Call `update` for the group afterwards: it counts
     * the bytes again. @returns the occurrence's id, which is not reused while the database is open
     */
    addOccurrence: (group: number, row: Omit<OccurrenceRow, 'id'>, most: number): number => {
      add.run({ id: ++lastId, group, ...row });
      trim.run(group, group, most);
      return lastId;
    },
    occurrence: (id: number): OccurrenceRow | undefined => find.get(id),
    /** Returns the id of the last occurrence of a group; null when there is none. */
    lastOccurrence: (group: number): number | null => last.get(group)!.id,
    updateOccurrence: (
      group: number,
      row: Pick<OccurrenceRow, 'id' | 'mechanism' | 'method' | 'path' | 'trace_id'>,
    ): void => {
      update.run(row);
      recount.run(group);
    },
    /** Returns the stored occurrences of a group, the newest first. */
    occurrences: (group: number): OccurrenceRow[] => ofGroup.all(group),
    /** Returns the approximate bytes of an app's occurrences. */
    bytes: (appId: string): number => bytes.get(appId)!.bytes ?? 0,
    /**
     * Removes an app's oldest occurrences until at most `bytesLeft` bytes are left, but at most `limit` occurrences. The
     * newest one of each group is removed after all others. @returns how many
     */
    removeOccurrences: database.transaction((appId: string, bytesLeft: number, limit: number): number => {
      let removed = 0;
      for (const { id, group } of dispensable.all(appId, limit)) {
        if (bytes.get(appId)!.bytes! <= bytesLeft) break;
        remove.run(id);
        recount.run(group);
        removed++;
      }
      return removed;
    }),
  };
}
