// Where `cellar dev` keeps what the app of a folder keeps: below the folder, for one process at a time.
import { existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { claim, type Layout } from '../disk/data-directory.ts';
import { reason } from '../log.ts';

/** The directory of what is kept under a name, which git does not see. It is made. @throws {Error} when it cannot be */
export function keptDirectory(folder: string, name: string): string {
  const all = join(folder, '.cellar');
  const kept = join(all, name);
  const ignored = join(all, '.gitignore');
  try {
    mkdirSync(kept, { recursive: true, mode: 0o700 });
    if (!existsSync(ignored)) writeFileSync(ignored, '*\n');
  } catch (error) {
    throw new Error(
      `what the app keeps lies in ${all}, which cannot be written: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
  return kept;
}

/** A short path to a directory whose own is too long for the sockets below it. */
export function shortcutTo(directory: string): string {
  const link = join(mkdtempSync(join(tmpdir(), 'cellar-dev-')), 'd');
  symlinkSync(directory, link);
  return link;
}

/** @throws {Error} when another `cellar dev` has the folder */
export function claimFolder(paths: Layout): () => void {
  try {
    return claim(paths);
  } catch (error) {
    throw new Error(
      reason(error).replace(
        /^.* belongs to another Cellar, process (\d+).*$/,
        'another `cellar dev`, process $1, has this folder: end it first',
      ),
    );
  }
}
