// Reads the alarms that workerd keeps on disk, in a process of the app's user.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeOwnDirectory, renewOwnDirectory } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { runChild } from '../../processes/child.ts';
import { readerProgram, readerWords } from '../../processes/reader.ts';

/** An alarm. `name`: its object's. `time`: in ms since 1970. */
export interface Alarm {
  name: string;
  time: number | null;
}

const READER = readerProgram(new URL('./alarms-reader.js', import.meta.url));
/** Time limit of a read, in ms. It takes about 50, mostly to start the process. */
const DEADLINE_MS = 5_000;
const MEMORY_BYTES = 1024 * 1024 * 1024;
const OUTPUT_BYTES = 4 * 1024 * 1024;
/** Concurrent readers: a starting host may have to read many apps' alarms. */
const AT_ONCE = 4;

let running = 0;
const waiting: (() => void)[] = [];

/** Which alarms to read, by the paths of the namespaces' `metadata.sqlite`. */
export interface AlarmsAsked {
  /** Namespaces whose earliest alarm is wanted. */
  earliest: string[];
  /** Namespaces whose named alarms are wanted, latest first: 1,000 of each at most. */
  named: string[];
  /** Only named alarms up to this time, in ms since 1970. */
  before: number;
}

/**
 * Returns the earliest alarm of each namespace in `earliest`, null for none, and the alarms of each in `named`, in order.
 * Never used namespaces in `earliest` are left out.
 * @param scratch a directory that may be recreated for it
 * @throws {Error} when one is not a database of alarms, or cannot be read in time
 */
export async function readAlarms(
  asked: AlarmsAsked,
  { user, scratch, signal }: { user: User | null; scratch: string; signal: AbortSignal },
): Promise<{ times: (number | null)[]; alarms: Alarm[][] }> {
  const earliest = (await existing(asked.earliest)).filter((path) => path !== null);
  const named = await existing(asked.named);
  if (earliest.length === 0 && named.every((path) => path === null))
    return { times: [], alarms: named.map(() => []) };
  await myTurn();
  try {
    signal.throwIfAborted();
    renewOwnDirectory(scratch, user);
    const before = Math.min(asked.before, Number.MAX_SAFE_INTEGER);
    const question = JSON.stringify({ earliest, named, before, copy: join(scratch, 'alarms.sqlite') });
    const { output } = await runChild(
      readerWords(READER, { user, memoryBytes: MEMORY_BYTES, argument: question }),
      { title: 'reading the alarms', timeoutMs: DEADLINE_MS, limitBytes: OUTPUT_BYTES, signal },
    );
    return JSON.parse(output.toString('utf8'));
  } catch (error) {
    // A killed reader has left its files. Do not recreate the app's directory: the app may have been deleted.
    removeOwnDirectory(scratch, user);
    throw error;
  } finally {
    running--;
    waiting.shift()?.();
  }
}

async function myTurn(): Promise<void> {
  if (running++ < AT_ONCE) return;
  await new Promise<void>((resolve) => waiting.push(resolve));
}

/** The paths that exist, null for the others. */
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
