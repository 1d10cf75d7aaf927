// Replaces several directories atomically. The list of moves is written to the disk first; after a crash, the next start
// finishes them.
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { writeAtomic } from '../../disk/data-directory.ts';
import { log } from '../../log.ts';

/** Moves a file or directory into the place of another. All paths are on one disk. */
export interface Move {
  from: string;
  to: string;
  /** Where the old one goes; null: there is no old one. */
  aside: string | null;
}

const MOVES = 'moves.json';

/** Removes the new files, unless the moves have begun: then the next start finishes them. */
export function abandonMoves(work: string): void {
  if (!existsSync(join(work, MOVES))) rmSync(work, { recursive: true, force: true });
}

/** Makes all moves. Once they have begun, the next start finishes them after a crash. @param work directory of new files */
export function moveAll(work: string, moves: Move[]): void {
  writeAtomic(join(work, MOVES), JSON.stringify(moves));
  finish(work);
}

/**
 * Finishes moves that a killed host had begun, and removes incomplete restores. Call it before any app runs.
 * @param restoring the directory of all restores in progress
 */
export function finishMoves(restoring: string): void {
  if (!existsSync(restoring)) return;
  for (const name of readdirSync(restoring)) {
    const work = join(restoring, name);
    if (existsSync(join(work, MOVES))) {
      log('warn', 'a restore was interrupted after its decision: it is finished now', { restore: name });
      finish(work);
    } else
      log('warn', 'a restore was interrupted before it changed anything: its files are removed', {
        restore: name,
      });
  }
  rmSync(restoring, { recursive: true, force: true });
}

function finish(work: string): void {
  const moves = JSON.parse(readFileSync(join(work, MOVES), 'utf8')) as Move[];
  for (const { from, to, aside } of moves) {
    // Moved before a crash, or never there, such as an optional file of SQLite.
    if (!existsSync(from)) continue;
    if (aside !== null && existsSync(to)) {
      mkdirSync(dirname(aside), { recursive: true, mode: 0o700 });
      renameSync(to, aside);
      syncDirectory(dirname(aside));
    }
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    renameSync(from, to);
    syncDirectory(dirname(to));
  }
  rmSync(work, { recursive: true, force: true });
}

function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
