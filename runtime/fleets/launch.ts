// A release brought up on an app's storage: databases migrated, process started.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import type { User } from '../machine/users.ts';
import { type Cell, startCell } from './cell.ts';
import { migrate } from './migrate.ts';

/** A release on disk. */
export interface ReleaseRef {
  deployId: string;
  directory: string;
}

/** Where an app's process runs, and on what. */
export interface Place {
  /** Path of the workerd program. */
  workerd: string;
  /** Who runs it; `null`: the host's own user. */
  user: User | null;
  /** Memory that a process may use (`RUNNER_CELL_MAX_MB`), in MiB. */
  memoryMb: number;
  /** `run`: sockets and the pid file. `data`: the app's storage. */
  directories: { run: string; data: string };
  /** Gets each line of the process. */
  onLine: (line: string) => void;
}

/**
 * Brings the databases up to the release and starts its process. Nothing else may have the storage.
 * @param log gets what the migrations say
 * @param startTimeoutMs longest wait for the process to listen
 */
export async function launch(
  place: Place,
  release: ReleaseRef,
  log: (line: string) => void,
  signal: AbortSignal,
  startTimeoutMs?: number,
): Promise<Cell> {
  const { workerd, user, memoryMb, directories, onLine } = place;
  await migrateRelease(place, release, log, signal);
  return startCell({
    workerd,
    user,
    memoryMb,
    directory: release.directory,
    disks: { do: join(directories.data, 'do'), kv: join(directories.data, 'kv') },
    runDirectory: directories.run,
    sockets: ['http', 'health'],
    ownsStorage: true,
    onLine,
    signal,
    startTimeoutMs,
  });
}

/** Brings the databases up to the release. */
export async function migrateRelease(
  { workerd, user, memoryMb, directories }: Place,
  { directory }: ReleaseRef,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const release = JSON.parse(await readFile(join(directory, 'release.json'), 'utf8')) as Release;
  await migrate({
    workerd,
    user,
    memoryMb,
    release,
    directory,
    dataDirectory: directories.data,
    runDirectory: directories.run,
    log,
    signal,
  });
}
