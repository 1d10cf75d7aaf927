// Finds and removes the orphaned files of a user. Runs in a thread: a build decides how many there are.
import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Removes the entries of a user directly in `directories`, with their contents.
 * @throws {Error} of the first entry that could not be removed, after all others were tried
 */
export function removeOrphanedFiles(directories: string[], uid: number): void {
  const problems = directories.flatMap((directory) =>
    names(directory).flatMap((name) => removeOwned(join(directory, name), uid)),
  );
  if (problems.length > 0) throw problems[0];
}

function removeOwned(path: string, uid: number): unknown[] {
  try {
    if (lstatSync(path).uid === uid) rmSync(path, { recursive: true, force: true });
    return [];
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? [] : [error];
  }
}

function names(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
