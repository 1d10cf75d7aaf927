// Tries a release in its own process, on temporary storage.
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Layout } from '../../disk/data-directory.ts';
import { moveToTrash } from '../../disk/trash.ts';
import { removeOwnDirectories } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { log, reason } from '../../log.ts';
import { messageOf } from '../../processes/lines.ts';
import { toSourcePlaces } from '../../telemetry/errors/source-places.ts';
import { TRIAL_FAULT, TRIAL_NOTE } from '../config/trial-entry.ts';
import { ownDirectories } from '../process/cell-directories.ts';
import { lineSink } from '../process/cell-output.ts';
import { type CellOptions, startCell } from '../process/start-cell.ts';

/**
 * Prefix of trials' directories, which lie beside the run directories of apps. After a crash, the host removes them at its
 * next start.
 */
const TRIAL_PREFIX = 'trial-';

/** workerd's warning when the Worker does not export a configured class. All calls of the class would fail. */
const MISSING_CLASS =
  /^A DurableObjectNamespace in the config referenced the class "(.*)", but no such Durable Object class is exported/;
/** workerd's message for a bad cron expression, without the position in workerd's own code that follows it. */
const BAD_CRON = /cron trigger ".*": .*?(?= at cron(-seconds)?\.js:)/;
/** workerd's words for a cron with a field for seconds, where `RUNNER_CRON_SECONDS` is off. */
const HAS_SECONDS = '6 fields, not 5';
const NEEDS_SETTING = '; a field for seconds needs RUNNER_CRON_SECONDS=on';

/**
 * Starts a release on empty storage, and ends its process once it has loaded. The live release may serve meanwhile. No cron
 * calls the tried release, and its queues are empty.
 * @param release its directory, its trial config, and its process's environment
 * @returns lines for its deploy log
 * @throws {Error} when it does not load or has a fault. A load error has workerd's own message, and the project's file and
 *   line
 */
export async function tryRelease(
  {
    workerd,
    user,
    memoryMb,
    directories,
  }: Pick<CellOptions, 'workerd' | 'user' | 'memoryMb'> & { directories: { run: string } },
  {
    directory,
    config,
    environment,
  }: { directory: string; config: string; environment: Record<string, string> },
  signal?: AbortSignal,
): Promise<string[]> {
  const runs = dirname(directories.run);
  mkdirSync(runs, { recursive: true, mode: 0o700 });
  const scratch = await mkdtemp(join(runs, TRIAL_PREFIX));
  const place = { runDirectory: scratch, disks: { do: join(scratch, 'do'), kv: join(scratch, 'kv') } };
  const missing: string[] = [];
  const faults: string[] = [];
  const notes: string[] = [];
  try {
    const cell = await startCell({
      workerd,
      user,
      memoryMb,
      directory,
      config,
      environment,
      ...place,
      sockets: ['http', 'health'],
      ownsStorage: false,
      output: lineSink((line) => {
        const message = messageOf(line);
        const className = MISSING_CLASS.exec(message)?.[1];
        if (className !== undefined) missing.push(className);
        if (message.startsWith(TRIAL_FAULT)) faults.push(message.slice(TRIAL_FAULT.length));
        if (message.startsWith(TRIAL_NOTE)) notes.push(message.slice(TRIAL_NOTE.length));
      }),
      ...(signal ? { signal } : {}),
    });
    cell.kill();
    await cell.exited;
  } catch (error) {
    const message = reason(error);
    const explained = BAD_CRON.exec(message)?.[0] ?? (await toSourcePlaces(directory, message));
    throw new Error(explained.endsWith(HAS_SECONDS) ? explained + NEEDS_SETTING : explained, {
      cause: error,
    });
  } finally {
    await removeScratch(scratch, ownDirectories(place), user);
  }
  if (missing.length > 0) {
    throw new Error(
      `Durable Object class ${missing.join(', ')} is not exported by the Worker's entry module`,
    );
  }
  if (faults.length > 0) throw new Error(faults.join('; '));
  return notes;
}

/** Moves the directories of a killed host's trials to the trash. Their processes must have ended. */
export function trashTrials({ runs, trash }: Pick<Layout, 'runs' | 'trash'>): void {
  const names = existsSync(runs) ? readdirSync(runs) : [];
  for (const name of names.filter((name) => name.startsWith(TRIAL_PREFIX)))
    moveToTrash(trash, name, { scratch: join(runs, name) });
}

/** Removes a trial's directory. Only logs an error, because the trial's result is already known. */
async function removeScratch(scratch: string, own: string[], user: User | null): Promise<void> {
  try {
    await removeOwnDirectories(own, user);
    await rm(scratch, { recursive: true, force: true });
  } catch (error) {
    log('warn', 'files of a trial could not be removed', { path: scratch, error: reason(error) });
  }
}
