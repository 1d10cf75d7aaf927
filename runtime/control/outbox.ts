// Carries the host's facts to the control plane until each was applied, in order for each app.
import { setImmediate } from 'node:timers/promises';
import type { HostEvent, HostEvents } from '../../handlers/contract/host/host-calls.ts';
import { FACTS_BYTES, FACTS_LIMIT } from '../../handlers/contract/sizes.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { appOf } from '../../sqlite/host/outbox.ts';
import { log, reason } from '../log.ts';

const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;
/** Statuses that say nothing about the facts: the control plane is too busy to take them. */
const BUSY = [408, 429, 503];

/**
 * The courier between the outbox table and the control plane. Facts are written to the table in the transaction
 * that makes them true; `notify` says that there may be some.
 */
export class Outbox {
  readonly #store: Pick<HostStore, 'outbox' | 'synced'>;
  readonly #send: (events: HostEvents) => Promise<unknown>;
  readonly #retryMs: number;
  /** Whether a delivery is under way that will find facts that are added now, without `notify`. */
  #delivering = false;
  /** Settles when the last delivery has ended. */
  #delivered: Promise<void> = Promise.resolve();
  #stopped = false;
  #open = false;
  #retry: { timer: NodeJS.Timeout; now: () => void } | null = null;
  /** Apps whose oldest fact was refused. */
  readonly #refused = new Set<string>();
  /** The refused apps whose facts are left out until the next try, and the fact up to which there are no others. */
  #waiting = { apps: new Set<string>(), upTo: 0 };
  #nextTry: NodeJS.Timeout | null = null;

  /**
   * @param send delivers a batch; rejects when it could not, with a `status` when the control plane refused it
   * @param retryMs time after which the facts of apps with a refused one are tried again
   */
  constructor(
    store: Pick<HostStore, 'outbox' | 'synced'>,
    send: (events: HostEvents) => Promise<unknown>,
    retryMs = RETRY_MAX_MS,
  ) {
    this.#store = store;
    this.#send = send;
    this.#retryMs = retryMs;
  }

  /** Apps whose facts wait because the control plane refuses the oldest of them. */
  get refused(): readonly string[] {
    return [...this.#refused];
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

  /** Resolves when everything written so far was applied or refused, or after `deadlineMs`. */
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
    if (this.#nextTry) clearTimeout(this.#nextTry);
  }

  async #deliver(): Promise<void> {
    const { outbox } = this.#store;
    this.#delivering = true;
    // Facts that are written in one turn of the loop go in one batch.
    await setImmediate();
    try {
      let delay = RETRY_MIN_MS;
      let limit = FACTS_LIMIT;
      while (!this.#stopped) {
        let events: HostEvent[] = [];
        const waiting = this.#waiting;
        try {
          const next = outbox.next(limit, FACTS_BYTES, waiting.apps, waiting.upTo);
          waiting.upTo = next.skippedTo;
          events = next.events;
          if (next.isDone) return;
          if (events.length === 0) {
            // The rest is read in another turn of the loop.
            await setImmediate();
            continue;
          }
          // A fact that a crash of the machine took back would leave its number to another one, which would count as known.
          await this.#store.synced();
          await this.#send({ outbox: outbox.name(), events });
          outbox.remove(events);
          waiting.upTo = events.at(-1)!.seq;
          for (const event of events) this.#refused.delete(appOf(event));
          delay = RETRY_MIN_MS;
          limit = Math.min(FACTS_LIMIT, 2 * limit);
        } catch (error) {
          if (isRefusal(error)) {
            // Smaller batches find the fact that is refused: it must not hold up the facts of other apps.
            if (events.length === 1) this.#leaveOut(events[0]!, error);
            else limit = Math.floor(events.length / 2);
            continue;
          }
          if (delay >= RETRY_MAX_MS)
            log('warn', 'facts wait for the control plane', { error: reason(error) });
          await this.#pause(delay);
          delay = Math.min(delay * 2, RETRY_MAX_MS);
        }
      }
    } finally {
      // Set in the same step as the last look, so that a fact that is added later starts a new delivery.
      this.#delivering = false;
    }
  }

  /** A later fact of the app may not come before this one, so all of them wait. */
  #leaveOut(event: HostEvent, error: unknown): void {
    const app = appOf(event);
    if (!this.#refused.has(app)) {
      log('error', 'the control plane refuses a fact; it and later ones of its app wait', {
        app,
        seq: event.seq,
        type: event.type,
        error: reason(error),
      });
    }
    this.#refused.add(app);
    this.#waiting.apps.add(app);
    this.#nextTry ??= setTimeout(() => {
      this.#nextTry = null;
      this.#waiting = { apps: new Set(), upTo: 0 };
      this.notify();
    }, this.#retryMs);
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#retry = { timer: setTimeout(resolve, ms), now: resolve };
    });
    clearTimeout(this.#retry?.timer);
    this.#retry = null;
  }
}

/** Whether the control plane read the facts and did not take them. */
function isRefusal(error: unknown): boolean {
  const { status } = error as { status?: number };
  return status !== undefined && !BUSY.includes(status);
}
