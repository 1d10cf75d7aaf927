// Waits until an app has written to its storage.
import { statSync } from 'node:fs';
import { layout } from '../../../runtime/disk/data-directory.ts';
import { liveFiles } from '../live-files.ts';
import { eventually } from '../processes.ts';
import type { Cellar } from './cellar.ts';

/**
 * Waits until a Durable Object of an app has been written. Checks files instead of processes: on a busy machine, a process
 * may start and end between two checks.
 * @param after ignores writes before this time, in ms since 1970
 */
export function written(cellar: Cellar, id: string, after: number): Promise<void> {
  const data = layout(cellar.data).data(id);
  const isLater = (name: string) => (statSync(name, { throwIfNoEntry: false })?.mtimeMs ?? 0) > after;
  return eventually(
    () => liveFiles(data, '-name', '*.sqlite').some(isLater),
    `an object of ${id} is written`,
  );
}
