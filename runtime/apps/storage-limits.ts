// Stops apps because of the disk: those that keep more than `RUNNER_APP_MAX_MB`, and, when the disk is almost full, the app that
// writes most.
import type { HeldCause, HeldQueries, HeldRow } from '../../sqlite/host/held.ts';
import { log, logRarely, reason } from '../log.ts';
import { type Storage, StorageUse } from './storage-use.ts';

const BYTES_IN_MB = 2 ** 20;
/** The time over which growth is counted, in ms. */
const WINDOW_MS = 30_000;
/** How often an app with a process is measured, in ms: in quiet times, and when room is short or shrinks fast. */
const CALM_MS = 60_000;
const KEEN_MS = 1_000;
/** A pause between two measurements is at least this many times as long as the measurement before it. */
const PAUSE_FACTOR = 10;
/** How much an app over its limit may grow once it was started again, so that it can tidy up: in MiB, and as a share of its limit. */
const GRACE_MB = 64;
const GRACE_SHARE = 0.1;
/** A stopped app may start again when it keeps no more than this share of its limit. */
const ENOUGH = 0.95;
/** Share of `RUNNER_DISK_FLOOR_MB`: with less room free, the app that writes most is stopped. */
const CRITICAL = 0.5;
/** An app that grew by less than this is not stopped for a full disk: in MiB, and as a share of the floor. */
const MODEST_MB = 64;
const MODEST_SHARE = 1 / 16;
/** Time that a stop gets to show before the next app is stopped for the disk's sake, in ms. */
const NEXT_STOP_MS = 1_000;

/** An app whose storage is limited. */
export interface LimitedApp extends Storage {
  slug: string;
  /** Apps, by id, whose storage counts as its own: those of a preview's parent and its other previews. */
  countedWith: string[];
  isHeld: boolean;
  /** Ends its process and starts no other before somebody starts the app; `atOnce`: without letting requests end. */
  hold: (why: string, atOnce: boolean) => Promise<void>;
  /** Lets it start again by itself. */
  letGo: () => Promise<void>;
}

/** What is known of the disk. */
export interface Disk {
  short: boolean;
  keen: boolean;
  freeMb: number;
  floorMb: number;
}

export interface StorageLimitsOptions {
  held: HeldQueries;
  /** MiB that an app may keep; 0 is no limit. */
  maxMb: number;
  disk: Disk;
  apps: () => LimitedApp[];
}

export class StorageLimits {
  readonly #options: StorageLimitsOptions;
  readonly #maxMb: number;
  readonly #use = new StorageUse(WINDOW_MS);
  readonly #held: Map<string, HeldRow>;
  /** Apps whose row in the database could not be written yet. */
  readonly #unwritten = new Set<string>();
  /** MiB up to which apps that were over their limit may grow. */
  readonly #ceilings = new Map<string, number>();
  /** Apps that the host before this one has stopped: their owners may start them to tidy up before they are measured. */
  readonly #stoppedBefore: Set<string>;
  /** Apps that are being stopped, or allowed to start, at this moment. */
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

  /** Bytes that an app keeps on the disk, as last measured; null before that. */
  sizeOf(id: string): number | null {
    const megabytes = this.#use.size(id);
    return megabytes === null ? null : Math.round(megabytes * BYTES_IN_MB);
  }

  /** To be called every few seconds, more often when room goes fast. Takes no time itself. */
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
      for (const app of apps) if (this.#held.get(app.id)?.cause === 'disk') this.#letGo(app, 'room is back');
  }

  /** Resolves when nothing is measured any more. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#measuring;
  }

  #measure(apps: LimitedApp[], now: number): void {
    const everyMs = this.#options.disk.keen ? KEEN_MS : CALM_MS;
    const isDue = (app: LimitedApp) =>
      app.isHeld
        ? this.#held.get(app.id)?.cause === 'limit'
        : this.#use.isDue(app, now, everyMs, this.#ceiling(app.id) - this.#besides(app));
    const due = apps.filter(isDue);
    if (due.length === 0) return;
    this.#measuring = this.#use.measure(due, this.#ending.signal).then(() => {
      this.#measuring = null;
      if (this.#ending.signal.aborted) return;
      const ended = performance.now();
      this.#measureAt = ended + Math.max(KEEN_MS, PAUSE_FACTOR * (ended - now));
      // The apps as they are after the measurement.
      const measured = new Set(due.map(({ id }) => id));
      for (const app of this.#options.apps()) if (measured.has(app.id)) this.#judge(app);
    });
  }

  #judge(app: LimitedApp): void {
    const own = this.#use.size(app.id);
    if (own === null) return;
    const size = own + this.#besides(app);
    if (this.#stoppedBefore.delete(app.id)) this.#ceilings.set(app.id, size + this.#graceMb);
    if (size <= this.#maxMb) this.#ceilings.delete(app.id);
    if (app.isHeld) {
      if (size <= this.#maxMb * ENOUGH && this.#held.get(app.id)?.cause === 'limit')
        this.#letGo(app, 'it keeps less than it may');
    } else if (size > this.#ceiling(app.id) && app.pid !== null) {
      this.#hold(app, 'limit', this.#overLimit(app, size));
    }
  }

  #overLimit({ id, countedWith }: LimitedApp, size: number): string {
    const whose = countedWith.length === 0 ? 'it keeps' : 'this preview, its app and other previews keep';
    const what = `the app was stopped: ${whose} ${Math.ceil(size)} MiB on the disk, and may keep ${this.#maxMb} (RUNNER_APP_MAX_MB). It starts again by itself when it keeps less`;
    if (this.#ceilings.has(id)) return `${what}, or the operator raises the limit`;
    this.#ceilings.set(id, size + this.#graceMb);
    return `${what}; start it, or deploy another release, to have it delete data: it may then grow by ${this.#graceMb} MiB`;
  }

  get #graceMb(): number {
    return Math.max(1, Math.floor(Math.min(GRACE_MB, this.#maxMb * GRACE_SHARE)));
  }

  /** When the disk is almost full, stops the app that writes most, if it writes much. */
  #stopWriter(apps: LimitedApp[], now: number): void {
    if (now - this.#stoppedAt < NEXT_STOP_MS) return;
    const { freeMb, floorMb } = this.#options.disk;
    const modest = Math.max(1, Math.min(MODEST_MB, floorMb * MODEST_SHARE));
    const writers = apps
      .filter(({ id, pid, isHeld }) => pid !== null && !isHeld && !this.#changing.has(id))
      .map((app) => ({ app, growth: this.#use.growth(app.id) }))
      .filter(({ growth }) => growth > modest)
      .sort((a, b) => b.growth - a.growth);
    const [most] = writers;
    if (most === undefined) return;
    this.#stoppedAt = now;
    this.#hold(
      most.app,
      'disk',
      `the app was stopped: the disk of this machine is almost full (${freeMb} MiB free, RUNNER_DISK_FLOOR_MB is ${floorMb}), and of all apps this one wrote most just now, ${Math.ceil(most.growth)} MiB within ${WINDOW_MS / 1000} s or less. It starts again by itself when there is room`,
    );
  }

  #hold(app: LimitedApp, cause: HeldCause, why: string): void {
    if (this.#changing.has(app.id)) return;
    log('warn', 'an app is stopped for what it keeps on the disk', { app: app.slug, cause });
    this.#held.set(app.id, { cause, why });
    this.#keep(app.id);
    this.#change(app, app.hold(why, this.#options.disk.short));
  }

  #letGo(app: LimitedApp, why: string): void {
    if (this.#changing.has(app.id)) return;
    log('info', `an app that was stopped for what it keeps on the disk may start again: ${why}`, {
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

  /** Forgets the apps that somebody has started, put to sleep or deleted: the host holds them no longer. */
  #forgetStarted(apps: LimitedApp[]): void {
    const held = new Set(apps.filter(({ isHeld }) => isHeld).map(({ id }) => id));
    for (const id of this.#held.keys()) if (!held.has(id) && !this.#changing.has(id)) this.#forget(id);
  }

  #forget(id: string): void {
    this.#held.delete(id);
    this.#keep(id);
  }

  /** Writes down whether an app is held. A full disk may prevent it: then it is tried again at every look. */
  #keep(id: string): void {
    const row = this.#held.get(id);
    try {
      if (row === undefined) this.#options.held.delete(id);
      else this.#options.held.set(id, row);
      if (this.#unwritten.delete(id)) log('info', 'which apps are stopped is written down now');
    } catch (error) {
      this.#unwritten.add(id);
      logRarely('warn', 'which apps are stopped could not be written down', { error: reason(error) });
    }
  }

  /** MiB of other apps that count as this app's own: those of a preview's parent and its other previews. */
  #besides({ countedWith }: LimitedApp): number {
    return countedWith.reduce((sum, id) => sum + (this.#use.size(id) ?? 0), 0);
  }

  #ceiling(id: string): number {
    return Math.max(this.#maxMb, this.#ceilings.get(id) ?? 0);
  }
}
