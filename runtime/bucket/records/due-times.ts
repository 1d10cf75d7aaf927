// Reads when the apps of a lost machine have their next work. Runs after the start, because it needs a request for each app.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppRecordQueries } from '../../../sqlite/host/app-records.ts';
import { log, reason } from '../../log.ts';
import { each } from '../app-folder.ts';

/** Pause before failed readings are repeated, in ms. */
const RETRY_MS = 10_000;

export interface LearningApp {
  /** Reads the time of the app's next work from the bucket. @throws {Error} when the bucket does not answer */
  learn: () => Promise<void>;
}

/**
 * Resolves when the due times of all apps are read, or `signal` is aborted. Never rejects. Does nothing on a machine that
 * has not continued the Cellar of a lost machine.
 */
export async function learnDueTimes(
  queries: Pick<AppRecordQueries, 'areAlarmsUnread' | 'alarmsAreRead'>,
  apps: readonly LearningApp[],
  signal: AbortSignal,
): Promise<void> {
  if (!queries.areAlarmsUnread()) return;
  for (let left = apps; !signal.aborted; ) {
    const failed: LearningApp[] = [];
    let why: unknown = null;
    await each(left, async (app) => {
      if (signal.aborted) return;
      await app.learn().catch((error: unknown) => {
        failed.push(app);
        why = error;
      });
    });
    if (signal.aborted) return;
    if (failed.length === 0) return queries.alarmsAreRead();
    left = failed;
    log('warn', 'the alarms of some apps could not be read from the bucket; Cellar tries again', {
      apps: failed.length,
      error: reason(why),
    });
    await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
  }
}
