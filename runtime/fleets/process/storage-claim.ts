// Records which process uses an app's storage. If two processes use it at once, writes are lost. So after a host was killed,
// its next start must find and end the old processes.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { until } from '../../threads/until.ts';

/** Name of the file with the record, in an app's run directory. */
export const OWNER_FILE = 'cell.pid';
/** How often to check whether a killed process has ended, and the time limit, in ms. */
const GONE = { everyMs: 10, timeoutMs: 5_000 };

/**
 * Records in `file` that process `pid` uses the storage. The write is atomic. Does nothing for an ended process, or without
 * `/proc`.
 */
export function recordOwner(file: string, pid: number): void {
  const owner = identify(pid);
  if (owner === null) return;
  writeFileSync(`${file}.new`, `${owner}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/**
 * Ends the process recorded in `file` and its process group, if the process id, start time and boot id still match.
 * @throws {Error} when the process does not end
 */
export async function evictOwner(file: string): Promise<void> {
  const owner = readOwner(file);
  if (owner === null) return;
  const pid = Number.parseInt(owner, 10);
  if (Number.isInteger(pid) && identify(pid) === owner) {
    process.kill(-pid, 'SIGKILL');
    if (!(await until(() => identify(pid) !== owner, GONE)))
      throw new Error(`process ${pid} still uses the app's storage; end this process first`);
  }
  rmSync(file, { force: true });
}

function readOwner(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Returns `pid start-time boot-id` of a live process; `null` if it has ended, or if there is no `/proc`. */
function identify(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may contain anything. After it, field 0 is the state, and field 19 is the start time.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z') return null;
    return `${pid} ${fields[19]} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch {
    return null;
  }
}
