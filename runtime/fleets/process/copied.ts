// Detects a copied or moved data directory. The original may run on the same machine: the users and pids recorded in a copy
// belong to the original, whose processes must not be ended.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { log } from '../../log.ts';
import { OWNER_FILE } from './storage-claim.ts';

/**
 * If the directory has moved, forgets all processes and users. Every app gets a new user, and its files a new owner at its
 * start. Call it before ending any process.
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
