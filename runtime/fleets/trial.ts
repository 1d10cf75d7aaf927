// A release tried in a process of its own, on storage that is thrown away.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reason } from '../log.ts';
import { startCell } from './cell.ts';
import { messageOf } from './lines.ts';
import { toSourcePlaces } from './source-places.ts';

/** workerd only warns of a class that the config names and the Worker does not export: its calls would all fail. */
const MISSING_CLASS =
  /^A DurableObjectNamespace in the config referenced the class "(.*)", but no such Durable Object class is exported/;

/**
 * Starts a release on empty storage and ends it as soon as it has loaded. Runs beside the release that serves.
 * @param directory the release's
 * @throws {Error} with workerd's own message, file and line of the project in it, when it does not load
 */
export async function tryRelease(workerd: string, directory: string, signal?: AbortSignal): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'cellar-trial-'));
  const missing: string[] = [];
  try {
    const cell = await startCell({
      workerd,
      directory,
      disks: { do: join(scratch, 'do'), kv: join(scratch, 'kv') },
      runDirectory: scratch,
      sockets: ['http', 'health'],
      ownsStorage: false,
      onLine: (line) => {
        const className = MISSING_CLASS.exec(messageOf(line))?.[1];
        if (className !== undefined) missing.push(className);
      },
      ...(signal ? { signal } : {}),
    });
    cell.kill();
    await cell.exited;
  } catch (error) {
    throw new Error(toSourcePlaces(directory, reason(error)), { cause: error });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  if (missing.length > 0) {
    throw new Error(
      `Durable Object class ${missing.join(', ')} is not exported by the Worker's entry module`,
    );
  }
}
