// A data directory that was copied or moved. The original may run beside it: the users and the pids that a copy knows are the
// original's, and what they run must not be ended.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { log } from '../../log.ts';
import { OWNER_FILE } from './storage-claim.ts';

/**
 * Lets go of all processes and users when the directory lies elsewhere than when it was last used: every app gets new users,
 * and its files with them when it starts. Call it before anything is ended.
 */
export function letGoWhenCopied({ place, runs }: Layout, users: HostStore['buildUsers']): void {
  const before = users.place();
  if (before !== null && before !== place) {
    log('warn', 'the data directory was copied or moved: apps get new users, and no old process is ended');
    const apps = existsSync(runs) ? readdirSync(runs) : [];
    for (const app of apps) rmSync(join(runs, app, OWNER_FILE), { force: true });
  }
  users.takePlace(place);
}
