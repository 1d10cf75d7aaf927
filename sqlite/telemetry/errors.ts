// Rows of grouped errors, their last occurrences, and how many there were in each hour.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `errors.sqlite`, applied in order. Never change one that has been released: add the next. */
export const ERRORS_MIGRATIONS = [
  `
  CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    app_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    grouping INTEGER NOT NULL,              -- version of what made the fingerprint
    kind TEXT NOT NULL,
    message TEXT NOT NULL,                  -- of the last occurrence, as what follows up to path
    place TEXT,
    mechanism TEXT NOT NULL,
    handler TEXT,
    method TEXT,
    path TEXT,
    trace_id TEXT,
    count INTEGER NOT NULL,
    status TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,         -- times here are ms since 1970
    last_seen_at INTEGER NOT NULL,
    first_release TEXT,
    last_release TEXT,
    resolved_release TEXT,                  -- the last release when it was resolved
    regressed_at INTEGER,
    change INTEGER NOT NULL,                -- rises with each change of a group of any app
    UNIQUE (app_id, fingerprint)
  ) STRICT;
  CREATE INDEX groups_by_status ON groups (app_id, status, last_seen_at, id);
  CREATE INDEX groups_by_change ON groups (app_id, change);
  CREATE INDEX groups_by_time ON groups (last_seen_at);
  CREATE TABLE occurrences (
    id INTEGER PRIMARY KEY,
    group_id INTEGER NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    message TEXT NOT NULL,
    stack TEXT,
    place TEXT,
    mechanism TEXT NOT NULL,
    handler TEXT,
    method TEXT,
    path TEXT,
    trace_id TEXT,
    release TEXT
  ) STRICT;
  CREATE INDEX occurrences_by_group ON occurrences (group_id, id);
  CREATE TABLE hours (
    group_id INTEGER NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
    hour INTEGER NOT NULL,                  -- hours since 1970
    count INTEGER NOT NULL,
    PRIMARY KEY (group_id, hour)
  ) STRICT, WITHOUT ROWID;
  `,
];

export type GroupStatus = 'open' | 'resolved' | 'ignored';

/** Where and how an error occurred. */
export interface Circumstances {
  message: string;
  place: string | null;
  mechanism: string;
  handler: string | null;
  method: string | null;
  path: string | null;
  trace_id: string | null;
}

export interface OccurrenceRow extends Circumstances {
  id: number;
  at: number;
  stack: string | null;
  release: string | null;
}

export interface GroupRow extends Circumstances {
  id: number;
  app_id: string;
  fingerprint: string;
  grouping: number;
  kind: string;
  count: number;
  status: GroupStatus;
  first_seen_at: number;
  last_seen_at: number;
  first_release: string | null;
  last_release: string | null;
  resolved_release: string | null;
  regressed_at: number | null;
  change: number;
}

const GROUP_COLUMNS = [
  'app_id',
  'fingerprint',
  'grouping',
  'kind',
  'message',
  'place',
  'mechanism',
  'handler',
  'method',
  'path',
  'trace_id',
  'count',
  'status',
  'first_seen_at',
  'last_seen_at',
  'first_release',
  'last_release',
  'resolved_release',
  'regressed_at',
  'change',
] as const satisfies (keyof GroupRow)[];
const OCCURRENCE_COLUMNS = [
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

const named = (columns: readonly string[]) => columns.map((name) => `@${name}`).join(', ');

/** Typed queries over `errors.sqlite`. */
export function errorQueries(database: Database) {
  database.pragma('foreign_keys = ON');
  const find = database.prepare<[string, string], GroupRow>(
    'SELECT * FROM groups WHERE app_id = ? AND fingerprint = ?',
  );
  const insert = database.prepare<Omit<GroupRow, 'id'>>(
    `INSERT INTO groups (${GROUP_COLUMNS.join(', ')}) VALUES (${named(GROUP_COLUMNS)})`,
  );
  const update = database.prepare<GroupRow>(
    `UPDATE groups SET ${GROUP_COLUMNS.map((name) => `${name} = @${name}`).join(', ')} WHERE id = @id`,
  );
  const count = database.prepare<[string], { n: number }>(
    'SELECT count(*) AS n FROM groups WHERE app_id = ?',
  );
  const countOpen = database.prepare<[string], { n: number }>(
    "SELECT count(*) AS n FROM groups WHERE app_id = ? AND status = 'open'",
  );
  const countAll = database.prepare<[], { n: number }>('SELECT count(*) AS n FROM groups');
  const apps = database.prepare<[], { app_id: string }>('SELECT DISTINCT app_id FROM groups');
  const lastChange = database.prepare<[], { change: number | null }>(
    'SELECT max(change) AS change FROM groups',
  );
  const list = database.prepare<
    { app: string; status: string; at: number; id: number; limit: number },
    GroupRow
  >(
    `SELECT * FROM groups WHERE app_id = @app AND status = @status
       AND (last_seen_at, id) < (@at, @id) ORDER BY last_seen_at DESC, id DESC LIMIT @limit`,
  );
  const changed = database.prepare<[string, number, number], GroupRow>(
    'SELECT * FROM groups WHERE app_id = ? AND change > ? ORDER BY change LIMIT ?',
  );
  const oldest = database.prepare<[string], { id: number; last_seen_at: number }>(
    'SELECT id, last_seen_at FROM groups WHERE app_id = ? ORDER BY last_seen_at LIMIT 1',
  );
  const remove = database.prepare<[number]>('DELETE FROM groups WHERE id = ?');
  const removeBefore = database.prepare<[number, number]>(
    'DELETE FROM groups WHERE id IN (SELECT id FROM groups WHERE last_seen_at < ? ORDER BY last_seen_at LIMIT ?)',
  );
  const removeOf = database.prepare<[string, number]>(
    'DELETE FROM groups WHERE id IN (SELECT id FROM groups WHERE app_id = ? LIMIT ?)',
  );
  const insertOccurrence = database.prepare<Omit<OccurrenceRow, 'id'> & { group: number }>(
    `INSERT INTO occurrences (group_id, ${OCCURRENCE_COLUMNS.join(', ')}) VALUES (@group, ${named(OCCURRENCE_COLUMNS)})`,
  );
  const findOccurrence = database.prepare<[number], OccurrenceRow>('SELECT * FROM occurrences WHERE id = ?');
  const lastOccurrence = database.prepare<[number], { id: number | null }>(
    'SELECT max(id) AS id FROM occurrences WHERE group_id = ?',
  );
  const updateOccurrence = database.prepare<
    Pick<OccurrenceRow, 'id' | 'mechanism' | 'method' | 'path' | 'trace_id'>
  >(
    'UPDATE occurrences SET mechanism = @mechanism, method = @method, path = @path, trace_id = @trace_id WHERE id = @id',
  );
  const trimOccurrences = database.prepare<[number, number, number]>(
    `DELETE FROM occurrences WHERE group_id = ?
       AND id <= (SELECT id FROM occurrences WHERE group_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
  );
  const occurrences = database.prepare<[number], OccurrenceRow>(
    `SELECT id, ${OCCURRENCE_COLUMNS.join(', ')} FROM occurrences WHERE group_id = ? ORDER BY id DESC`,
  );
  const addHour = database.prepare<[number, number, number]>(
    'INSERT INTO hours (group_id, hour, count) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count',
  );
  const hours = database.prepare<[number, number], { hour: number; count: number }>(
    'SELECT hour, count FROM hours WHERE group_id = ? AND hour > ?',
  );
  const removeHours = database.prepare<[number, number]>(
    'DELETE FROM hours WHERE group_id = ? AND hour <= ?',
  );

  return {
    transaction: <T>(work: () => T): T => database.transaction(work)(),
    find: (appId: string, fingerprint: string): GroupRow | undefined => find.get(appId, fingerprint),
    insert: (row: Omit<GroupRow, 'id'>): number => Number(insert.run(row).lastInsertRowid),
    update: (row: GroupRow): void => {
      update.run(row);
    },
    /** Groups of an app. */
    count: (appId: string): number => count.get(appId)!.n,
    countOpen: (appId: string): number => countOpen.get(appId)!.n,
    /** Every app that has a group. */
    apps: (): string[] => apps.all().map(({ app_id }) => app_id),
    countAll: (): number => countAll.get()!.n,
    lastChange: (): number => lastChange.get()!.change ?? 0,
    /** Groups in a status, seen last first, from behind a place on. */
    list: (
      appId: string,
      status: GroupStatus,
      after: { at: number; id: number } | null,
      limit: number,
    ): GroupRow[] => {
      const { at, id } = after ?? { at: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };
      return list.all({ app: appId, status, at, id, limit });
    },
    /** Groups that changed after a change, in the order of their last changes. */
    changedAfter: (appId: string, change: number, limit: number): GroupRow[] =>
      changed.all(appId, change, limit),
    /** The group of an app that was not seen for the longest time. */
    oldest: (appId: string): { id: number; last_seen_at: number } | undefined => oldest.get(appId),
    remove: (id: number): void => {
      remove.run(id);
    },
    /** Removes up to `limit` groups last seen before `at`, with all that belongs to them. @returns how many */
    removeBefore: (at: number, limit: number): number => removeBefore.run(at, limit).changes,
    /** Removes up to `limit` groups of an app. @returns how many */
    removeOf: (appId: string, limit: number): number => removeOf.run(appId, limit).changes,
    /** Adds an occurrence and keeps the last `most` of the group. @returns its id */
    addOccurrence: (group: number, row: Omit<OccurrenceRow, 'id'>, most: number): number => {
      const id = Number(insertOccurrence.run({ group, ...row }).lastInsertRowid);
      trimOccurrences.run(group, group, most);
      return id;
    },
    occurrence: (id: number): OccurrenceRow | undefined => findOccurrence.get(id),
    /** The id of the last occurrence of a group; null when none is kept. */
    lastOccurrence: (group: number): number | null => lastOccurrence.get(group)!.id,
    updateOccurrence: (
      row: Pick<OccurrenceRow, 'id' | 'mechanism' | 'method' | 'path' | 'trace_id'>,
    ): void => {
      updateOccurrence.run(row);
    },
    /** The kept occurrences of a group, the last first. */
    occurrences: (group: number): OccurrenceRow[] => occurrences.all(group),
    /** Adds to the count of an hour, and forgets the hours up to `forgotten`. */
    addHour: (group: number, hour: number, count: number, forgotten: number): void => {
      addHour.run(group, hour, count);
      removeHours.run(group, forgotten);
    },
    /** Counts of the hours after one. */
    hours: (group: number, after: number): { hour: number; count: number }[] => hours.all(group, after),
  };
}
export type ErrorQueries = ReturnType<typeof errorQueries>;
