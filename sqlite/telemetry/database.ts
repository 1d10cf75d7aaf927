// Opens telemetry databases. A crash of the machine may lose the last writes; a crash of a process does not. The WAL is
// truncated after checkpoints, and free pages are returned to the disk.
import { renameSync, rmSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';

/** Pages of the WAL, 4 KiB each, that trigger a checkpoint. */
const CHECKPOINT_PAGES = 1_000;
/** Maximum bytes of the WAL file after a checkpoint. */
const WAL_BYTES = 4 * 1024 * 1024;
/** Page cache, in KiB. */
const CACHE_KIB = 8 * 1024;

/** Opens a database read-only. Another thread must have opened it with `isShared`. */
export function openTelemetryReader(path: string): Database.Database {
  return new Database(path, { readonly: true, fileMustExist: true });
}

/**
 * Opens and migrates a database, with an exclusive lock unless `isShared`. A damaged file gets the suffix `.broken`, and an
 * empty one replaces it, so that new data can be stored.
 * @param migrations one for each schema version, applied in order
 * @param isShared whether other threads may read it at the same time
 * @throws {Error} when the file was written by a newer Cellar
 */
export function openTelemetryDatabase(
  path: string,
  migrations: readonly string[],
  isShared = false,
): Database.Database {
  try {
    return open(path, migrations, isShared);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== 'SQLITE_NOTADB' && code !== 'SQLITE_CORRUPT') throw error;
    renameSync(path, `${path}.broken`);
    for (const end of ['-wal', '-shm']) rmSync(path + end, { force: true });
    return open(path, migrations, isShared);
  }
}

function open(path: string, migrations: readonly string[], isShared: boolean): Database.Database {
  const database = new Database(path);
  try {
    if (!isShared) database.pragma('locking_mode = EXCLUSIVE');
    prepare(database, path, migrations);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function prepare(database: Database.Database, path: string, migrations: readonly string[]): void {
  // `auto_vacuum` takes effect in a new file only.
  database.pragma('auto_vacuum = INCREMENTAL');
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  database.pragma(`journal_size_limit = ${WAL_BYTES}`);
  database.pragma(`cache_size = -${CACHE_KIB}`);
  database.pragma('temp_store = MEMORY');
  const version = database.pragma('user_version', { simple: true }) as number;
  if (version > migrations.length) {
    throw new Error(
      `${path} was written by a newer Cellar (schema ${version}; this Cellar knows ${migrations.length}); start the newer version`,
    );
  }
  if (version === migrations.length) return;
  database.transaction(() => {
    for (const migration of migrations.slice(version)) database.exec(migration);
    database.pragma(`user_version = ${migrations.length}`);
  })();
}

/** Returns the size of a database and its WAL on the disk, in bytes. */
export function bytesOnDisk(database: Database.Database): number {
  return ['', '-wal'].reduce((sum, end) => {
    return sum + (statSync(database.name + end, { throwIfNoEntry: false })?.size ?? 0);
  }, 0);
}

/** Returns the bytes of the pages in use. */
export function bytesInUse(database: Database.Database): number {
  const read = (name: string) => database.pragma(name, { simple: true }) as number;
  return (read('page_count') - read('freelist_count')) * read('page_size');
}

/** Returns up to `pages` free pages to the disk. Takes some milliseconds. */
export function returnFreePages(database: Database.Database, pages = 256): void {
  database.pragma(`incremental_vacuum(${pages})`);
}
