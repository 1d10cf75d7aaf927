// Where `cellar dev` stores an app's data: below the app's folder, and locked by one process at a time.
import { existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { claim, type Layout } from '../disk/data-directory.ts';
import { reason } from '../log.ts';

/** Creates the directory `.cellar/<name>`, which git ignores, and returns it. @throws {Error} when it cannot be created */
export function keptDirectory(folder: string, name: string): string {
  const all = join(folder, '.cellar');
  const kept = join(all, name);
  const ignored = join(all, '.gitignore');
  try {
    mkdirSync(kept, { recursive: true, mode: 0o700 });
    if (!existsSync(ignored)) writeFileSync(ignored, '*\n');
  } catch (error) {
    throw new Error(`the app's storage is in ${all}, which cannot be written: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return kept;
}

/** Creates a symbolic link to a directory whose path is too long for unix sockets. @returns the link's short path */
export function shortcutTo(directory: string): string {
  const link = join(mkdtempSync(join(tmpdir(), 'cellar-dev-')), 'd');
  symlinkSync(directory, link);
  return link;
}

/** Locks the folder; returns a function that unlocks it. @throws {Error} when another `cellar dev` uses it */
export function claimFolder(paths: Layout): () => void {
  try {
    return claim(paths);
  } catch (error) {
    throw new Error(
      reason(error).replace(
        /^.* belongs to another Cellar, process (\d+).*$/,
        'another `cellar dev`, process $1, uses this folder: stop it first',
      ),
    );
  }
}
