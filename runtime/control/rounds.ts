// What the host does again and again while it runs.

import { emptyTrash } from '../disk/trash.ts';
import { log, logRarely, reason } from '../log.ts';
import type { Control } from './control-plane.ts';

/** How often apps are looked at, in ms: quiet apps hibernate, due work gets a process, memory is sampled. */
const TICK_MS = 1_000;
const RECONCILE_EVERY_MS = 60_000;

/** What the rounds need of the rest of the host. */
export interface RoundsOptions {
  control: Control;
  /** Directory of what was deleted. */
  trash: string;
  /** Looks at the apps and the memory. */
  tick: () => void;
  /** Every app, with its last activity and open streams, for the sweep. */
  listApps: () => unknown[];
  /** Time between sweeps, in ms; null when apps are never put to sleep. */
  sweepEveryMs: number | null;
}

/** The host's timers. No round waits for the one before: each has its own deadline. */
export class Rounds {
  readonly #options: RoundsOptions;
  readonly #timers: NodeJS.Timeout[] = [];
  #reconciling: Promise<void> = Promise.resolve();

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** Begins the rounds that need no control plane. */
  startTicking(): void {
    this.#every(TICK_MS, this.#options.tick);
  }

  /** Reconciles, and begins the rounds that need the control plane. */
  async start(): Promise<void> {
    const { trash, sweepEveryMs } = this.#options;
    await this.reconcile();
    this.#every(RECONCILE_EVERY_MS, () => {
      void this.reconcile();
      void this.#call(
        '/internal/domains',
        {},
        'pending hostnames were not looked up; it is tried again in a minute',
      );
      void this.#call('/internal/prune', {}, 'old records stay; it is tried again in a minute');
      emptyTrash(trash).catch((error: unknown) => log('warn', 'trash stays', { error: reason(error) }));
    });
    if (sweepEveryMs !== null) this.#every(sweepEveryMs, () => void this.#sweep());
  }

  /** Has the control plane make both planes agree. Resolves when they do, or when the try has failed. */
  reconcile(): Promise<void> {
    const done = this.#call('/internal/reconcile', {}, 'reconcile failed; it is tried again in a minute');
    this.#reconciling = Promise.all([this.#reconciling, done]).then(() => {});
    return done;
  }

  /** Ends them. Resolves when a reconcile under way has ended. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#reconciling;
  }

  /** A round that fails, on a full disk for example, must not end the host: the next round tries again. */
  #every(ms: number, work: () => void): void {
    const round = () => {
      try {
        work();
      } catch (error) {
        logRarely('error', 'a round of the host failed; the next one tries again', { error: reason(error) });
      }
    };
    this.#timers.push(setInterval(round, ms));
  }

  #sweep(): Promise<void> {
    return this.#call('/internal/sweep', { items: this.#options.listApps() }, 'the sweep failed');
  }

  async #call(path: string, body: unknown, failure: string): Promise<void> {
    try {
      await this.#options.control.call(path, body);
    } catch (error) {
      log('warn', failure, { error: reason(error) });
    }
  }
}
