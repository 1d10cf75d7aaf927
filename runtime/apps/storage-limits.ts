// Stops apps to protect the disk. Stops each app that stores more than `RUNNER_APP_MAX_MB`. When the disk is almost full, stops
// the app that writes most.
import type { HeldCause, HeldQueries, HeldRow } from '../../sqlite/host/held.ts';
import { log, logRarely, reason } from '../log.ts';
import { type Storage, StorageUse } from './storage-use.ts';

const BYTES_IN_MB = 2 ** 20;
/** Time window in which the growth of apps is compared, in ms. */
const WINDOW_MS = 30_000;
/** Normal measuring interval for an app with a process, in ms. */
const CALM_MS = 60_000;
/** Measuring interval when free space is low or shrinks fast, and shortest pause after a measurement, in ms. */
const FAST_MS = 1_000;
/** The pause after a measurement is at least this many times its duration. */
const PAUSE_FACTOR = 10;
/** Maximum growth, in MiB, allowed to an app over its limit after a restart, so that it can delete data. */
const GRACE_MB = 64;
/** The same maximum as a share of the app's limit. The smaller one counts. */
const GRACE_SHARE = 0.1;
/** An app that was stopped for its limit may start again when its storage is at most this share of the limit. */
const ENOUGH = 0.95;
/** Share of `RUNNER_DISK_FLOOR_MB`: with less free space, the app that writes most is stopped. */
const CRITICAL = 0.5;
/** On an almost full disk, only an app that grew by more than this within `WINDOW_MS` is stopped, in MiB. */
const LEAST_GROWTH_MB = 64;
/** The same growth as a share of `RUNNER_DISK_FLOOR_MB`. The smaller one counts. */
const LEAST_GROWTH_SHARE = 1 / 16;
/** Pause before another app is stopped for a full disk, in ms, so that the first stop can take effect. */
const NEXT_STOP_MS = 1_000;

export interface LimitedApp extends Storage {
  slug: string;
  /** Ids of the apps whose storage counts with its own: for a preview, its parent and the other previews. */
  countedWith: string[];
  isHeld: boolean;
  /** Ends the app's process. The app runs again after a start, a deploy or `letGo`. `atOnce`: aborts requests in flight. */
  hold: (why: string, atOnce: boolean) => Promise<void>;
  /** Lets the next request or due work start an app that `hold` has stopped. */
  letGo: () => Promise<void>;
}

export interface Disk {
  /** Whether free space is low. */
  short: boolean;
  /** Whether free space is low, or soon will be. */
  keen: boolean;
  freeMb: number;
  floorMb: number;
}

export interface StorageLimitsOptions {
  held: Omit<HeldQueries, 'has'>;
  /** Storage limit of an app, in MiB; 0 for no limit. */
  maxMb: number;
  disk: Disk;
  apps: () => LimitedApp[];
}

export class StorageLimits {
  readonly #options: StorageLimitsOptions;
  readonly #maxMb: number;
  readonly #use = new StorageUse(WINDOW_MS);
  readonly #held: Map<string, HeldRow>;
  /** Apps whose row could not be written to the database yet. */
  readonly #unwritten = new Set<string>();
  /** Raised limits, in MiB, of apps that exceeded theirs. */
  readonly #ceilings = new Map<string, number>();
  /**
   * Apps that were stopped for their limit before the host restarted. Their first measurement raises their limit again, so
   * that their owners may start them to delete data.
   */
  readonly #stoppedBefore: Set<string>;
  /** Apps that are being stopped or released now. */
  readonly #changing = new Set<string>();
  #measuring: Promise<void> | null = null;
  #measureAt = 0;
  readonly #ending = new AbortController();
  #stoppedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StorageLimitsOptions) {
    this.#options = options;
    this.#maxMb = options.maxMb || Number.POSITIVE_INFINITY;
    this.#held = options.held.all();
    const byLimit = [...this.#held].filter(([, { cause }]) => cause === 'limit');
    this.#stoppedBefore = new Set(byLimit.map(([id]) => id));
  }

  /** Returns the storage of an app in bytes, as last measured; null before that. */
  sizeOf(id: string): number | null {
    const megabytes = this.#use.size(id);
    return megabytes === null ? null : Math.round(megabytes * BYTES_IN_MB);
  }

  /** Applies the limits. Call it every few seconds, more often when free space shrinks fast. Does not block. */
  look(): void {
    const now = performance.now();
    const { disk } = this.#options;
    const apps = this.#options.apps();
    this.#use.note(apps, now);
    this.#forgetStarted(apps);
    for (const id of [...this.#unwritten]) this.#keep(id);
    if (this.#ending.signal.aborted) return;
    if (this.#measuring === null && now >= this.#measureAt) this.#measure(apps, now);
    if (disk.freeMb < disk.floorMb * CRITICAL) this.#stopWriter(apps, now);
    if (!disk.short)
      for (const app of apps)
        if (this.#held.get(app.id)?.cause === 'disk')
          this.#letGo(app, 'the disk has enough free space again');
  }

  /** Stops applying the limits. Resolves when the running measurement has ended. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#measuring;
  }

  #measure(apps: LimitedApp[], now: number): void {
    const everyMs = this.#options.disk.keen ? FAST_MS : CALM_MS;
    const isDue = (app: LimitedApp) =>
      app.isHeld
        ? this.#held.get(app.id)?.cause === 'limit' && this.#isHeldDue(app, now)
        : this.#use.isDue(app, now, everyMs, this.#ceiling(app.id) - this.#besides(app));
    const due = apps.filter(isDue);
    if (due.length === 0) return;
    this.#measuring = this.#use.measure(due, this.#ending.signal).then(() => {
      this.#measuring = null;
      if (this.#ending.signal.aborted) return;
      const ended = performance.now();
      this.#measureAt = ended + Math.max(FAST_MS, PAUSE_FACTOR * (ended - now));
      // Reads the apps again, because their state may have changed during the measurement.
      const measured = new Set(due.map(({ id }) => id));
      for (const app of this.#options.apps()) if (measured.has(app.id)) this.#judge(app);
    });
  }

  /**
   * Whether to measure an app that was stopped for its limit: on the disk at every measurement, in the bucket once a minute,
   * because this costs requests.
   */
  #isHeldDue({ id, bytesInBucket }: LimitedApp, now: number): boolean {
    return bytesInBucket === undefined || now - this.#use.measuredAt(id) >= CALM_MS;
  }

  #judge(app: LimitedApp): void {
    const own = this.#use.size(app.id);
    if (own === null) return;
    const size = own + this.#besides(app);
    if (this.#stoppedBefore.delete(app.id)) this.#ceilings.set(app.id, size + this.#graceMb);
    if (size <= this.#maxMb) this.#ceilings.delete(app.id);
    if (app.isHeld) {
      if (size <= this.#maxMb * ENOUGH && this.#held.get(app.id)?.cause === 'limit')
        this.#letGo(app, 'its data is below the limit');
    } else if (size > this.#ceiling(app.id) && app.pid !== null) {
      this.#hold(app, 'limit', this.#overLimit(app, size));
    }
  }

  #overLimit({ id, countedWith, bytesInBucket }: LimitedApp, size: number): string {
    const whose =
      countedWith.length === 0
        ? 'its data takes'
        : 'the data of this preview, its app and other previews takes';
    const what = `the app was stopped: ${whose} ${Math.ceil(size)} MiB ${bytesInBucket ? 'in the bucket' : 'on the disk'}, more than the ${this.#maxMb} MiB that are allowed (RUNNER_APP_MAX_MB). The app starts again by itself when the data takes at most ${Math.floor(this.#maxMb * ENOUGH)} MiB`;
    if (this.#ceilings.has(id)) return `${what}, or the operator raises the limit`;
    this.#ceilings.set(id, size + this.#graceMb);
    return `${what}. To let it delete data, start it, or deploy another release: the data may then grow by ${this.#graceMb} MiB`;
  }

  get #graceMb(): number {
    return Math.max(1, Math.floor(Math.min(GRACE_MB, this.#maxMb * GRACE_SHARE)));
  }

  /** Stops the app that has grown most within `WINDOW_MS`, if it has grown enough. Call it on an almost full disk. */
  #stopWriter(apps: LimitedApp[], now: number): void {
    if (now - this.#stoppedAt < NEXT_STOP_MS) return;
    const { freeMb, floorMb } = this.#options.disk;
    const leastGrowth = Math.max(1, Math.min(LEAST_GROWTH_MB, floorMb * LEAST_GROWTH_SHARE));
    const writers = apps
      .filter(({ id, pid, isHeld }) => pid !== null && !isHeld && !this.#changing.has(id))
      .map((app) => ({ app, growth: this.#use.growth(app.id) }))
      .filter(({ growth }) => growth > leastGrowth)
      .sort((a, b) => b.growth - a.growth);
    const [most] = writers;
    if (most === undefined) return;
    this.#stoppedAt = now;
    this.#hold(
      most.app,
      'disk',
      `the app was stopped: the disk of this machine is almost full (${freeMb} MiB free, RUNNER_DISK_FLOOR_MB is ${floorMb}). Of all apps, this one wrote the most: ${Math.ceil(most.growth)} MiB within ${WINDOW_MS / 1000} s or less. It starts again by itself when the disk has enough free space`,
    );
  }

  #hold(app: LimitedApp, cause: HeldCause, why: string): void {
    if (this.#changing.has(app.id)) return;
    log('warn', 'an app is stopped because it uses too much disk', { app: app.slug, cause });
    this.#held.set(app.id, { cause, why });
    this.#keep(app.id);
    this.#change(app, app.hold(why, this.#options.disk.short));
  }

  #letGo(app: LimitedApp, why: string): void {
    if (this.#changing.has(app.id)) return;
    log('info', `an app that was stopped for its disk use may start again: ${why}`, {
      app: app.slug,
    });
    this.#forget(app.id);
    this.#change(app, app.letGo());
  }

  #change({ id }: LimitedApp, changed: Promise<void>): void {
    this.#changing.add(id);
    changed
      .catch((error: unknown) => logRarely('warn', 'an app could not be stopped', { error: reason(error) }))
      .finally(() => this.#changing.delete(id));
  }

  /** Forgets the apps that are no longer stopped for their disk use: they were started, put to sleep or deleted. */
  #forgetStarted(apps: LimitedApp[]): void {
    const held = new Set(apps.filter(({ isHeld }) => isHeld).map(({ id }) => id));
    for (const id of this.#held.keys()) if (!held.has(id) && !this.#changing.has(id)) this.#forget(id);
  }

  #forget(id: string): void {
    this.#held.delete(id);
    this.#keep(id);
  }

  /** Records whether an app is stopped. On a full disk this may fail; then each `look` retries. */
  #keep(id: string): void {
    const row = this.#held.get(id);
    try {
      if (row === undefined) this.#options.held.delete(id);
      else this.#options.held.set(id, row);
      if (this.#unwritten.delete(id)) log('info', 'the list of stopped apps is stored again');
    } catch (error) {
      this.#unwritten.add(id);
      logRarely('warn', 'the list of stopped apps could not be stored', { error: reason(error) });
    }
  }

  /** Returns the MiB of other apps that count with this one: for a preview, those of its parent and the other previews. */
  #besides({ countedWith }: LimitedApp): number {
    return countedWith.reduce((sum, id) => sum + (this.#use.size(id) ?? 0), 0);
  }

  #ceiling(id: string): number {
    return Math.max(this.#maxMb, this.#ceilings.get(id) ?? 0);
  }
}
