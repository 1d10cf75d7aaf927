// Rows of grouped errors, and their counts per hour.
import type { Database } from 'better-sqlite3';
import { COPIES_MIGRATION } from './copies.ts';
import { BYTES_OF_GROUP, type ErrorContext, occurrenceQueries } from './occurrences.ts';

/** One entry for each schema version of `errors.sqlite`, in order. Never change a released one: add the next. */
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
  `
  ALTER TABLE groups ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;  -- about what its occurrences take
  UPDATE groups SET bytes = ${BYTES_OF_GROUP};
  CREATE INDEX groups_by_bytes ON groups (app_id, bytes);
  `,
  COPIES_MIGRATION,
];

export type GroupStatus = 'open' | 'resolved' | 'ignored';

export interface GroupRow extends ErrorContext {
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

/** A group as it is copied to the bucket, with its counts per hour. */
export interface CopiedGroup extends Omit<GroupRow, 'id' | 'change'> {
  hours: { hour: number; count: number }[];
}

/** Number of an app's groups, and the bytes of their occurrences. */
export interface AppErrors {
  app_id: string;
  groups: number;
  bytes: number;
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
export function errorQueries(database: Database) {
  database.pragma('foreign_keys = ON');
  const find = database.prepare<[string, string], GroupRow>(
    'SELECT * FROM groups WHERE app_id = ? AND fingerprint = ?',
  );
  const insert = database.prepare<Omit<GroupRow, 'id'>>(
    `INSERT INTO groups (${GROUP_COLUMNS.join(', ')}) VALUES (${GROUP_COLUMNS.map((name) => `@${name}`).join(', ')})`,
  );
  const update = database.prepare<GroupRow>(
    `UPDATE groups SET ${GROUP_COLUMNS.map((name) => `${name} = @${name}`).join(', ')}, bytes = ${BYTES_OF_GROUP}
     WHERE id = @id`,
  );
  const count = database.prepare<[string], { n: number }>(
    'SELECT count(*) AS n FROM groups WHERE app_id = ?',
  );
  const countAll = database.prepare<[], { n: number }>('SELECT count(*) AS n FROM groups');
  const countOpen = database.prepare<[string], { n: number }>(
    "SELECT count(*) AS n FROM groups WHERE app_id = ? AND status = 'open'",
  );
  const sizes = database.prepare<[], AppErrors>(
    'SELECT app_id, count(*) AS groups, sum(bytes) AS bytes FROM groups GROUP BY app_id',
  );
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
    'DELETE FROM groups WHERE id IN (SELECT id FROM groups WHERE app_id = ? ORDER BY last_seen_at LIMIT ?)',
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

  const ranges = database.prepare<[number], { range: number }>(
    'SELECT DISTINCT id / CAST(? AS INTEGER) AS range FROM groups',
  );
  const copied = database.prepare<[number, number], Omit<CopiedGroup, 'hours'> & { id: number }>(
    `SELECT id, ${GROUP_COLUMNS.filter((name) => name !== 'change').join(', ')} FROM groups
     WHERE id >= ? AND id < ? ORDER BY id`,
  );

  return {
    ...occurrenceQueries(database),
    transaction: <T>(work: () => T): T => database.transaction(work)(),
    find: (appId: string, fingerprint: string): GroupRow | undefined => find.get(appId, fingerprint),
    insert: (row: Omit<GroupRow, 'id'>): number => Number(insert.run(row).lastInsertRowid),
    /** Updates a group, and counts the bytes of its occurrences again. */
    update: (row: GroupRow): void => {
      update.run(row);
    },
    /** Returns the number of an app's groups. */
    count: (appId: string): number => count.get(appId)!.n,
    /** Returns the number of groups of all apps. */
    countAll: (): number => countAll.get()!.n,
    countOpen: (appId: string): number => countOpen.get(appId)!.n,
    /** Returns the ids of all apps with groups. */
    apps: (): string[] => apps.all().map(({ app_id }) => app_id),
    sizes: (): AppErrors[] => sizes.all(),
    lastChange: (): number => lastChange.get()!.change ?? 0,
    /** Returns an app's groups with a status, the most recently seen first. `after`: end of the previous page, or null. */
    list: (
      appId: string,
      status: GroupStatus,
      after: { at: number; id: number } | null,
      limit: number,
    ): GroupRow[] => {
      const { at, id } = after ?? { at: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };
      return list.all({ app: appId, status, at, id, limit });
    },
    /** Returns an app's groups with a change number above `change`, the lowest number first. */
    changedAfter: (appId: string, change: number, limit: number): GroupRow[] =>
      changed.all(appId, change, limit),
    /** Returns an app's least recently seen group; undefined without groups. */
    oldest: (appId: string): { id: number; last_seen_at: number } | undefined => oldest.get(appId),
    remove: (id: number): void => {
      remove.run(id);
    },
    /** Removes up to `limit` groups last seen before `at`, with occurrences and hours. @returns the number of groups */
    removeBefore: (at: number, limit: number): number => removeBefore.run(at, limit).changes,
    /** Removes up to `limit` groups of an app, the least recently seen first. @returns the number */
    removeOf: (appId: string, limit: number): number => removeOf.run(appId, limit).changes,
    /** Adds to a group's count of an hour, and removes its hours up to `forgotten`, both in hours since 1970. */
    addHour: (group: number, hour: number, count: number, forgotten: number): void => {
      addHour.run(group, hour, count);
      removeHours.run(group, forgotten);
    },
    /** Divides ids into ranges of `length`, numbered from 0. Returns the numbers of the ranges that have groups. */
    ranges: (length: number): number[] => ranges.all(length).map(({ range }) => range),
    /** Returns the groups with ids from `first` on and before `end`. */
    copied: (first: number, end: number): CopiedGroup[] =>
      copied.all(first, end).map(({ id, ...group }) => ({ ...group, hours: hours.all(id, 0) })),
    /** Returns a group's counts of the hours after `after`, in hours since 1970. */
    hours: (group: number, after: number): { hour: number; count: number }[] => hours.all(group, after),
  };
}
export type ErrorQueries = ReturnType<typeof errorQueries>;
