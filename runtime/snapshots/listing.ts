// The files of a directory, without a look into them. The directory may be a tenant's, who may change it meanwhile: nothing
// is opened here but directories, and no link is followed that was there when it was looked at.
import { type BigIntStats, lstatSync, readdirSync } from 'node:fs';
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

/** A file that changed so shortly before it was listed may change again and keep its times. In ms; the kernel's ticks have 10. */
const UNSURE_MS = 100;
/** What belongs to a SQLite file, and is in its backup. */
const BESIDE_SQLITE = /\.sqlite-(wal|shm|journal)$/;
/** Files of one directory tree: each takes memory here. */
const MOST_FILES = 1_000_000;

export interface ListOptions {
  /** Whether files called `.sqlite` are databases of a process that may run, with the files that SQLite puts beside them. */
  databases: boolean;
  /** Names directly in the directory that are left out. */
  skip?: readonly string[];
}

/**
 * Lists files and directories, in the order of their names. Sockets, links and what vanishes meanwhile are left out.
 * @throws {Error} when there are more than a million
 */
export function list(root: string, { databases, skip = [] }: ListOptions): Listed[] {
  const found: Listed[] = [];
  const now = Date.now();
  const walk = (below: string): void => {
    for (const name of namesIn(join(root, below))) {
      if (below === '' && skip.includes(name)) continue;
      if (databases && BESIDE_SQLITE.test(name)) continue;
      const path = below === '' ? name : `${below}/${name}`;
      const stat = statOf(join(root, path));
      if (stat === null) continue;
      if (found.length >= MOST_FILES) throw new Error(`${root} has more than ${MOST_FILES} files`);
      const mode = Number(stat.mode) & 0o777;
      if (stat.isDirectory()) {
        found.push({ path: `${path}/`, kind: 'directory', size: 0, mode, stamp: '' });
        walk(path);
      } else if (stat.isFile()) {
        const isSqlite = databases && name.endsWith('.sqlite');
        const stats = [stat, ...(isSqlite ? writeAheadLog(join(root, path)) : [])];
        const stamp = stampOf(stats, now);
        found.push({ path, kind: isSqlite ? 'sqlite' : 'plain', size: Number(stat.size), mode, stamp });
      }
    }
  };
  walk('');
  return found;
}

/** An empty log says nothing: whoever opened the database made it. */
function writeAheadLog(path: string): BigIntStats[] {
  const stat = statOf(`${path}-wal`);
  return stat === null || stat.size === 0n ? [] : [stat];
}

function stampOf(stats: BigIntStats[], now: number): string {
  const newest = Math.max(...stats.map(({ ctimeMs }) => Number(ctimeMs)));
  if (newest > now - UNSURE_MS) return '';
  return stats.map(({ ino, size, mtimeNs, ctimeNs }) => `${ino}.${size}.${mtimeNs}.${ctimeNs}`).join('+');
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch (error) {
    return unlessGone(error, []);
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
  if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
  return otherwise;
}
