// A database of telemetry. It may lose the last moments when the machine dies, never when a process does, and it keeps its
// files small: the WAL is bounded, and what is deleted is given back.
import { renameSync, rmSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';

/** How many pages, of 4 KiB, the WAL may have before it is written back to the file. */
const CHECKPOINT_PAGES = 1_000;
/** Longest WAL that stays behind a checkpoint, in bytes. */
const WAL_BYTES = 4 * 1024 * 1024;
/** Pages of memory for what is read and written often, in KiB. */
const CACHE_KIB = 8 * 1024;

/**
 * Opens a database, one connection of one thread, and brings its schema up to date. A file that is no database any more is
 * put aside with `.broken` at its end, and a new one made: figures of the past are worth less than those to come.
 * @param migrations one for each schema version, applied in order
 * @throws {Error} when the file was written by a newer Cellar
 */
export function openTelemetryDatabase(path: string, migrations: readonly string[]): Database.Database {
  try {
    return open(path, migrations);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== 'SQLITE_NOTADB' && code !== 'SQLITE_CORRUPT') throw error;
    renameSync(path, `${path}.broken`);
    for (const end of ['-wal', '-shm']) rmSync(path + end, { force: true });
    return open(path, migrations);
  }
}

function open(path: string, migrations: readonly string[]): Database.Database {
  const database = new Database(path);
  try {
    prepare(database, path, migrations);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function prepare(database: Database.Database, path: string, migrations: readonly string[]): void {
  database.pragma('locking_mode = EXCLUSIVE');
  // Takes effect in a new file only.
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
      `${path} was written by a newer Cellar (schema ${version}, this one knows ${migrations.length})`,
    );
  }
  if (version === migrations.length) return;
  database.transaction(() => {
    for (const migration of migrations.slice(version)) database.exec(migration);
    database.pragma(`user_version = ${migrations.length}`);
  })();
}

/** Bytes that a database and its WAL have on the disk. */
export function bytesOnDisk(database: Database.Database): number {
  return ['', '-wal'].reduce((sum, end) => {
    return sum + (statSync(database.name + end, { throwIfNoEntry: false })?.size ?? 0);
  }, 0);
}

/** Bytes of the pages that hold something. */
export function bytesInUse(database: Database.Database): number {
  const read = (name: string) => database.pragma(name, { simple: true }) as number;
  return (read('page_count') - read('freelist_count')) * read('page_size');
}

/** Gives a little of what was deleted back to the disk, which takes some milliseconds. */
export function giveBack(database: Database.Database, pages = 256): void {
  database.pragma(`incremental_vacuum(${pages})`);
}
