// A gate for work. Closing it lets the running work end and refuses new work.
import { Refusal } from '../refusal.ts';

export class ClosableGate {
  readonly #refusal: string;
  #running = 0;
  #isClosed = false;
  #onUnused: () => void = () => {};

  /** @param refusal the message of the errors while the gate is closed */
  constructor(refusal: string) {
    this.#refusal = refusal;
  }

  /** Runs `work`; `closed` waits for its end. @throws {Refusal} 503 while the gate is closed */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.requireOpen();
    this.#running++;
    try {
      return await work();
    } finally {
      if (--this.#running === 0) this.#onUnused();
    }
  }

  get isOpen(): boolean {
    return !this.#isClosed;
  }

  /** @throws {Refusal} 503 while the gate is closed */
  requireOpen(): void {
    if (this.#isClosed) throw new Refusal(503, 'host_unavailable', this.#refusal);
  }

  /** Closes the gate, waits until earlier work has ended, runs `work`, and reopens. @throws {Refusal} 503 if already closed */
  async closed<T>(work: () => Promise<T>): Promise<T> {
    this.requireOpen();
    this.#isClosed = true;
    try {
      if (this.#running > 0) await new Promise<void>((resolve) => (this.#onUnused = resolve));
      return await work();
    } finally {
      this.#isClosed = false;
      this.#onUnused = () => {};
    }
  }
}
