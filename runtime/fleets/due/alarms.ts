// The alarms that workerd keeps on disk, read by a process of the app's user.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { dropOwn, renewOwn } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { runChild } from '../../processes/child.ts';
import { readerProgram, readerWords } from '../../processes/reader.ts';

/** An alarm. `name`: its object's. `time`: in ms since 1970. */
export interface Alarm {
  name: string;
  time: number | null;
}

const READER = readerProgram(new URL('./alarms-reader.js', import.meta.url));
/** Longest reading, in ms. It takes about 50, most of it for the start of the process. */
const DEADLINE_MS = 5_000;
const MEMORY_BYTES = 1024 * 1024 * 1024;
const OUTPUT_BYTES = 4 * 1024 * 1024;
/** Readers at a time: a host that starts may have to ask for many apps. */
const AT_ONCE = 4;

let running = 0;
const waiting: (() => void)[] = [];

/** Which alarms to read, by the paths of their namespaces' `metadata.sqlite`. */
export interface AlarmsAsked {
  /** Namespaces whose earliest alarm is enough. */
  earliest: string[];
  /** Namespaces whose alarms are wanted by name, the latest first: 1,000 of each at most. */
  named: string[];
  /** Of those: the ones no later than this, in ms since 1970. */
  before: number;
}

/**
 * The earliest alarm of each of the namespaces `earliest`, null where one has none, and the alarms of each of `named`, in
 * their order. Namespaces of `earliest` that were never used are left out.
 * @param scratch a directory that may be written anew for it
 * @throws {Error} when one of them is no database of alarms, or cannot be read in time
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
    renewOwn(scratch, user);
    const before = Math.min(asked.before, Number.MAX_SAFE_INTEGER);
    const question = JSON.stringify({ earliest, named, before, copy: join(scratch, 'alarms.sqlite') });
    const { output } = await runChild(
      readerWords(READER, { user, memoryBytes: MEMORY_BYTES, argument: question }),
      { title: 'reading the alarms', timeoutMs: DEADLINE_MS, limitBytes: OUTPUT_BYTES, signal },
    );
    return JSON.parse(output.toString('utf8'));
  } catch (error) {
    // A reader that was ended has left its files. The app may have been deleted meanwhile: its directory is not made again.
    dropOwn(scratch, user);
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

/** Those of the paths where something is, in their places. */
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
