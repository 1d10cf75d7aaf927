// Polling, where no event is available.
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Polls `holds`.
 * @returns whether `holds` returned true within `timeoutMs`
 * @throws what `holds` throws
 */
export async function until(
  holds: () => boolean | Promise<boolean>,
  { everyMs, timeoutMs }: { everyMs: number; timeoutMs: number },
): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  while (!(await holds())) {
    if (performance.now() > deadline) return false;
    await sleep(everyMs);
  }
  return true;
}
