// The idle timeout of a request. Each phase has its own limit.

/** Longest wait for the head of the store's answer, in ms. */
const HEAD_MS = 10_000;
/** Longest silence of a body, in ms. */
const SILENCE_MS = 30_000;

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

  /** A chunk of a body has moved, or one is awaited. */
  moves(): void {
    this.#wait(SILENCE_MS, () => this.abort('a body was silent for 30 s'));
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
