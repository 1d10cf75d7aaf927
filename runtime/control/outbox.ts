// Delivers the host's facts (reports of changes, such as the state of an app) to the control plane until each was applied,
// in order for each app.
import { setImmediate } from 'node:timers/promises';
import type { HostEvent, HostEvents } from '../../handlers/contract/host/host-calls.ts';
import { FACTS_BYTES, FACTS_LIMIT } from '../../handlers/contract/sizes.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { appOf } from '../../sqlite/host/outbox.ts';
import { log, reason } from '../log.ts';

const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;
/** Statuses of an overloaded control plane: it has neither accepted nor refused the facts. */
const BUSY = [408, 429, 503];

interface OutboxStore extends Pick<HostStore, 'outbox'> {
  /** Resolves when all that was written about these apps survives a crash, and with a bucket the loss of this machine. */
  synced: (appIds: string[]) => Promise<unknown>;
}

/**
 * Delivers the rows of the outbox table to the control plane. Facts are written to the table in the transaction that makes
 * them true; then `notify` starts a delivery.
 */
export class Outbox {
  readonly #store: OutboxStore;
  readonly #send: (events: HostEvents) => Promise<unknown>;
  readonly #retryMs: number;
  /** Whether a running delivery will find facts that are added now, without `notify`. */
  #delivering = false;
  /** Settles when the newest delivery has ended. */
  #delivered: Promise<void> = Promise.resolve();
  #stopped = false;
  #open = false;
  #retry: { timer: NodeJS.Timeout; now: () => void } | null = null;
  /** Apps whose oldest fact was rejected. */
  readonly #refused = new Set<string>();
  /**
   * `apps`: those with a rejected fact; their facts are skipped until the next try. `upTo`: all undelivered facts up to this
   * number belong to these apps.
   */
  #waiting = { apps: new Set<string>(), upTo: 0 };
  #nextTry: NodeJS.Timeout | null = null;

  /**
   * @param send delivers a batch; rejects on failure, with a `status` when the control plane rejected it
   * @param retryMs time after which the facts of apps with a rejected fact are sent again, in ms
   */
  constructor(store: OutboxStore, send: (events: HostEvents) => Promise<unknown>, retryMs = RETRY_MAX_MS) {
    this.#store = store;
    this.#send = send;
    this.#retryMs = retryMs;
  }

  /** Apps whose facts wait because the control plane rejects the oldest of them. */
  get refused(): readonly string[] {
    return [...this.#refused];
  }

  /** Starts deliveries. Call it when the control plane is up. */
  open(): void {
    this.#open = true;
    this.notify();
  }

  /** Starts to deliver waiting facts, unless a delivery runs. Cheap; call it after each transaction that added a fact. */
  notify(): void {
    if (!this.#open || this.#stopped) return;
    if (!this.#delivering) this.#delivered = this.#deliver();
  }

  /** Resolves when all facts written so far were applied or rejected, or after `deadlineMs`. */
  async flushed(deadlineMs: number): Promise<void> {
    this.notify();
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, deadlineMs);
    });
    await Promise.race([this.#delivered, deadline]);
    clearTimeout(timer);
  }

  /** Stops deliveries. Undelivered facts stay in the table for the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#retry?.now();
    await this.#delivered;
    if (this.#nextTry) clearTimeout(this.#nextTry);
  }

  async #deliver(): Promise<void> {
    const { outbox } = this.#store;
    this.#delivering = true;
    // Batches all facts that are written in one turn of the event loop.
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
            // Continues to read in another turn of the event loop.
            await setImmediate();
            continue;
          }
          // Sends durable facts only. If a crash lost a sent fact, a new fact would get its number, and the control plane
          // would skip the new fact.
          await this.#store.synced([...new Set(events.map(appOf))]);
          await this.#send({ outbox: outbox.name(), events });
          outbox.remove(events);
          waiting.upTo = events.at(-1)!.seq;
          for (const event of events) this.#refused.delete(appOf(event));
          delay = RETRY_MIN_MS;
          limit = Math.min(FACTS_LIMIT, 2 * limit);
        } catch (error) {
          if (isRefusal(error)) {
            // Halves the batch to find the rejected fact, which must not block the facts of other apps.
            if (events.length === 1) this.#skip(events[0]!, error);
            else limit = Math.floor(events.length / 2);
            continue;
          }
          if (delay >= RETRY_MAX_MS)
            log(
              'warn',
              'changes of apps on this host could not be reported to the control plane; Cellar tries again',
              { error: reason(error) },
            );
          await this.#pause(delay);
          delay = Math.min(delay * 2, RETRY_MAX_MS);
        }
      }
    } finally {
      // Set in the same turn as the last read, so that a later fact starts a new delivery.
      this.#delivering = false;
    }
  }

  /** Skips all facts of the app, because later ones may not overtake this one. */
  #skip(event: HostEvent, error: unknown): void {
    const app = appOf(event);
    if (!this.#refused.has(app)) {
      log(
        'error',
        'the control plane refused a report of a change of an app; this and later reports of the app wait',
        {
          app,
          seq: event.seq,
          type: event.type,
          error: reason(error),
        },
      );
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

/** Whether the control plane has read the facts and rejected them. */
function isRefusal(error: unknown): boolean {
  const { status } = error as { status?: number };
  return status !== undefined && !BUSY.includes(status);
}
