// Ends what builds of a killed host left running.
import { readdirSync, readlinkSync } from 'node:fs';
import { log } from '../log.ts';

/**
 * Kills every process whose working directory lies in `builds`. Call it at boot, before that directory is emptied.
 * @param builds the directory of all builds
 */
export function endLeftovers(builds: string): void {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const directory = readlinkSync(`/proc/${name}/cwd`);
      if (directory !== builds && !directory.startsWith(`${builds}/`)) continue;
      process.kill(Number(name), 'SIGKILL');
      log('warn', 'ended a process that a build left behind', { pid: name });
    } catch {
      // It has gone, or belongs to somebody else.
    }
  }
}
