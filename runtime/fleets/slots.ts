// Gives turns to the starts of processes. A start uses all the processor that it gets: a hundred at once would all be slow.

/** A start that the host could not make, through no fault of the app. */
export class NoTurn extends Error {}

/** A start that takes longer than this leaves its turn to others, and goes on beside them. In ms. */
const LONG_MS = 5_000;
/** The most starts that go on without a turn, for each turn that there is. */
const LONG_PER_TURN = 4;

interface Waiter {
  enter: () => void;
}

export class Slots {
  readonly #timeoutMs: number;
  readonly #longMs: number;
  readonly #mostLong: number;
  /** Apps whose last start went well come before those whose last start failed, or took long. */
  readonly #waiting = { well: new Set<Waiter>(), doubtful: new Set<Waiter>() };
  readonly #doubtful = new WeakSet<object>();
  #free: number;
  #long = 0;

  /**
   * @param count starts at once
   * @param timeoutMs time for all of a start: the wait for its turn, and what it takes then
   * @param longMs time after which a start leaves its turn to others
   */
  constructor(count: number, timeoutMs: number, longMs = LONG_MS) {
    this.#free = count;
    this.#timeoutMs = timeoutMs;
    this.#longMs = longMs;
    this.#mostLong = LONG_PER_TURN * count;
  }

  /** Starts that wait for their turn. */
  get waiting(): number {
    return this.#waiting.well.size + this.#waiting.doubtful.size;
  }

  /**
   * Runs `work` when its turn has come. It gets what is left of the time, in ms.
   * @param who starts: by it is known how the last start went
   * @throws {NoTurn} when it does not come in time; the signal's reason when that aborts first
   */
  async run<T>(who: object, work: (leftMs: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    const end = performance.now() + this.#timeoutMs;
    await this.#enter(who, signal);
    let [isLong, hasTurn] = [false, true];
    const timer = setTimeout(() => {
      isLong = true;
      if (this.#long >= this.#mostLong) return;
      this.#long++;
      hasTurn = false;
      this.#leave();
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
      clearTimeout(timer);
      if (hasTurn) this.#leave();
      else this.#long--;
    }
  }

  #enter(who: object, signal: AbortSignal): Promise<void> | void {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    const waiting = this.#waiting[this.#doubtful.has(who) ? 'doubtful' : 'well'];
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void) => {
        waiting.delete(waiter);
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        outcome();
      };
      const abort = () => settle(() => reject(signal.reason));
      const waiter = { enter: () => settle(resolve) };
      const late = new NoTurn(
        `no turn to start came within ${this.#timeoutMs / 1000} s: others start too slowly`,
      );
      const timer = setTimeout(() => settle(() => reject(late)), this.#timeoutMs);
      signal.addEventListener('abort', abort, { once: true });
      waiting.add(waiter);
    });
  }

  #leave(): void {
    const { well, doubtful } = this.#waiting;
    const [next] = well.size > 0 ? well : doubtful;
    if (next === undefined) this.#free++;
    else next.enter();
  }
}
