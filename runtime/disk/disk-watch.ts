// Watches the free space on the disk of the data directory. When free space is low, the host refuses work that needs space,
// and frees some.
import { log, logRarely, reason } from '../log.ts';
import { freeMegabytes, readFreeMegabytes, totalMegabytes } from './disk.ts';
import { DiskReserve } from './disk-reserve.ts';

/** Usual polling interval, in ms. */
const CALM_MS = 2_000;
/** Polling interval while space is low or falls fast, in ms. */
const KEEN_MS = 250;
/** Space falls fast when it would reach the floor within this time, in ms. */
const AHEAD_MS = 20_000;
/** Free space that ends a shortage, as a multiple of the floor: a margin against flapping. */
const ENOUGH = 1.1;
/** Shortest pause after a clean-up, in ms. */
const MAKE_ROOM_EVERY_MS = 5_000;
/** Largest disk reserve, in MiB. */
const RESERVE_MB = 64;
/**
 * The reserve is freed after the disk was almost full for this long, in ms: by then `StorageLimits` has stopped the app that
 * fills the disk. Freed earlier, it would only feed that app, and leave the host no space to write.
 */
const RESERVE_STAYS_MS = 5_000;
/** With less free space than this, in MiB, writes may fail. */
const FULL_MB = 4;

export interface DiskWatchOptions {
  /** A directory on the disk. */
  directory: string;
  /** Path of the file that is deleted when the disk is almost full. */
  diskReserve: string;
  /** Space is low below this many MiB. */
  floorMb: number;
}

export interface DiskWatchActions {
  /** Removes expendable files until `enough` resolves with true. */
  makeRoom: (enough: () => Promise<boolean>) => Promise<void>;
  /** Called after each successful poll. On an almost full disk, `StorageLimits` may then stop the app that writes most. */
  onLook: () => void;
}

export class DiskWatch {
  readonly floorMb: number;
  /** Size of the disk in MiB, at the start. */
  readonly totalMb: number;
  readonly #directory: string;
  readonly #diskReserve: DiskReserve;
  #freeMb: number;
  #lookedAt = performance.now();
  /** Time since which the free space is less than the reserve; null while it is not less. */
  #almostFullSince: number | null = null;
  /** Rate of decrease in MiB per ms, between the last two polls. */
  #fall = 0;
  #short: boolean;
  #actions: DiskWatchActions | null = null;
  #timer: NodeJS.Timeout | null = null;
  readonly #waiting = new Set<() => void>();
  #busy = false;
  #madeRoomAt = Number.NEGATIVE_INFINITY;
  #stopped = false;

  /** Polls once. On an almost full disk it frees the reserve at once, so that the host can start. */
  constructor({ directory, diskReserve, floorMb }: DiskWatchOptions) {
    this.floorMb = floorMb;
    this.#directory = directory;
    this.#diskReserve = new DiskReserve(
      diskReserve,
      Math.max(1, Math.min(RESERVE_MB, Math.floor(floorMb / 4))),
    );
    this.totalMb = totalMegabytes(directory);
    this.#freeMb = freeMegabytes(directory);
    if (this.#freeMb < this.#diskReserve.megabytes && this.#diskReserve.drop())
      this.#freeMb = freeMegabytes(directory);
    this.#short = this.#freeMb < floorMb;
  }

  /** Whether space is low: then no work that needs space starts. */
  get short(): boolean {
    return this.#short;
  }

  /** Free MiB at the last poll. */
  get freeMb(): number {
    return this.#freeMb;
  }

  /** Whether space is low, or soon will be. */
  get keen(): boolean {
    return this.#short || this.#freeMb - this.#fall * AHEAD_MS < this.floorMb;
  }

  /** Why deploys and uploads are refused and how to fix it, for the client; null when there is space. */
  get shortage(): string | null {
    if (!this.#short) return null;
    return `the disk of this machine has ${this.#freeMb} MiB free, and ${this.floorMb} MiB must stay free (RUNNER_DISK_FLOOR_MB): nothing is deployed or uploaded until apps that are not needed are deleted, or the operator frees space; then try again`;
  }

  /** Whether a write may have failed for lack of space. Reads the free space again. */
  async isFull(): Promise<boolean> {
    return (await readFreeMegabytes(this.#directory)) < FULL_MB;
  }

  start(actions: DiskWatchActions): void {
    this.#actions = actions;
    if (this.#short) this.#warn();
    this.#next(0);
  }

  /** Stops polling. A removal in progress may continue. */
  stop(): void {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  /** Resolves when this many MiB were free at a poll, or `signal` is aborted. */
  async room(megabytes: number, signal: AbortSignal): Promise<void> {
    let wake = () => {};
    const next = () => wake();
    this.#waiting.add(next);
    signal.addEventListener('abort', next);
    while (this.#freeMb < megabytes && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      await promise;
    }
    signal.removeEventListener('abort', next);
    this.#waiting.delete(next);
  }

  #next(ms: number): void {
    if (!this.#stopped) this.#timer = setTimeout(() => void this.#look(), ms);
  }

  /** Polls once. Never rejects. */
  async #look(): Promise<void> {
    try {
      const free = await readFreeMegabytes(this.#directory);
      if (this.#stopped) return;
      const now = performance.now();
      this.#fall = (this.#freeMb - free) / Math.max(1, now - this.#lookedAt);
      this.#freeMb = free;
      this.#lookedAt = now;
      this.#decide();
      for (const resolve of this.#waiting) resolve();
      this.#actions!.onLook();
    } catch (error) {
      logRarely('error', 'the free disk space could not be read', { error: reason(error) });
    }
    this.#next(this.keen ? KEEN_MS : CALM_MS);
  }

  #decide(): void {
    const free = this.#freeMb;
    const enoughMb = this.floorMb * ENOUGH;
    if (free >= this.#diskReserve.megabytes) this.#almostFullSince = null;
    else {
      this.#almostFullSince ??= this.#lookedAt;
      if (this.#lookedAt - this.#almostFullSince >= RESERVE_STAYS_MS && this.#diskReserve.drop())
        log('warn', 'the disk is almost full: Cellar deleted its reserve file to free space', {
          free_mb: free,
        });
    }
    if (!this.#short && free < this.floorMb) {
      this.#short = true;
      this.#warn();
    } else if (this.#short && free >= enoughMb) {
      this.#short = false;
      log('info', 'the disk has enough free space again', { free_mb: free });
    }
    if (this.#short) this.#begin(MAKE_ROOM_EVERY_MS, () => this.#makeRoom(enoughMb));
    else if (free >= enoughMb + this.#diskReserve.megabytes && !this.#diskReserve.exists)
      this.#begin(0, () => this.#diskReserve.take());
  }

  #warn(): void {
    log('error', 'the disk has too little free space: deploys and uploads are refused until it has more', {
      free_mb: this.#freeMb,
      floor_mb: this.floorMb,
    });
  }

  async #makeRoom(enoughMb: number): Promise<void> {
    const enough = async () => this.#stopped || (await readFreeMegabytes(this.#directory)) >= enoughMb;
    try {
      await this.#actions!.makeRoom(enough);
    } finally {
      this.#madeRoomAt = performance.now();
    }
  }

  /** Starts `work`, unless work is in progress or a clean-up has ended within the last `pauseMs`. */
  #begin(pauseMs: number, work: () => Promise<void>): void {
    if (this.#busy || performance.now() - this.#madeRoomAt < pauseMs) return;
    this.#busy = true;
    work()
      .catch((error: unknown) =>
        logRarely('warn', 'disk space could not be freed or reserved', { error: reason(error) }),
      )
      .finally(() => {
        this.#busy = false;
      });
  }
}
