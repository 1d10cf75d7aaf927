// Finds the programs that builds use.
import { accessSync, constants } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

const SYSTEM_PATHS = ['/usr/local/bin', '/usr/bin', '/bin'];

/** Returns the path of a program in `directories`, by default those that builds use; `null` when it is not there. */
export function findProgram(name: string, directories = searchPath()): string | null {
  return directories.map((directory) => join(directory, name)).find(isExecutable) ?? null;
}

/** Returns the directories of the host's Node, the system's programs, and npm. */
export function searchPath(): string[] {
  const own = (process.env.PATH ?? '').split(delimiter).filter((path) => path.startsWith('/'));
  const npm = findProgram('npm', [...SYSTEM_PATHS, ...own]);
  return [...new Set([dirname(process.execPath), ...SYSTEM_PATHS, ...(npm ? [dirname(npm)] : [])])];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
