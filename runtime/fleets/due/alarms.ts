// Reads the alarms that workerd stores on this disk. A process of the app's user reads them.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeOwnDirectory, renewOwnDirectory } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { runChild } from '../../processes/child.ts';
import { readerProgram, readerWords } from '../../processes/reader.ts';
import { FairQueue } from '../../queues/fair-queue.ts';

/** An alarm of a Durable Object, such as a cron's schedule. */
export interface Alarm {
  name: string;
  /** In ms since 1970; null for a cron not yet scheduled. */
  time: number | null;
}

/** An alarm as workerd stores it. */
export interface StoredAlarm {
  id: string;
  /** The object's name; null when it has none. */
  name: string | null;
  /** In ms since 1970. */
  time: number;
}

const READER = readerProgram(new URL('./alarms-reader.js', import.meta.url));
/** Time limit of a reading process, in ms. It usually takes about 50 ms, mostly for its start. */
const DEADLINE_MS = 5_000;
const MEMORY_BYTES = 1024 * 1024 * 1024;
const OUTPUT_BYTES = 4 * 1024 * 1024;
/** Maximum size of the output when every alarm is read, in bytes. */
const ALL_OUTPUT_BYTES = 64 * 1024 * 1024;
/**
 * A starting host may have to read the alarms of many apps. So one account may use at most three of the four processes that
 * read alarms at once. The queue needs no limit, because each app has few readings at once.
 */
const LIMITS = {
  name: 'readings of alarms',
  running: 4,
  runningPerOwner: 3,
  waitingPerOwner: Number.POSITIVE_INFINITY,
};
const queue = new FairQueue(LIMITS);

/** Which alarms to read. Each namespace is given by the path of its `metadata.sqlite`. */
export interface AlarmsAsked {
  /** Namespaces whose earliest alarm is wanted. */
  earliest: string[];
  /** Namespaces whose alarms of named objects are wanted, latest first: 1,000 of each namespace at most. */
  named: string[];
  /** Only named alarms up to this time, in ms since 1970. */
  before: number;
}

/** Which alarms to read. Each namespace is given by its unique key. */
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
 * Returns a reader of an app's alarms on this disk.
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

/** The owner of the files that `alarmsOnDisk` reads. */
interface DiskOwner {
  /** Returns the account that owns the app. */
  owner: () => string;
  /** The user that owns and reads the files; `null`: the host's own. */
  user: User | null;
  /** A directory for this reader's copies only. Default: `alarms` in the data directory. */
  scratch?: string;
}

/** The owner of the alarms that are read. */
export interface AlarmsOwner {
  /** The account that owns the app. Accounts take turns in the queue. */
  owner: string;
  /** The user that owns and reads the files; `null`: the host's own. */
  user: User | null;
  /** A directory for copies. Each reading empties it. */
  scratch: string;
  /** Cancels the reading, or its wait in the queue. */
  signal: AbortSignal;
}

/**
 * Reads the alarms of namespaces.
 * @returns `times`: for each namespace in `earliest`, the time of its earliest alarm, or null without one; namespaces
 *   without a file are left out. `alarms`: for each namespace in `named`, its alarms of named objects up to `before`
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

/** Reads all alarms of each namespace in `paths`, which must exist. @throws as `readAlarms` does */
export async function readEveryAlarm(paths: string[], of: AlarmsOwner): Promise<StoredAlarm[][]> {
  const copy = join(of.scratch, 'alarms.sqlite');
  const question = JSON.stringify({ earliest: [], named: [], every: paths, before: 0, copy });
  const { owner, signal } = of;
  const answer = JSON.parse(await queue.run({ owner, signal }, () => ask(question, of, ALL_OUTPUT_BYTES)));
  return (answer as { every: StoredAlarm[][] }).every;
}

/** Runs a process that reads alarms. @returns its answer as JSON */
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
    // A killed process leaves its copies. The directory is not created again, because the app may have been deleted.
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
