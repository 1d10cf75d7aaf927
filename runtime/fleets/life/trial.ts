// A release tried in a process of its own, on storage that is thrown away.
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Layout } from '../../disk/data-directory.ts';
import { throwAway } from '../../disk/trash.ts';
import { removeOwn } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { log, reason } from '../../log.ts';
import { messageOf } from '../../processes/lines.ts';
import { toSourcePlaces } from '../../telemetry/errors/source-places.ts';
import { TRIAL_FAULT, TRIAL_NOTE } from '../config/trial-entry.ts';
import { ownDirectories } from '../process/cell-directories.ts';
import { lineSink } from '../process/cell-output.ts';
import { type CellOptions, startCell } from '../process/start-cell.ts';

/** Names of the directories of trials, beside those of apps' sockets. What a killed host left of them goes at boot. */
const TRIAL_PREFIX = 'trial-';

/** workerd only warns of a class that the config names and the Worker does not export: its calls would all fail. */
const MISSING_CLASS =
  /^A DurableObjectNamespace in the config referenced the class "(.*)", but no such Durable Object class is exported/;
/** workerd's words when it refuses a cron expression, with a place in its own code. */
const BAD_CRON = /cron trigger ".*": .*?(?= at cron\.js:)/;

/**
 * Starts a release on empty storage and ends it as soon as it has loaded. Runs beside the release that serves. No cron
 * calls it, and no queue has a message.
 * @param release its directory, the config to try it with, and the environment of its process
 * @returns what the log of its deploy should say of it
 * @throws {Error} with workerd's own message, file and line of the project in it, when it does not load
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
    const told = BAD_CRON.exec(message)?.[0] ?? (await toSourcePlaces(directory, message));
    throw new Error(told, { cause: error });
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

/** Throws away what trials of a host that was killed left. None of their processes runs any more. */
export function throwTrialsAway({ runs, trash }: Pick<Layout, 'runs' | 'trash'>): void {
  const names = existsSync(runs) ? readdirSync(runs) : [];
  for (const name of names.filter((name) => name.startsWith(TRIAL_PREFIX)))
    throwAway(trash, name, { scratch: join(runs, name) });
}

/** Never rejects: by now it is known whether the release loads. */
async function removeScratch(scratch: string, own: string[], user: User | null): Promise<void> {
  try {
    await removeOwn(own, user);
    await rm(scratch, { recursive: true, force: true });
  } catch (error) {
    log('warn', 'what a trial left could not be removed', { path: scratch, error: reason(error) });
  }
}
