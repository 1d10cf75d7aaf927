// Gives turns to the starts of processes. A start uses all the processor that it gets: a hundred at once would all be slow.
// Accounts share the turns: many slow starts of one do not hold up another's.

/** A start that the host could not make, through no fault of the app. */
export class NoTurn extends Error {}

/** A start that takes longer than this leaves its turn to others, and goes on beside them. In ms. */
const LONG_MS = 5_000;
/** The most long starts that go on without a turn, for each turn that there is; one more for each account that needs a turn. */
const LONG_PER_TURN = 4;

/** After this time a start leaves its turn to an account that waits and has no start under way. In ms. */
const SHARE_MS = 1_000;

/** Whose process starts. */
export interface Starter {
  /** The account of the app. */
  readonly owner: string;
}

interface Start {
  who: Starter;
  owner: string;
  hasTurn: boolean;
  /** Whether it has had its turn for `SHARE_MS`. */
  hasHadShare: boolean;
}

export class Slots {
  readonly #timeoutMs: number;
  readonly #longMs: number;
  readonly #mostLong: number;
  readonly #shareMs: number;
  /** With what begins each, the oldest first. */
  readonly #waiting = new Map<Start, () => void>();
  /** Starts under way, also those that have left their turn. */
  readonly #running = new Set<Start>();
  /** Those whose last start failed, or took long. */
  readonly #doubtful = new WeakSet<Starter>();
  #free: number;
  #long = 0;

  /**
   * @param count starts at once
   * @param timeoutMs time for all of a start: the wait for its turn, and what it takes then
   * @param longMs time after which a start leaves its turn to others
   * @param shareMs time after which a start leaves its turn to an account that has no start under way
   */
  constructor(count: number, timeoutMs: number, longMs = LONG_MS, shareMs = SHARE_MS) {
    this.#free = count;
    this.#timeoutMs = timeoutMs;
    this.#longMs = longMs;
    this.#shareMs = shareMs;
    this.#mostLong = LONG_PER_TURN * count;
  }

  /** Starts that wait for their turn. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Runs `work` when its turn has come. It gets what is left of the time, in ms.
   * @param who starts. Its last start decides whether this one comes behind others of its account
   * @throws {NoTurn} when it does not come in time; the signal's reason when that aborts first
   */
  async run<T>(who: Starter, work: (leftMs: number) => Promise<T>, signal: AbortSignal): Promise<T> {
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
      if (!signal.aborted && !(error instanceof NoTurn)) this.#doubtful.add(who);
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
    const late = new NoTurn(
      `no turn to start came within ${this.#timeoutMs / 1000} s: others start too slowly`,
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

  /** Gives turns to waiting accounts that have no start under way, while other starts have had their share. */
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

  /** The start that comes next: of the account with the fewest under way; there those that went well last time come first. */
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
