// Copies the host's database, while it is in use, for a snapshot. Reads the copy, and prepares it for a restore.
import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { BUILD_UIDS } from './build-users.ts';
import { SCHEMA_VERSION } from './database.ts';
import { previewQueries } from './previews.ts';

/** Queries that a snapshot runs on the host's own database. */
export function snapshotQueries(database: Database.Database) {
  const find = database.prepare<[string], string>('SELECT value FROM meta WHERE name = ?').pluck();
  const make = database.prepare<[string]>('INSERT OR IGNORE INTO meta VALUES (?, lower(hex(randomblob(8))))');
  const record = database.prepare<[string]>("INSERT OR REPLACE INTO meta VALUES ('snapshots_in', ?)");
  const idOf = (name: 'cellar' | 'machine'): string => {
    if (find.get(name) === undefined) make.run(name);
    return find.get(name)!;
  };
  return {
    /** Returns this Cellar's id in snapshots. A restore keeps it. */
    cellar: (): string => idOf('cellar'),
    /** Returns the id of this data directory. A directory that is restored from a snapshot gets another id. */
    machine: (): string => idOf('machine'),
    /** Returns the directory outside the data directory where the last snapshot was stored; null without one. */
    place: (): string | null => find.get('snapshots_in') ?? null,
    /** Records the directory that `place` returns. */
    recordPlace: (directory: string): void => {
      record.run(directory);
    },
    /** Copies the whole database, a few pages per turn of the event loop. The copy includes changes made while it runs. */
    copy: async (path: string): Promise<void> => {
      await database.backup(path);
    },
  };
}

/** An app in a copy. */
export interface CopiedApp {
  id: string;
  slug: string;
  liveDeployId: string | null;
  /** Names of its storage, as JSON. */
  storageNames: string;
  /** The user of its process, if the host gives apps users; else null. */
  uid: number | null;
  /** Whether its data is in the bucket. */
  isInBucket: boolean;
}

interface Row {
  id: string;
  wanted: string;
  live_deploy_id: string | null;
  storage_names: string;
  uid: number | null;
}

/** Returns the apps of a copy, by id, without deleted ones and previews. */
export function appsOfCopy(path: string): CopiedApp[] {
  const database = new Database(path, { readonly: true });
  try {
    const rows = database
      .prepare<[], Row>(
        `SELECT id, wanted, live_deploy_id, storage_names, uid FROM apps
         LEFT JOIN build_users ON app_id = id
         WHERE deleted_at IS NULL AND id NOT IN (SELECT id FROM previews) ORDER BY id`,
      )
      .all();
    return rows.map(({ id, wanted, live_deploy_id, storage_names, uid }) => {
      const { slug, storage } = JSON.parse(wanted) as WantedApp;
      return {
        id,
        slug,
        liveDeployId: live_deploy_id,
        storageNames: storage_names,
        uid: uid === null ? null : uid + BUILD_UIDS.count,
        isInBucket: storage === 'bucket',
      };
    });
  } finally {
    database.close();
  }
}

/**
 * Prepares a copy for the host that restores it. The outbox gets a new name, because the control plane may have applied
 * later facts of the old one. The times at which apps have work to do are read from their storage again.
 * @param leftOut ids of apps whose files are not restored: they get no live release, and none to roll back to
 * @throws {Error} when a newer Cellar wrote it
 */
export function prepareCopy(path: string, leftOut: string[] = []): void {
  const database = new Database(path);
  try {
    const version = database.pragma('user_version', { simple: true }) as number;
    if (version > SCHEMA_VERSION)
      throw new Error(
        `the host's database in the snapshot is from a newer Cellar (its schema is ${version}; this Cellar knows ${SCHEMA_VERSION}): restore it with that version`,
      );
    database.exec(`
      UPDATE meta SET value = lower(hex(randomblob(16))) WHERE name = 'outbox';
      UPDATE activity SET resting = 0, due_at = NULL;
      DELETE FROM meta WHERE name IN ('machine', 'joined', 'snapshots_in');
    `);
    removePreviews(database);
    for (const id of leftOut) removeRelease(database, id);
  } finally {
    database.close();
  }
}

/**
 * Prepares the control plane's database for the machine that restores it. Forgets all hosts, so that the first host that
 * reports becomes the home of all apps. Does nothing for a missing file, and for that of an older Cellar.
 */
export function forgetHosts(path: string): void {
  if (!existsSync(path)) return;
  const database = new Database(path);
  try {
    if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'hosts'").get() === undefined) return;
    database.exec('BEGIN; DELETE FROM hosts; UPDATE apps SET home = NULL WHERE home IS NOT NULL; COMMIT');
  } finally {
    database.close();
  }
}

/** Removes an app's releases. The names of its storage stay, so that its storage from another snapshot fits. */
function removeRelease(database: Database.Database, id: string): void {
  database
    .prepare<[string]>(
      "UPDATE apps SET live_deploy_id = NULL, deployed_at = NULL, consumes = '[]' WHERE id = ?",
    )
    .run(id);
  database
    .prepare<[string]>(
      `UPDATE deploys SET fact = json_set(fact, '$.can_roll_back', json('false'),
         '$.status', iif(status = 'live', 'replaced', status)) WHERE app_id = ?`,
    )
    .run(id);
}

/** Removes previews, which are not in snapshots. An older Cellar's database has no table of them. */
function removePreviews(database: Database.Database): void {
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'previews'").get() === undefined) return;
  const previews = previewQueries(database);
  database.transaction(() => {
    for (const { id } of previews.all()) previews.remove(id);
  })();
}
