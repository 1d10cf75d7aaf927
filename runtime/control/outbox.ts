// Carries the host's facts to the control plane, in order, until each was applied.

import type { HostEvent, HostEvents } from '../../handlers/contract/host-calls.ts';
import type { OutboxQueries } from '../../sqlite/host/outbox.ts';
import { log, reason } from '../log.ts';

const BATCH = 100;
const BATCH_BYTES = 4 * 1024 * 1024;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;

/**
 * The courier between the outbox table and the control plane. Facts are written to the table in the transaction
 * that makes them true; `notify` says that there may be some.
 */
export class Outbox {
  readonly #queries: OutboxQueries;
  readonly #send: (events: HostEvents) => Promise<{ applied: number }>;
  /** Whether facts that are added now are looked for without a word. */
  #delivering = false;
  /** Settles when the last delivery has ended. */
  #delivered: Promise<void> = Promise.resolve();
  #stopped = false;
  #open = false;
  #retry: { timer: NodeJS.Timeout; now: () => void } | null = null;

  /** @param send delivers a batch and answers the highest number applied; rejects when it could not be delivered */
  constructor(queries: OutboxQueries, send: (events: HostEvents) => Promise<{ applied: number }>) {
    this.#queries = queries;
    this.#send = send;
  }

  /** Begins delivery: the control plane is up. */
  open(): void {
    this.#open = true;
    this.notify();
  }

  /** Delivers what is waiting. Cheap; call it after each transaction that added a fact. */
  notify(): void {
    if (!this.#open || this.#stopped) return;
    if (!this.#delivering) this.#delivered = this.#deliver();
  }

  /** Resolves when everything written so far was applied, or after `deadlineMs`. */
  async flushed(deadlineMs: number): Promise<void> {
    this.notify();
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMs);
    });
    await Promise.race([this.#delivered, deadline]);
    clearTimeout(timer);
  }

  /** Ends delivery. What was not applied stays in the table for the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#retry?.now();
    await this.#delivered;
  }

  async #deliver(): Promise<void> {
    this.#delivering = true;
    try {
      let delay = RETRY_MIN_MS;
      let batch = BATCH;
      while (!this.#stopped) {
        let events: HostEvent[] = [];
        try {
          events = this.#queries.next(batch, BATCH_BYTES);
          if (events.length === 0) return;
          const { applied } = await this.#send({ outbox: this.#queries.name(), events });
          this.#queries.remove(applied);
          delay = RETRY_MIN_MS;
          batch = BATCH;
        } catch (error) {
          if (isRefusal(error)) {
            // One fact that is refused must not keep those of all apps behind it.
            if (events.length === 1) this.#drop(events[0]!, error);
            batch = 1;
            continue;
          }
          if (delay >= RETRY_MAX_MS)
            log('warn', 'facts wait for the control plane', { error: reason(error) });
          await this.#pause(delay);
          delay = Math.min(delay * 2, RETRY_MAX_MS);
        }
      }
    } finally {
      // In the same step as the last look: what is added after it is looked for again.
      this.#delivering = false;
    }
  }

  #drop(event: HostEvent, error: unknown): void {
    log('error', 'the control plane refuses a fact; it is dropped', { seq: event.seq, error: reason(error) });
    this.#queries.remove(event.seq);
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#retry = { timer: setTimeout(resolve, ms), now: resolve };
    });
    clearTimeout(this.#retry?.timer);
    this.#retry = null;
  }
}

/** Whether trying again would end the same: the control plane read the facts and will not take them. */
function isRefusal(error: unknown): boolean {
  const { status } = error as { status?: number };
  return status === 400 || status === 413 || status === 422;
}
