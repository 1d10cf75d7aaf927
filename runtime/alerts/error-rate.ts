// Checks once a minute whether too many requests of an app fail.
import type { Result } from '../../handlers/contract/index.ts';
import { logRarely, reason } from '../log.ts';
import type { Alerts } from './alerts.ts';

const EVERY_MS = 60_000;
/** Length of the window, in minutes. It includes the current, incomplete minute. */
const MINUTES = 5;
/** Minimum requests for a result. */
const ENOUGH = 20;

type Minutes = Result<'metrics.get'>['items'];

export interface ErrorRatesOptions {
  alerts: Alerts;
  /** The minutes of an app's last hour, oldest first. */
  minutes: (appId: string) => Promise<Minutes>;
}

export class ErrorRates {
  readonly #options: ErrorRatesOptions;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isLooking = false;

  constructor(options: ErrorRatesOptions) {
    this.#options = options;
  }

  /** Call it about once a second. */
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

  /** Reports the apps with too many failed requests. Never rejects. */
  async look(): Promise<void> {
    const { alerts, minutes } = this.#options;
    for (const appId of alerts.appsWith('error_rate')) {
      try {
        reportRate(alerts, appId, (await minutes(appId)).slice(-MINUTES));
      } catch (error) {
        logRarely('warn', 'the error rate of an app could not be read', { app: appId, error: reason(error) });
      }
    }
  }
}

function reportRate(alerts: Alerts, appId: string, minutes: Minutes): void {
  const requests = minutes.reduce((sum, minute) => sum + minute.requests, 0);
  const errors = minutes.reduce((sum, minute) => sum + minute.errors, 0);
  if (requests < ENOUGH) return;
  const percent = (100 * errors) / requests;
  alerts.report(
    appId,
    {
      kind: 'error_rate',
      type: 'error_rate.high',
      topic: 'error rate',
      message: `${errors} of ${requests} requests of the last ${MINUTES} minutes failed (${percent.toFixed(0)} %).`,
      details: { requests, errors },
    },
    ({ error_rate }) => percent > error_rate,
  );
}
