// Databases of the deployed app, put where those of the folder's app lie before anything of it has run.
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import type { Release } from '../../bundler/release.ts';
import { objectId } from '../storage/object-id.ts';
import { objectFile } from '../storage/places.ts';

/** The unique key of what workerd's D1 keeps. */
const DATABASE_KEY = 'D1Database';

/** Databases as SQL, by their bindings. */
export type Copied = Record<string, string>;

/**
 * Makes the databases that a release binds of what was copied.
 * @param data the app's data directory, in which they are not yet
 * @returns the bindings of those that were made
 * @throws {Error} SQLite's, naming the binding
 */
export function placeDatabases({ databases }: Release, copied: Copied, data: string): string[] {
  const made = databases.filter(({ binding }) => Object.hasOwn(copied, binding));
  for (const { binding, storageId } of made) {
    const path = objectFile(data, DATABASE_KEY, objectId(DATABASE_KEY, storageId));
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const database = new Database(path);
    try {
      database.pragma('journal_mode = WAL');
      database.transaction(() => database.exec(copied[binding]!))();
    } catch (error) {
      throw new Error(`${binding}: ${(error as Error).message}`, { cause: error });
    } finally {
      database.close();
    }
  }
  return made.map(({ binding }) => binding);
}
