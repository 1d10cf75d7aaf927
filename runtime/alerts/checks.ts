// Checks once a minute what alerts watch: error rate, memory, processor time, latency, traffic and queues.
import type { AlertKind } from '../../handlers/contract/telemetry/alert-kinds.ts';
import { logRarely, reason } from '../log.ts';
import type { Alerts } from './alerts.ts';
import { judgeMinutes, judgeQueues, judgeTraffic, type Minutes, reportErrorRate } from './judgements.ts';

const EVERY_MS = 60_000;
/** Maximum remembered memory limits of an app: one for each of the 30 minutes that an alert may judge, and 3 around them. */
const LIMITS = 33;
/** Kinds of alerts that are judged by the metrics of single minutes. */
const OF_MINUTES: readonly AlertKind[] = ['error_rate', 'memory', 'cpu', 'latency'];
const CHECKED: readonly AlertKind[] = [...OF_MINUTES, 'no_traffic', 'queue_backlog'];

export interface ChecksOptions {
  alerts: Alerts;
  /** Returns the metrics of each minute of an app's last hour, oldest first. */
  minutes: (appId: string) => Promise<Minutes>;
  /** Returns the memory that the processes of an app may use together, in MiB. */
  memoryMb: (appId: string) => number;
  /** Returns when an app got its last request, in ms since 1970; null when it never got one, or is stopped. */
  lastRequestAt: (appId: string) => number | null;
  /** Returns the waiting messages of each queue; null when the app has no process, or its data is in the bucket. */
  backlogs: (appId: string) => Promise<{ queue: string; messages: number }[] | null>;
}

export class Checks {
  readonly #options: ChecksOptions;
  readonly #startedAt = performance.now();
  /** By app: at each of the last checks (in ms since 1970), the memory that its processes could use together, in MiB. */
  readonly #limits = new Map<string, { at: number; mb: number }[]>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isLooking = false;

  constructor(options: ChecksOptions) {
    this.#options = options;
  }

  /** Starts the checks once a minute. Call it about once a second. */
  tick(): void {
    const now = performance.now();
    // With many apps and slow telemetry, a check can take longer than the interval.
    if (this.#isLooking || now - this.#lookedAt < EVERY_MS) return;
    this.#lookedAt = now;
    this.#isLooking = true;
    void this.look().finally(() => {
      this.#isLooking = false;
    });
  }

  /** Checks all apps that have an alert of a checked kind. Never rejects. */
  async look(): Promise<void> {
    const { alerts } = this.#options;
    const apps = new Set(CHECKED.flatMap((kind) => alerts.appsWith(kind)));
    for (const appId of this.#limits.keys()) if (!apps.has(appId)) this.#limits.delete(appId);
    for (const appId of apps) {
      try {
        await this.#check(appId);
      } catch (error) {
        logRarely('warn', 'the alerts of an app could not be checked; Cellar tries again at the next check', {
          app: appId,
          error: reason(error),
        });
      }
    }
  }

  async #check(appId: string): Promise<void> {
    const { alerts, minutes, memoryMb, lastRequestAt, backlogs } = this.#options;
    const kinds = new Set(alerts.list(appId).flatMap(({ on }) => on));
    if (kinds.has('no_traffic'))
      judgeTraffic(alerts, appId, lastRequestAt(appId), performance.now() - this.#startedAt);
    if (OF_MINUTES.some((kind) => kinds.has(kind))) {
      const items = await minutes(appId);
      reportErrorRate(alerts, appId, items);
      const limits = [...(this.#limits.get(appId) ?? []), { at: Date.now(), mb: memoryMb(appId) }];
      this.#limits.set(appId, limits.slice(-LIMITS));
      judgeMinutes(alerts, appId, items, (at) => limitAt(Date.parse(at), limits));
    }
    const waiting = kinds.has('queue_backlog') ? await backlogs(appId) : null;
    if (waiting !== null) judgeQueues(alerts, appId, waiting);
  }
}

/**
 * Returns the largest memory limit of the checks in a minute, in the one before and in the one after. The measured memory may
 * be of processes that started or ended between two checks. Without such checks, returns the newest limit.
 */
function limitAt(minute: number, limits: { at: number; mb: number }[]): number {
  const near = limits.filter(({ at }) => at >= minute - EVERY_MS && at < minute + 2 * EVERY_MS);
  return Math.max(...(near.length === 0 ? limits.slice(-1) : near).map(({ mb }) => mb));
}
