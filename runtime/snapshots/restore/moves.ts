// Directories put in the place of others, all of them or none: what is to be moved is written down first, and a host that
// was killed goes on where it was.
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

/** One thing in the place of another. All paths are on one disk. */
export interface Move {
  from: string;
  to: string;
  /** Where what is there goes; null: nothing is there. */
  aside: string | null;
}

const MOVES = 'moves.json';

/** Removes what was to be moved, unless the moves have begun: then the next start finishes them. */
export function giveUpMoves(work: string): void {
  if (!existsSync(join(work, MOVES))) rmSync(work, { recursive: true, force: true });
}

/** Carries out moves. Once it has begun, they happen, now or at the next start. @param work the directory of what is moved */
export function moveAll(work: string, moves: Move[]): void {
  writeAtomic(join(work, MOVES), JSON.stringify(moves));
  finish(work);
}

/**
 * Finishes moves that a killed host had begun, and removes what was not whole. To be called before anything runs.
 * @param restoring the directory of all restores under way
 */
export function finishMoves(restoring: string): void {
  if (!existsSync(restoring)) return;
  for (const name of readdirSync(restoring)) {
    const work = join(restoring, name);
    if (existsSync(join(work, MOVES))) {
      log('warn', 'a restore was cut after it was decided: it is finished', { restore: name });
      finish(work);
    } else
      log('warn', 'a restore was cut before anything was changed: its files are removed', { restore: name });
  }
  rmSync(restoring, { recursive: true, force: true });
}

function finish(work: string): void {
  const moves = JSON.parse(readFileSync(join(work, MOVES), 'utf8')) as Move[];
  for (const { from, to, aside } of moves) {
    // It has been moved already.
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
