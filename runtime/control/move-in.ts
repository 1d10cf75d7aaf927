// Moves the databases of a control plane that kept its data on this machine into the bucket.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { moveToTrash } from '../disk/trash.ts';
import { socketPath } from '../fleets/process/cell-directories.ts';
import { log } from '../log.ts';
import { threads } from '../threads/worker.ts';
import { type ControlDatabase, DATABASES } from './config.ts';
import type { copyDatabase } from './copy-database.ts';

const COPY = new URL('./copy-database.ts', import.meta.url);
/** Timeout of the copy of a database, in ms. */
const TIMEOUT_MS = 30 * 60_000;

export interface MoveInOptions {
  /** Directory of the control plane. Nothing else uses its databases. */
  directory: string;
  /** Directory with the sockets of the process that keeps its data in the bucket. */
  runDirectory: string;
  /** Directory of removed files. */
  trash: string;
  signal: AbortSignal;
}

/** Whether a control plane has databases on this machine. */
export function hasLocalData(directory: string): boolean {
  return localDatabases(directory).length > 0;
}

/**
 * Copies each database that is on this machine into the process that keeps its data in the bucket, then moves the files to
 * the trash. A database that is in the bucket already is newer, and stays. An interrupted copy begins anew.
 * @throws {Error} when a copy fails, or has another number of rows than the original
 */
export async function moveIn({ directory, runDirectory, trash, signal }: MoveInOptions): Promise<void> {
  for (const { name, socket, file } of localDatabases(directory)) {
    log('info', 'a database of the control plane moves into the bucket', { database: name });
    const values: Parameters<typeof copyDatabase> = [join(directory, file), socketPath(runDirectory, socket)];
    const rows = await threads.run<typeof copyDatabase>(COPY, 'copyDatabase', values, {
      deadlineMs: TIMEOUT_MS,
      key: 'control',
      signal,
    });
    if (rows === null)
      log('warn', 'a database of the control plane was not moved: the bucket has a newer one already', {
        database: name,
      });
    else log('info', 'a database of the control plane is in the bucket', { database: name, rows });
  }
  // Durable Objects need no copy: the lines of their live streams are in the database. KV has only files with a short life.
  const names = ['d1', 'sign-in', 'do', 'kv'];
  moveToTrash(trash, 'control', Object.fromEntries(names.map((name) => [name, join(directory, name)])));
}

function localDatabases(directory: string): ControlDatabase[] {
  return DATABASES.filter(({ file }) => existsSync(join(directory, file)));
}
