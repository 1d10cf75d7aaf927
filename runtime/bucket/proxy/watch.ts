// The idle timeout of a request. Each phase has its own limit.

/** Longest wait for the head of the store's answer, in ms. */
const HEAD_MS = 10_000;
/** Longest silence of one who sends or reads a body, in ms. */
const SILENCE_MS = 30_000;
/** Longest silence of an answer's body, in ms. An engine that starts waits for it, and asks again once it ends. */
const STORE_SILENCE_MS = 10_000;

export class Watch {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isStoreLate = false;
  #isFinished = false;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether it ended because the store did not answer. */
  get isStoreLate(): boolean {
    return this.#isStoreLate;
  }

  /** A chunk is awaited from a sender, or passed on to a reader. */
  moves(): void {
    this.#wait(SILENCE_MS, () => this.abort('a body was silent for 30 s'));
  }

  /** The next chunk of the store's answer is awaited. */
  awaitsStore(): void {
    this.#wait(STORE_SILENCE_MS, () => this.abort('the body of an answer was silent for 10 s'));
  }

  /** All is sent. */
  awaitsHead(): void {
    this.#wait(HEAD_MS, () => {
      this.#isStoreLate = true;
      this.abort('the store has not answered within 10 s');
    });
  }

  abort(why: string): void {
    this.end();
    this.#controller.abort(new Error(why));
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  /** Ends it for good: the end of a body may be noticed after the answer. */
  finish(): void {
    this.end();
    this.#isFinished = true;
  }

  #wait(ms: number, late: () => void): void {
    this.end();
    if (!this.signal.aborted && !this.#isFinished) this.#timer = setTimeout(late, ms);
  }
}
