// Waits for what an app stores.
import { statSync } from 'node:fs';
import { layout } from '../../../runtime/disk/data-directory.ts';
import { liveFiles } from '../live-files.ts';
import { eventually } from '../processes.ts';
import type { Cellar } from './cellar.ts';

/**
 * Waits until an object of an app is written after a time. Its process may be gone again before a busy machine looks.
 * @param after in ms, as `Date.now()`
 */
export function written(cellar: Cellar, id: string, after: number): Promise<void> {
  const data = layout(cellar.data).data(id);
  const isLater = (name: string) => (statSync(name, { throwIfNoEntry: false })?.mtimeMs ?? 0) > after;
  return eventually(
    () => liveFiles(data, '-name', '*.sqlite').some(isLater),
    `an object of ${id} is written`,
  );
}
