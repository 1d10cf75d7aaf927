// A gate for work. Closing it refuses new work, and waits until the running work has ended.
import { Refusal } from '../refusal.ts';

export class ClosableGate {
  readonly #refusal: string;
  #running = 0;
  #isClosed = false;
  #onUnused: () => void = () => {};

  /** @param refusal the message of the errors that are thrown while the gate is closed */
  constructor(refusal: string) {
    this.#refusal = refusal;
  }

  /** Runs `work`. The method `closed` waits until it has ended. @throws {Refusal} 503 while the gate is closed */
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

  /**
   * Closes the gate, waits until earlier work has ended, runs `work`, and reopens the gate.
   * @throws {Refusal} 503 if the gate is closed already
   */
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
