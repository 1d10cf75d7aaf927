// Watches the room on the disk of the data directory. Short of it, the host refuses what takes more, and makes room.
import { log, logRarely, reason } from '../log.ts';
import { freeMegabytes, readFreeMegabytes } from './disk.ts';
import { DiskReserve } from './disk-reserve.ts';

/** Pauses between two looks, in ms: in quiet times, and when room is short or goes fast. */
const CALM_MS = 2_000;
const KEEN_MS = 250;
/** It goes fast when the floor would be reached within this time, in ms. */
const AHEAD_MS = 20_000;
/** Room that ends a shortage, as a multiple of the floor: what is free may go to and fro about it. */
const ENOUGH = 1.1;
/** Room is made at most so often, in ms. */
const MAKE_ROOM_EVERY_MS = 5_000;
/** The largest ballast, in MiB. */
const BALLAST_MB = 64;
/**
 * It is given up when the disk was seen almost full for so long, in ms: whoever fills it has been stopped by then. Given up
 * before that, it would only feed the app that fills the disk, and nothing would be left for the host to write with.
 */
const BALLAST_STAYS_MS = 5_000;
/** With less room than this, in MiB, writes may fail. */
const FULL_MB = 4;

export interface DiskWatchOptions {
  /** A directory on the disk. */
  directory: string;
  /** Path of the file that is given up when the disk is almost full. */
  diskReserve: string;
  /** Below so many MiB, room is short. */
  floorMb: number;
}

/** What the watch has done about a shortage. */
export interface DiskWatchActions {
  /** Removes what can be done without, until `enough` resolves with true. */
  makeRoom: (enough: () => Promise<boolean>) => Promise<void>;
  /** Called after each look. */
  onLook: () => void;
}

export class DiskWatch {
  readonly floorMb: number;
  readonly #directory: string;
  readonly #diskReserve: DiskReserve;
  #freeMb: number;
  #lookedAt = performance.now();
  /** The first of the looks that found less room than the ballast has, since the last one that found more. */
  #almostFullSince: number | null = null;
  /** MiB that go in a ms, as of the last two looks. */
  #fall = 0;
  #short: boolean;
  #actions: DiskWatchActions | null = null;
  #timer: NodeJS.Timeout | null = null;
  readonly #waiting = new Set<() => void>();
  #busy = false;
  #madeRoomAt = Number.NEGATIVE_INFINITY;
  #stopped = false;

  /** Takes a first look: on a disk that is almost full the ballast is given up at once, so that the host can start. */
  constructor({ directory, diskReserve, floorMb }: DiskWatchOptions) {
    this.floorMb = floorMb;
    this.#directory = directory;
    this.#diskReserve = new DiskReserve(
      diskReserve,
      Math.max(1, Math.min(BALLAST_MB, Math.floor(floorMb / 4))),
    );
    this.#freeMb = freeMegabytes(directory);
    if (this.#freeMb < this.#diskReserve.megabytes && this.#diskReserve.drop())
      this.#freeMb = freeMegabytes(directory);
    this.#short = this.#freeMb < floorMb;
  }

  /** Whether room is short: then nothing that takes more is begun. */
  get short(): boolean {
    return this.#short;
  }

  /** MiB that were free at the last look. */
  get freeMb(): number {
    return this.#freeMb;
  }

  /** Whether room is short, or soon will be. */
  get keen(): boolean {
    return this.#short || this.#freeMb - this.#fall * AHEAD_MS < this.floorMb;
  }

  /** Why nothing is deployed or uploaded now, and how to mend it, for whoever asked; null when there is room. */
  get shortage(): string | null {
    if (!this.#short) return null;
    return `the disk of this machine has ${this.#freeMb} MiB free, and ${this.floorMb} MiB must stay free (RUNNER_DISK_FLOOR_MB): nothing is deployed or uploaded until apps that are not needed are deleted, or the operator has made room; then try again`;
  }

  /** Whether a write may have failed for want of room. Reads anew. */
  async isFull(): Promise<boolean> {
    return (await readFreeMegabytes(this.#directory)) < FULL_MB;
  }

  /** Begins to look, again and again. */
  start(actions: DiskWatchActions): void {
    this.#actions = actions;
    if (this.#short) this.#tell();
    this.#next(0);
  }

  /** Ends it. What is being removed may still go. */
  stop(): void {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  /** Resolves when so many MiB are free, or `signal` is aborted. */
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

  /** Never rejects. */
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
      logRarely('error', 'the free room on the disk could not be read', { error: reason(error) });
    }
    this.#next(this.keen ? KEEN_MS : CALM_MS);
  }

  #decide(): void {
    const free = this.#freeMb;
    const enoughMb = this.floorMb * ENOUGH;
    if (free >= this.#diskReserve.megabytes) this.#almostFullSince = null;
    else {
      this.#almostFullSince ??= this.#lookedAt;
      if (this.#lookedAt - this.#almostFullSince >= BALLAST_STAYS_MS && this.#diskReserve.drop())
        log('warn', 'the disk is almost full: its reserve is given up', { free_mb: free });
    }
    if (!this.#short && free < this.floorMb) {
      this.#short = true;
      this.#tell();
    } else if (this.#short && free >= enoughMb) {
      this.#short = false;
      log('info', 'the disk has room again', { free_mb: free });
    }
    if (this.#short) this.#begin(MAKE_ROOM_EVERY_MS, () => this.#makeRoom(enoughMb));
    else if (free >= enoughMb + this.#diskReserve.megabytes && !this.#diskReserve.exists)
      this.#begin(0, () => this.#diskReserve.take());
  }

  #tell(): void {
    log('error', 'the disk is short of room: nothing is deployed or uploaded until there is more', {
      free_mb: this.#freeMb,
      floor_mb: this.floorMb,
    });
  }

  async #makeRoom(enoughMb: number): Promise<void> {
    const enough = async () => this.#stopped || (await readFreeMegabytes(this.#directory)) >= enoughMb;
    await this.#actions!.makeRoom(enough);
    this.#madeRoomAt = performance.now();
  }

  /** Begins a piece of work unless one is under way, or room was made within the last `pauseMs`. */
  #begin(pauseMs: number, work: () => Promise<void>): void {
    if (this.#busy || performance.now() - this.#madeRoomAt < pauseMs) return;
    this.#busy = true;
    work()
      .catch((error: unknown) =>
        logRarely('warn', 'room could not be made or kept', { error: reason(error) }),
      )
      .finally(() => {
        this.#busy = false;
      });
  }
}
