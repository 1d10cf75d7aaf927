// Limits how many processes start at once: a start uses all the CPU it gets, and a hundred at once would all be slow.
// Accounts share the slots, so slow starts of one account do not delay another's.

/** A start that the host could not make, which is not the app's fault. */
export class StartRefused extends Error {}

/** A start that takes longer than this frees its slot and continues without one. In ms. */
const LONG_MS = 5_000;
/** Most long starts that continue without a slot, for each slot. Freeing a slot for an account after `SHARE_MS` may exceed it. */
const LONG_PER_TURN = 4;

/** After this time a start frees its slot for a waiting account with no start under way. In ms. */
const SHARE_MS = 1_000;

/** The app whose process starts. */
export interface StartingApp {
  /** The account of the app. */
  readonly owner: string;
}

interface Start {
  who: StartingApp;
  owner: string;
  /** Whether it holds a slot. */
  hasTurn: boolean;
  /** Whether it has held its slot for `SHARE_MS`. */
  hasHadShare: boolean;
}

export class Slots {
  readonly #timeoutMs: number;
  readonly #longMs: number;
  readonly #mostLong: number;
  readonly #shareMs: number;
  /** Waiting starts, oldest first, each with the function that begins it. */
  readonly #waiting = new Map<Start, () => void>();
  /** Starts under way, including those that freed their slot. */
  readonly #running = new Set<Start>();
  /** Apps whose last start failed or took long. */
  readonly #doubtful = new WeakSet<StartingApp>();
  #free: number;
  #long = 0;

  /**
   * @param count number of slots
   * @param timeoutMs time for a whole start, the wait for its slot included
   * @param longMs time after which a start frees its slot
   * @param shareMs time after which a start frees its slot for an account that has no start under way
   */
  constructor(count: number, timeoutMs: number, longMs = LONG_MS, shareMs = SHARE_MS) {
    this.#free = count;
    this.#timeoutMs = timeoutMs;
    this.#longMs = longMs;
    this.#shareMs = shareMs;
    this.#mostLong = LONG_PER_TURN * count;
  }

  /** Starts that wait for a slot. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Runs `work` once it has a slot. `work` gets the time that is left of `timeoutMs`, in ms.
   * @param who the app that starts. If its last start failed or took long, other apps of its account go first
   * @throws {StartRefused} when no slot is free in time; the signal's reason when that aborts first
   */
  async run<T>(who: StartingApp, work: (leftMs: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    const end = performance.now() + this.#timeoutMs;
    const start: Start = { who, owner: who.owner, hasTurn: false, hasHadShare: false };
    await this.#enter(start, signal);
    const sharing = setTimeout(() => {
      start.hasHadShare = true;
      this.#share();
    }, this.#shareMs);
    let isLong = false;
    const long = setTimeout(() => {
      isLong = true;
      if (start.hasTurn && this.#long < this.#mostLong) this.#giveTurnAway(start);
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
      if (start.hasTurn) this.#passTurnOn();
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
      `no turn to start came within ${this.#timeoutMs / 1000} s: starts of other apps take too long`,
    );
    const timer = setTimeout(() => settle(() => reject(late)), this.#timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    this.#waiting.set(start, () => settle(resolve));
    this.#share();
    return promise;
  }

  #begin(start: Start): void {
    start.hasTurn = true;
    this.#running.add(start);
  }

  /**
   * Starts waiting accounts that have no start under way. Takes their slots from starts that have had one for `SHARE_MS`.
   */
  #share(): void {
    for (const start of this.#running) {
      if (!start.hasTurn || !start.hasHadShare) continue;
      const next = this.#next();
      if (next === undefined || this.#startsByOwner().has(next.owner)) return;
      this.#giveTurnAway(start);
    }
  }

  #giveTurnAway(start: Start): void {
    this.#long++;
    start.hasTurn = false;
    this.#passTurnOn();
  }

  #passTurnOn(): void {
    const next = this.#next();
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#begin(next);
    this.#waiting.get(next)!();
  }

  /** Returns the next start: of the account with the fewest under way, and in it of an app whose last start went well, if any. */
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
