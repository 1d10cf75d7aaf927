// The host's periodic jobs.

import { emptyTrash } from '../disk/trash.ts';
import { log, logRarely, reason } from '../log.ts';
import type { Control } from './control-plane.ts';

/** Interval of the checks of apps, in ms: idle apps hibernate, due work gets a process, memory is sampled. */
const TICK_MS = 1_000;
const RECONCILE_EVERY_MS = 60_000;
const TRIM_CODE_EVERY_MS = 10 * 60_000;
const ABANDONED_EVERY_MS = 3_600_000;

export interface PeriodicJobsOptions {
  control: Control;
  /** Directory of deleted files. */
  trash: string;
  /** Forgets the deleted apps that cannot be undeleted any more. */
  forgetDeleted: () => void;
  /** Removes from the bucket the folders of apps that were deleted or have moved to a disk. Must not reject. */
  removeFolders: () => Promise<void>;
  /** Whether this host does the jobs that one of several hosts does for all. */
  leads: () => boolean;
  /** Removes what lost hosts have left in the bucket. Must not reject. Null in a Cellar of one host. */
  removeAbandoned: (() => Promise<void>) | null;
  /** Stores releases that the bucket does not have. */
  storeReleases: () => Promise<void>;
  /** Removes this disk's copies of code in the bucket until they are within their limit. Must not reject. */
  trimCode: () => Promise<void>;
  /** Installs the packet filter's rules again if another program has removed them. Must not reject. */
  refreshIsolation: () => Promise<void>;
  /** Does the checks of every second, such as those of apps and of memory. */
  tick: () => void;
  /** Puts unused apps to sleep. */
  sweep: () => Promise<void>;
  /** Interval of sweeps, in ms; null when apps are never put to sleep. */
  sweepEveryMs: number | null;
}

/** Runs the host's periodic jobs. A run does not wait for the previous one to end: each job has timeouts of its own. */
export class PeriodicJobs {
  readonly #options: PeriodicJobsOptions;
  readonly #timers: NodeJS.Timeout[] = [];
  #reconciling: Promise<void> = Promise.resolve();

  constructor(options: PeriodicJobsOptions) {
    this.#options = options;
  }

  /** Starts the checks of apps and the sweeps, which need no control plane. */
  startTicking(): void {
    const { tick, sweep, sweepEveryMs } = this.#options;
    this.#every(TICK_MS, tick);
    if (sweepEveryMs === null) return;
    this.#every(sweepEveryMs, () => {
      sweep().catch((error: unknown) =>
        log('warn', 'unused apps could not be put to sleep', { error: reason(error) }),
      );
    });
  }

  /** Reconciles, then starts all other jobs. */
  async start(): Promise<void> {
    const { trash, forgetDeleted, removeFolders, removeAbandoned, leads, trimCode, refreshIsolation } =
      this.#options;
    await this.reconcile();
    this.#every(TRIM_CODE_EVERY_MS, () => void trimCode());
    this.#every(RECONCILE_EVERY_MS, () => {
      void this.reconcile();
      if (leads()) void this.#tidyControlPlane();
      forgetDeleted();
      void removeFolders();
      void this.storeReleases();
      void refreshIsolation();
      emptyTrash(trash).catch((error: unknown) =>
        log('warn', 'the trash could not be emptied; Cellar tries again', { error: reason(error) }),
      );
    });
    if (removeAbandoned === null) return;
    this.#every(ABANDONED_EVERY_MS, () => {
      if (leads()) void removeAbandoned();
    });
  }

  async #tidyControlPlane(): Promise<void> {
    const again = 'Cellar tries again in a minute';
    await Promise.all([
      this.#call('/internal/domains', {}, `pending hostnames were not looked up; ${again}`),
      this.#call('/internal/prune', {}, `old records could not be removed; ${again}`),
    ]);
  }

  /** Makes the control plane reconcile its state with the host's. Resolves when that has succeeded or failed. */
  reconcile(): Promise<void> {
    const done = this.#call(
      '/internal/reconcile',
      {},
      'the state of apps could not be reconciled with the control plane; Cellar tries again in a minute',
    );
    this.#reconciling = Promise.all([this.#reconciling, done]).then(() => {});
    return done;
  }

  /** Stores releases that the bucket does not have. Never rejects: the next round tries again. */
  async storeReleases(): Promise<void> {
    try {
      await this.#options.storeReleases();
    } catch (error) {
      log('warn', 'releases could not be stored in the bucket; Cellar tries again in a minute', {
        error: reason(error),
      });
    }
  }

  /** Stops the timers. Resolves when a running reconcile has ended. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#reconciling;
  }

  /** Calls `work` periodically. An exception, for example on a full disk, must not end the host: the next run retries. */
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

  async #call(path: string, body: unknown, failure: string): Promise<void> {
    try {
      await this.#options.control.call(path, body);
    } catch (error) {
      log('warn', failure, { error: reason(error) });
    }
  }
}
