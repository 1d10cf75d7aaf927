// Detects a copied or moved data directory. The original may be in use on the same machine. The users and process ids in a
// copy are those of the original, whose processes must not be ended.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { log } from '../../log.ts';
import { OWNER_FILE } from './storage-claim.ts';

/**
 * If the data directory was copied or moved, forgets all recorded processes and users. Every app then gets a new user. At
 * the app's start, its files get this user as the owner. Call it before any process is ended.
 */
export function forgetProcessesOfCopy({ place, runs }: Layout, users: HostStore['buildUsers']): void {
  const before = users.place();
  if (before !== null && before !== place) {
    log('warn', 'the data directory was copied or moved: apps get new users, and no old process is ended');
    const apps = existsSync(runs) ? readdirSync(runs) : [];
    for (const app of apps) rmSync(join(runs, app, OWNER_FILE), { force: true });
  }
  users.recordPlace(place);
}
