// Reads the alarms that workerd keeps on disk, in a process of the app's user.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeOwnDirectory, renewOwnDirectory } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { runChild } from '../../processes/child.ts';
import { readerProgram, readerWords } from '../../processes/reader.ts';
import { FairQueue } from '../../queues/fair-queue.ts';

/** An alarm of a Durable Object. */
export interface Alarm {
  /** The object's name. */
  name: string;
  /** In ms since 1970; null for a cron not yet scheduled. */
  time: number | null;
}

/** An alarm as workerd stores it. */
export interface StoredAlarm {
  /** The object's id. */
  id: string;
  /** The object's name; null when it has none. */
  name: string | null;
  /** In ms since 1970. */
  time: number;
}

const READER = readerProgram(new URL('./alarms-reader.js', import.meta.url));
/** Time limit of a read, in ms. A read usually takes about 50 ms, mostly to start the process. */
const DEADLINE_MS = 5_000;
const MEMORY_BYTES = 1024 * 1024 * 1024;
const OUTPUT_BYTES = 4 * 1024 * 1024;
/** Output limit when every alarm is read. */
const ALL_OUTPUT_BYTES = 64 * 1024 * 1024;
/**
 * A starting host may have to read many apps' alarms. So one account gets at most three of the four processes that read alarms
 * at once. The queue needs no limit, because each app waits once at most.
 */
const LIMITS = {
  name: 'readings of alarms',
  running: 4,
  runningPerOwner: 3,
  waitingPerOwner: Number.POSITIVE_INFINITY,
};
const queue = new FairQueue(LIMITS);

/** Which alarms to read, by the paths of the namespaces' `metadata.sqlite`. */
export interface AlarmsAsked {
  /** Namespaces whose earliest alarm is wanted. */
  earliest: string[];
  /** Namespaces whose alarms of named objects are wanted, latest first: 1,000 of each namespace at most. */
  named: string[];
  /** Only named alarms up to this time, in ms since 1970. */
  before: number;
}

/** Which alarms to read, by the unique keys of their namespaces. */
export interface AlarmsRequest {
  /** Namespaces whose earliest alarm is wanted. */
  earliest: string[];
  /** Namespaces whose alarms of named objects are wanted, latest first: 1,000 of each namespace at most. */
  named: string[];
  /** Only named alarms up to this time, in ms since 1970. */
  before: number;
}

/** Reads alarms from the disk or from the bucket. Returns the same as `readAlarms`. */
export type AlarmsReader = (request: AlarmsRequest, signal: AbortSignal) => ReturnType<typeof readAlarms>;

/**
 * Returns a reader of alarms on this disk.
 * @param data the app's data directory
 */
export function alarmsOnDisk(
  data: string,
  { owner, user, scratch = join(data, 'alarms') }: DiskOwner,
): AlarmsReader {
  const metadata = (key: string) => join(data, 'do', key, 'metadata.sqlite');
  return ({ earliest, named, before }, signal) =>
    readAlarms(
      { earliest: earliest.map(metadata), named: named.map(metadata), before },
      { owner: owner(), user, scratch, signal },
    );
}

/** Whose files `alarmsOnDisk` reads. */
interface DiskOwner {
  /** Returns the app's account. */
  owner: () => string;
  /** The user who reads the files. */
  user: User | null;
  /** This reader's own directory, for copies. Default: in the data directory. */
  scratch?: string;
}

/** Whose alarms are read. */
export interface AlarmsOwner {
  /** The account. Accounts take turns. */
  owner: string;
  /** The owner of the files; `null`: the host's own user. */
  user: User | null;
  /** A directory that may be recreated for each reading. */
  scratch: string;
  /** Ends the reading, or its wait. */
  signal: AbortSignal;
}

/**
 * Reads the alarms of namespaces.
 * @returns `times`: the earliest alarm of each namespace in `earliest`, or null; namespaces that were never used are left out.
 * `alarms`: the alarms of named objects up to `before`, for each namespace in the order of `named`
 * @throws {Error} when a file is not a database of alarms, or cannot be read in time
 * @throws the signal's reason once it is aborted
 */
export async function readAlarms(
  asked: AlarmsAsked,
  of: AlarmsOwner,
): Promise<{ times: (number | null)[]; alarms: Alarm[][] }> {
  const earliest = (await existing(asked.earliest)).filter((path) => path !== null);
  const named = await existing(asked.named);
  if (earliest.length === 0 && named.every((path) => path === null))
    return { times: [], alarms: named.map(() => []) };
  const before = Math.min(asked.before, Number.MAX_SAFE_INTEGER);
  const copy = join(of.scratch, 'alarms.sqlite');
  const question = JSON.stringify({ earliest, named, before, copy });
  const { owner, signal } = of;
  return JSON.parse(await queue.run({ owner, signal }, () => ask(question, of)));
}

/** Reads every alarm of namespaces, in the order of `paths`. @throws as `readAlarms` does */
export async function readEveryAlarm(paths: string[], of: AlarmsOwner): Promise<StoredAlarm[][]> {
  const copy = join(of.scratch, 'alarms.sqlite');
  const question = JSON.stringify({ earliest: [], named: [], every: paths, before: 0, copy });
  const { owner, signal } = of;
  const answer = JSON.parse(await queue.run({ owner, signal }, () => ask(question, of, ALL_OUTPUT_BYTES)));
  return (answer as { every: StoredAlarm[][] }).every;
}

/** Runs a reader. @returns its answer as JSON */
async function ask(
  question: string,
  { user, scratch, signal }: AlarmsOwner,
  limitBytes = OUTPUT_BYTES,
): Promise<string> {
  signal.throwIfAborted();
  try {
    renewOwnDirectory(scratch, user);
    const { output } = await runChild(
      readerWords(READER, { user, memoryBytes: MEMORY_BYTES, argument: question }),
      { title: 'reading the alarms', timeoutMs: DEADLINE_MS, limitBytes, signal },
    );
    return output.toString('utf8');
  } catch (error) {
    // A killed reader has left its files. Do not recreate the app's directory: the app may have been deleted.
    removeOwnDirectory(scratch, user);
    throw error;
  }
}

/** Returns the paths, with null in place of each missing one. */
function existing(paths: string[]): Promise<(string | null)[]> {
  return Promise.all(
    paths.map((path) =>
      lstat(path).then(
        () => path,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
          throw error;
        },
      ),
    ),
  );
}
