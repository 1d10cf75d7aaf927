// What deleted apps leave: kept for a week, in case a deletion was a mistake.
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { log, reason } from '../log.ts';

const KEPT_MS = 7 * 24 * 60 * 60_000;

/**
 * Moves what belonged to an app into the trash. What is not there is left out.
 * @param belongings paths by the names they get in the trash
 */
export function throwAway(trash: string, appId: string, belongings: Record<string, string>): void {
  const place = join(trash, `${appId}-${Date.now()}`);
  mkdirSync(place, { recursive: true, mode: 0o700 });
  for (const [name, path] of Object.entries(belongings)) {
    try {
      renameSync(path, join(place, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
}

/** Removes what was thrown away more than seven days before `now`. What cannot be removed is logged. */
export async function emptyTrash(trash: string, now = Date.now()): Promise<void> {
  mkdirSync(trash, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(trash)) {
    const thrownAt = Number(name.split('-').at(-1));
    if (now - thrownAt <= KEPT_MS) continue;
    await rm(join(trash, name), { recursive: true, force: true }).catch((error: unknown) =>
      log('warn', 'trash stays', { name, error: reason(error) }),
    );
  }
}
