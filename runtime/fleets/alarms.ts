// The alarms that workerd keeps on disk, read by a process of the app's user.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { runChild } from '../machine/child.ts';
import { readerProgram, readerWords } from '../machine/reader.ts';
import { dropOwn, renewOwn } from '../machine/rights.ts';
import type { User } from '../machine/users.ts';

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

/**
 * The earliest alarm of each of the namespaces `earliest`, and all of one; null where a namespace has none yet.
 * @param paths of the namespaces' `metadata.sqlite`
 * @param scratch a directory that may be written anew for it
 * @throws {Error} when one of them is no database of alarms, or cannot be read in time
 */
export async function readAlarms(
  paths: { earliest: string[]; named: string | null },
  { user, scratch, signal }: { user: User | null; scratch: string; signal: AbortSignal },
): Promise<{ times: (number | null)[]; alarms: Alarm[] }> {
  const earliest = await existing(paths.earliest);
  const [named = null] = await existing(paths.named === null ? [] : [paths.named]);
  if (earliest.length === 0 && named === null) return { times: [], alarms: [] };
  await myTurn();
  try {
    signal.throwIfAborted();
    renewOwn(scratch, user);
    const question = JSON.stringify({ earliest, named, copy: join(scratch, 'alarms.sqlite') });
    const { output } = await runChild(
      readerWords(READER, { user, memoryBytes: MEMORY_BYTES, argument: question }),
      { title: 'reading the alarms', timeoutMs: DEADLINE_MS, limitBytes: OUTPUT_BYTES, signal },
    );
    return JSON.parse(output.toString('utf8'));
  } catch (error) {
    // What was ended has cleared nothing away. The app may have gone meanwhile: its directory is not made again.
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

async function existing(paths: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    const stat = await lstat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
      throw error;
    });
    if (stat !== null) found.push(path);
  }
  return found;
}
