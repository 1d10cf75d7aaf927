// The idle timeout of a request. Each phase has its own limit.

/** Longest wait for the head of the store's answer, in ms. */
const HEAD_MS = 10_000;
/** Longest silence of a client that sends or reads a body, in ms. */
const SILENCE_MS = 30_000;
/** Longest silence of the store in an answer's body, in ms. It is short, because a starting workerd waits for it. */
const STORE_SILENCE_MS = 10_000;

export class Watch {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isStoreLate = false;
  #isFinished = false;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the request ended because the head of the store's answer was late. */
  get isStoreLate(): boolean {
    return this.#isStoreLate;
  }

  /** Call it when the next chunk of a body is awaited from the client, or offered to it. */
  moves(): void {
    this.#wait(SILENCE_MS, () => this.abort('a body was silent for 30 s'));
  }

  /** Call it when the next chunk of the store's answer is awaited. */
  awaitsStore(): void {
    this.#wait(STORE_SILENCE_MS, () => this.abort('the body of an answer was silent for 10 s'));
  }

  /** Call it when only the head of the store's answer is awaited. */
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

  /** Ends the timeout for good. After `end`, a request body that ends later than the answer would start it again. */
  finish(): void {
    this.end();
    this.#isFinished = true;
  }

  #wait(ms: number, late: () => void): void {
    this.end();
    if (!this.signal.aborted && !this.#isFinished) this.#timer = setTimeout(late, ms);
  }
}
