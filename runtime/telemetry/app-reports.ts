// Sends apps' reports (calls of the binding to `cellar`) to the control plane, in order for each app. Apps do not wait.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppReport, AppReportsAnswer } from '../../handlers/contract/host/host-calls.ts';
import { type Level, logRarely, reason } from '../log.ts';

/** Maximum waiting reports of one app. */
const WAITING_MOST = 1_000;
/** Maximum characters of all waiting reports. */
const WAITING_LENGTH = 32 * 2 ** 20;
/** Maximum reports in one delivery. */
const BATCH = 100;
/** Maximum reports of one app in a delivery. Reports are stored one by one, so those of other apps wait meanwhile. */
const BATCH_OF_APP = 10;
const RETRY_MS = 1_000;

export interface AppReportsOptions {
  /** Delivers reports. @throws {Error} when the control plane does not answer */
  send: (reports: AppReport[]) => Promise<AppReportsAnswer>;
  /** Writes a line into an app's log. */
  say: (appId: string, level: Level, text: string) => void;
  /** Whether an app is a preview. The control plane does not know previews, so their reports are only logged. */
  isPreview: (appId: string) => boolean;
}

export class AppReports {
  readonly #options: AppReportsOptions;
  readonly #waiting = new Map<string, AppReport[]>();
  /** Characters of all waiting reports. */
  #length = 0;
  readonly #closing = new AbortController();
  #delivered: Promise<void> | null = null;

  constructor(options: AppReportsOptions) {
    this.#options = options;
  }

  /** Queues reports. Never throws. @param dropped number of reports over the rate limit, by app */
  take(reports: AppReport[], dropped: [appId: string, count: number][]): void {
    const over = new Map(dropped);
    for (const report of reports) {
      const { app_id, kind, input } = report;
      if (this.#options.isPreview(app_id)) {
        this.#options.say(app_id, 'info', `${kind}: ${input} (not stored, because this is a preview)`);
        continue;
      }
      const waiting = this.#waiting.get(app_id) ?? [];
      if (waiting.length >= WAITING_MOST || this.#length + input.length > WAITING_LENGTH) {
        over.set(app_id, (over.get(app_id) ?? 0) + 1);
        continue;
      }
      waiting.push(report);
      this.#waiting.set(app_id, waiting);
      this.#length += input.length;
    }
    for (const [appId, count] of over)
      this.#options.say(
        appId,
        'warn',
        `${count} calls of the service cellar were dropped, because the app makes too many`,
      );
    this.#delivered ??= this.#deliver().finally(() => {
      this.#delivered = null;
    });
  }

  /** Ends deliveries, after the running one. Waiting reports are lost. */
  async stop(): Promise<void> {
    this.#closing.abort();
    await this.#delivered;
  }

  async #deliver(): Promise<void> {
    while (this.#waiting.size > 0 && !this.#closing.signal.aborted) {
      const batch = this.#next();
      try {
        const { refused } = await this.#options.send(batch);
        for (const { app_id, text } of refused) this.#options.say(app_id, 'warn', text);
        this.#remove(batch);
      } catch (error) {
        logRarely('warn', 'events of apps could not be sent to the control plane; Cellar tries again', {
          error: reason(error),
        });
        await sleep(RETRY_MS, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** Returns the next delivery: the oldest reports of each app, within the limits. */
  #next(): AppReport[] {
    return [...this.#waiting.values()].flatMap((reports) => reports.slice(0, BATCH_OF_APP)).slice(0, BATCH);
  }

  #remove(batch: AppReport[]): void {
    for (const { app_id, input } of batch) {
      this.#length -= input.length;
      const waiting = this.#waiting.get(app_id)!;
      waiting.shift();
      // Moves the app to the end, so that other apps come first next time.
      this.#waiting.delete(app_id);
      if (waiting.length > 0) this.#waiting.set(app_id, waiting);
    }
  }
}
