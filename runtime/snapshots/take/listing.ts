// Lists the files of a directory without opening them. A tenant may change the directory meanwhile. So only directories
// are opened, each through its parent's file descriptor, and no link is followed.
import { type BigIntStats, closeSync, constants, lstatSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** A file for the snapshot. */
export interface Listed {
  /** Relative to the directory; a directory's ends with `/`. */
  path: string;
  kind: 'directory' | 'plain' | 'sqlite';
  size: number;
  mode: number;
  /** A text that changes whenever the file changes; empty when a change might leave it the same. */
  stamp: string;
}

/**
 * A file written less than this before the listing, in ms, may be written again without a new timestamp: a kernel tick takes
 * 10 ms. Only the modification time is compared with the clock: every write changes it, and a change of owner is no write.
 */
const UNSURE_MS = 100;
/** SQLite's files beside a database: its backup includes them. */
const BESIDE_SQLITE = /\.sqlite-(wal|shm|journal)$/;
/** Maximum files of one directory tree: each takes memory. */
const MAX_FILES = 1_000_000;
/** Maximum depth of directories: each takes a file descriptor while it is listed. */
const MAX_DEPTH = 100;
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

export interface ListOptions {
  /** Whether `.sqlite` files are databases, which a running process may use; then SQLite's files beside them are skipped. */
  databases: boolean;
  /** Names to skip at the top of the directory. */
  skip?: readonly string[];
  /** The only names to list at the top of the directory. */
  only?: readonly string[];
}

/**
 * Lists files and directories, sorted by name. Skips sockets, links and files that vanish meanwhile.
 * @throws {Error} with more than `MAX_FILES`, or directories deeper than `MAX_DEPTH`
 */
export function list(root: string, { databases, skip = [], only }: ListOptions): Listed[] {
  const found: Listed[] = [];
  const now = Date.now();
  const walk = (directory: string, below: string, depth: number): void => {
    const opened = openDirectory(directory);
    if (opened === null) return;
    if (depth > MAX_DEPTH) {
      closeSync(opened);
      throw new Error(`${root} has directories in more than ${MAX_DEPTH} others`);
    }
    try {
      // Stays valid if the directory is moved meanwhile.
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
    if (found.length >= MAX_FILES) throw new Error(`${root} has more than ${MAX_FILES} files`);
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

/** Returns a database's write-ahead log, unless it is empty: merely opening the database creates an empty one. */
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
