// Limits how many processes start at once: a start uses all the CPU time it can get, so a hundred starts at once would all
// be slow. Accounts share the slots, so slow starts of one account do not delay those of another account.

/** The host could not start a process, which is not the app's fault. */
export class StartRefused extends Error {}

/** A start that takes longer than this, in ms, frees its slot and continues without one. */
const LONG_MS = 5_000;
/**
 * For each slot, this many long starts may continue without one. Starts that freed a slot after `SHARE_MS` may exceed this
 * limit.
 */
const LONG_PER_SLOT = 4;

/** After this time, in ms, a start frees its slot for a waiting account that has no start under way. */
const SHARE_MS = 1_000;

/** The app whose process starts. */
export interface StartingApp {
  /** The account of the app. */
  readonly owner: string;
}

interface Start {
  who: StartingApp;
  owner: string;
  /** Whether the start holds a slot. */
  hasSlot: boolean;
  /** Whether the start has held its slot for `SHARE_MS`. */
  hasHadShare: boolean;
}

export class Slots {
  readonly #timeoutMs: number;
  readonly #longMs: number;
  readonly #mostLong: number;
  readonly #shareMs: number;
  /** Starts that wait for a slot, oldest first. Each has the function to call when it gets one. */
  readonly #waiting = new Map<Start, () => void>();
  /** Starts under way, including those that freed their slot. */
  readonly #running = new Set<Start>();
  /** Apps whose latest start failed or took longer than `#longMs`. */
  readonly #doubtful = new WeakSet<StartingApp>();
  #free: number;
  #long = 0;

  /**
   * @param count number of slots
   * @param timeoutMs time for a whole start, in ms, the wait for its slot included
   * @param longMs time after which a start frees its slot, in ms
   * @param shareMs time after which a start frees its slot for an account that has no start under way, in ms
   */
  constructor(count: number, timeoutMs: number, longMs = LONG_MS, shareMs = SHARE_MS) {
    this.#free = count;
    this.#timeoutMs = timeoutMs;
    this.#longMs = longMs;
    this.#shareMs = shareMs;
    this.#mostLong = LONG_PER_SLOT * count;
  }

  /** The number of starts that wait for a slot. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Runs `work` once it has a slot.
   * @param who the app that starts. If its latest start failed or took long, other apps of its account go first
   * @param work called with the time that is left of `timeoutMs`, in ms
   * @throws {StartRefused} when no slot is free in time
   * @throws the signal's reason when it aborts during the wait
   * @throws what `work` throws
   */
  async run<T>(who: StartingApp, work: (leftMs: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    const end = performance.now() + this.#timeoutMs;
    const start: Start = { who, owner: who.owner, hasSlot: false, hasHadShare: false };
    await this.#enter(start, signal);
    const sharing = setTimeout(() => {
      start.hasHadShare = true;
      this.#share();
    }, this.#shareMs);
    let isLong = false;
    const long = setTimeout(() => {
      isLong = true;
      if (start.hasSlot && this.#long < this.#mostLong) this.#giveSlotAway(start);
    }, this.#longMs);
    try {
      const result = await work(Math.max(1, Math.round(end - performance.now())));
      if (isLong) this.#doubtful.add(who);
      else this.#doubtful.delete(who);
      return result;
    } catch (error) {
      if (!signal.aborted && !(error instanceof StartRefused)) this.#doubtful.add(who);
      throw error;
    } finally {
      clearTimeout(sharing);
      clearTimeout(long);
      this.#running.delete(start);
      if (start.hasSlot) this.#passSlotOn();
      else this.#long--;
    }
  }

  #enter(start: Start, signal: AbortSignal): Promise<void> | void {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free--;
      this.#begin(start);
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const settle = (outcome: () => void) => {
      this.#waiting.delete(start);
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      outcome();
    };
    const abort = () => settle(() => reject(signal.reason));
    const late = new StartRefused(
      `the app could not start within ${this.#timeoutMs / 1000} s, because starts of other apps take too long; the next request tries again`,
    );
    const timer = setTimeout(() => settle(() => reject(late)), this.#timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    this.#waiting.set(start, () => settle(resolve));
    this.#share();
    return promise;
  }

  #begin(start: Start): void {
    start.hasSlot = true;
    this.#running.add(start);
  }

  /** Gives slots to waiting accounts that have no start under way. Takes them from starts that had one for `SHARE_MS`. */
  #share(): void {
    for (const start of this.#running) {
      if (!start.hasSlot || !start.hasHadShare) continue;
      const next = this.#next();
      if (next === undefined || this.#startsByOwner().has(next.owner)) return;
      this.#giveSlotAway(start);
    }
  }

  #giveSlotAway(start: Start): void {
    this.#long++;
    start.hasSlot = false;
    this.#passSlotOn();
  }

  #passSlotOn(): void {
    const next = this.#next();
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#begin(next);
    this.#waiting.get(next)!();
  }

  /**
   * Returns the next start: one of the account with the fewest starts under way. Among these, apps outside `#doubtful` go
   * first, then the oldest start.
   */
  #next(): Start | undefined {
    const starts = this.#startsByOwner();
    let [first, fewest] = [undefined as Start | undefined, Number.POSITIVE_INFINITY];
    for (const start of this.#waiting.keys()) {
      const rank = (starts.get(start.owner) ?? 0) + (this.#doubtful.has(start.who) ? 0.5 : 0);
      if (rank < fewest) [first, fewest] = [start, rank];
    }
    return first;
  }

  #startsByOwner(): Map<string, number> {
    const starts = new Map<string, number>();
    for (const { owner } of this.#running) starts.set(owner, (starts.get(owner) ?? 0) + 1);
    return starts;
  }
}
