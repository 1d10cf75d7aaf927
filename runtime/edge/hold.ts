// Requests that wait for their backend.
import type { Exchange } from './exchange.ts';

/** How waiting ended. `full`: it did not begin. */
export type HoldOutcome = 'ready' | 'late' | 'gone' | 'full';

/** Most requests held at once. Each may keep 144 KB of its body in memory. */
const HELD_MAX = 1_000;

/** The held requests, bounded in number and time. Their bodies wait too: nobody reads them. */
export class Holds {
  readonly #timeoutMs: number;
  /** By what they wait for: one reaction per promise, so that a client that left leaves nothing behind. */
  readonly #waiting = new Map<Promise<void>, Set<(outcome: HoldOutcome) => void>>();
  #count = 0;

  /** @param timeoutMs how long one request may be held in all */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Waits for `ready`, which never rejects; for the rest of the request's time; or for its client to leave. */
  wait(exchange: Exchange, ready: Promise<void>): Promise<HoldOutcome> {
    if (this.#count >= HELD_MAX) return Promise.resolve('full');
    exchange.heldSince ??= performance.now();
    const left = exchange.heldSince + this.#timeoutMs - performance.now();
    const waiters = this.#waitersOf(ready);
    this.#count++;
    return new Promise((resolve) => {
      const settle = (outcome: HoldOutcome): void => {
        if (!waiters.delete(settle)) return;
        clearTimeout(timer);
        exchange.onGone = null;
        this.#count--;
        resolve(outcome);
      };
      const timer = setTimeout(settle, left, 'late');
      exchange.onGone = () => settle('gone');
      waiters.add(settle);
    });
  }

  #waitersOf(ready: Promise<void>): Set<(outcome: HoldOutcome) => void> {
    const known = this.#waiting.get(ready);
    if (known !== undefined) return known;
    const waiters = new Set<(outcome: HoldOutcome) => void>();
    this.#waiting.set(ready, waiters);
    ready.then(() => {
      // Not in the microtask: a backend that says `hold` with a settled promise must not stop the event loop.
      setImmediate(() => {
        this.#waiting.delete(ready);
        for (const settle of [...waiters]) settle('ready');
      });
    });
    return waiters;
  }
}
