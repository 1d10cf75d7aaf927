// The files of a directory, without a look into them. The directory may be a tenant's, who may change it meanwhile: nothing
// is opened here but directories, each by the one that it was found in, and no link is followed.
import { type BigIntStats, closeSync, constants, lstatSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** A file that is to be in the snapshot. */
export interface Listed {
  /** Below the directory; that of a directory ends with `/`. */
  path: string;
  kind: 'directory' | 'plain' | 'sqlite';
  size: number;
  mode: number;
  /** As `FileEntry` has it. */
  stamp: string;
}

/**
 * A file that was written so shortly before it was listed may be written again and keep its times. In ms; the kernel's ticks
 * have 10. That it changed hands does not count: whoever writes to it changes the time of its content.
 */
const UNSURE_MS = 100;
/** What belongs to a SQLite file, and is in its backup. */
const BESIDE_SQLITE = /\.sqlite-(wal|shm|journal)$/;
/** Files of one directory tree: each takes memory here. */
const MOST_FILES = 1_000_000;
/** Directories that a directory may lie in: each is open while it is looked through. */
const DEEPEST = 100;
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

export interface ListOptions {
  /** Whether files called `.sqlite` are databases of a process that may run, with the files that SQLite puts beside them. */
  databases: boolean;
  /** Names directly in the directory that are left out. */
  skip?: readonly string[];
  /** Names directly in the directory to which it is limited. */
  only?: readonly string[];
}

/**
 * Lists files and directories, in the order of their names. Sockets, links and what vanishes meanwhile are left out.
 * @throws {Error} when there are more than a million, or a directory lies in more than a hundred others
 */
export function list(root: string, { databases, skip = [], only }: ListOptions): Listed[] {
  const found: Listed[] = [];
  const now = Date.now();
  const walk = (directory: string, below: string, depth: number): void => {
    const opened = openDirectory(directory);
    if (opened === null) return;
    if (depth > DEEPEST) {
      closeSync(opened);
      throw new Error(`${root} has directories in more than ${DEEPEST} others`);
    }
    try {
      // Wherever it is moved to meanwhile.
      const here = `/proc/self/fd/${opened}`;
      for (const name of readdirSync(here).sort()) look(here, below, name, depth);
    } finally {
      closeSync(opened);
    }
  };
  const look = (here: string, below: string, name: string, depth: number): void => {
    if (below === '' && (skip.includes(name) || only?.includes(name) === false)) return;
    if (databases && BESIDE_SQLITE.test(name)) return;
    const path = below === '' ? name : `${below}/${name}`;
    const stat = statOf(join(here, name));
    if (stat === null) return;
    if (found.length >= MOST_FILES) throw new Error(`${root} has more than ${MOST_FILES} files`);
    const mode = Number(stat.mode) & 0o777;
    if (stat.isDirectory()) {
      found.push({ path: `${path}/`, kind: 'directory', size: 0, mode, stamp: '' });
      walk(join(here, name), path, depth + 1);
    } else if (stat.isFile()) {
      const isSqlite = databases && name.endsWith('.sqlite');
      const stats = [stat, ...(isSqlite ? writeAheadLog(join(here, name)) : [])];
      const stamp = stampOf(stats, now);
      found.push({ path, kind: isSqlite ? 'sqlite' : 'plain', size: Number(stat.size), mode, stamp });
    }
  };
  walk(root, '', 0);
  return found;
}

/** An empty log says nothing: whoever opened the database made it. */
function writeAheadLog(path: string): BigIntStats[] {
  const stat = statOf(`${path}-wal`);
  return stat === null || stat.size === 0n ? [] : [stat];
}

function stampOf(stats: BigIntStats[], now: number): string {
  const newest = Math.max(...stats.map(({ mtimeMs }) => Number(mtimeMs)));
  if (newest > now - UNSURE_MS) return '';
  return stats.map(({ ino, size, mtimeNs, ctimeNs }) => `${ino}.${size}.${mtimeNs}.${ctimeNs}`).join('+');
}

function openDirectory(path: string): number | null {
  try {
    return openSync(path, DIRECTORY);
  } catch (error) {
    return unlessGone(error, null);
  }
}

function statOf(path: string): BigIntStats | null {
  try {
    return lstatSync(path, { bigint: true });
  } catch (error) {
    return unlessGone(error, null);
  }
}

function unlessGone<T>(error: unknown, otherwise: T): T {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'ELOOP') throw error;
  return otherwise;
}
