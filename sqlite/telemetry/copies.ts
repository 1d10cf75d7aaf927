// Tracks the objects in the bucket that hold copies of a database's rows.
import type { Database } from 'better-sqlite3';

/** Creates the tables in the database whose rows are copied. Never change it, because migrations use it. */
export const COPIES_MIGRATION = `
  CREATE TABLE copies (
    name TEXT PRIMARY KEY,
    hash TEXT NOT NULL                      -- of the rows last written or loaded; empty: to be written again
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE copied_to (
    folder TEXT PRIMARY KEY,                -- it has a row once all of its copies are loaded
    place TEXT NOT NULL                     -- the bucket of the copies
  ) STRICT, WITHOUT ROWID;
  `;

/** A folder followed by this character sorts after every name in the folder. A folder ends with `/`. */
const AFTER = '\u{10FFFF}';

export function copyQueries(database: Database) {
  const hash = database.prepare<[string], { hash: string }>('SELECT hash FROM copies WHERE name = ?');
  const save = database.prepare<[string, string]>('INSERT OR REPLACE INTO copies (name, hash) VALUES (?, ?)');
  const remove = database.prepare<[string]>('DELETE FROM copies WHERE name = ?');
  const clear = database.prepare<[string, string]>('DELETE FROM copies WHERE name > ? AND name < ?');
  const names = database.prepare<[string, string], { name: string }>(
    'SELECT name FROM copies WHERE name > ? AND name < ? ORDER BY name',
  );
  const outdated = database.prepare<[string, string], { name: string }>(
    "SELECT name FROM copies WHERE name > ? AND name < ? AND hash = '' ORDER BY name",
  );
  const last = database.prepare<[string, string], { name: string | null }>(
    'SELECT max(name) AS name FROM copies WHERE name > ? AND name < ?',
  );
  const outdate = database.prepare<[string, string]>(
    "UPDATE copies SET hash = '' WHERE name > ? AND name < ?",
  );
  const place = database.prepare<[string], { place: string }>('SELECT place FROM copied_to WHERE folder = ?');
  const savePlace = database.prepare<[string, string]>(
    'INSERT OR REPLACE INTO copied_to (folder, place) VALUES (?, ?)',
  );

  return {
    transaction: <T>(work: () => T): T => database.transaction(work)(),
    /** Returns the stored hash of an object's rows. Empty: to be written again; null: the object has no row in `copies`. */
    hash: (name: string): string | null => hash.get(name)?.hash ?? null,
    save: (name: string, rows: string): void => {
      save.run(name, rows);
    },
    delete: (name: string): void => {
      remove.run(name);
    },
    /** Returns the names of a folder's objects that have a row in `copies`, in order. */
    names: (folder: string): string[] => names.all(folder, folder + AFTER).map(({ name }) => name),
    /** Returns the names of a folder's objects that must be written again, in order. */
    outdated: (folder: string): string[] => outdated.all(folder, folder + AFTER).map(({ name }) => name),
    /** Returns the name in a folder that sorts last, of those in `copies`; null when there is none. */
    last: (folder: string): string | null => last.get(folder, folder + AFTER)!.name,
    /** Empties the hash of every object of a folder, so that it is written again. */
    outdate: (folder: string): void => {
      outdate.run(folder, folder + AFTER);
    },
    /** Returns the bucket of a folder's copies; null before all of them are loaded. */
    place: (folder: string): string | null => place.get(folder)?.place ?? null,
    /** Stores that all copies of a folder are loaded, and the bucket that gets new ones. */
    setPlace: (folder: string, where: string): void => {
      savePlace.run(folder, where);
    },
    /** Removes the rows of a folder's objects. The objects stay in the bucket. */
    clear: (folder: string): void => {
      clear.run(folder, folder + AFTER);
    },
  };
}
export type CopyQueries = ReturnType<typeof copyQueries>;
