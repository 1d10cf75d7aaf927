// What becomes of a request whose head was read: its site, its limits, and who answers it.
import { log, reason as messageOf } from '../log.ts';
import type { LocalAnswer } from './answers.ts';
import type { Exchange } from './exchange.ts';
import type { RequestHead } from './http/head/head.ts';
import { Limiter } from './limits/rate-limits.ts';
import { RefusalQueue } from './limits/refusal-queue.ts';
import { CLOSING, HELD_TOO_LONG, INTERNAL, TOO_MANY_HELD, tooManyRequests } from './refusals.ts';
import type { Resolve, Target } from './target.ts';
import { RequestQueues } from './upstream/request-queue.ts';

/** Sees each exchange to whoever answers it. */
export class Router {
  readonly #resolve: Resolve;
  readonly #requestQueues: RequestQueues;
  readonly #limiter = new Limiter();
  readonly #refusals = new RefusalQueue();

  /**
   * @param resolve for what comes by a port, or from a proxy of ours
   * @param holdTimeoutMs how long a request may be held in all
   */
  constructor(resolve: Resolve, holdTimeoutMs: number) {
    this.#resolve = resolve;
    this.#requestQueues = new RequestQueues(holdTimeoutMs);
  }

  /** Decides, and has the exchange answered or passed on. */
  route(exchange: Exchange): void {
    const { head } = exchange;
    try {
      const resolve = exchange.connection.resolve ?? this.#resolve;
      const target = resolve(head, exchange.spans);
      const wait = this.#secondsToWait(target, exchange);
      if (wait > 0) {
        exchange.connection.limited = true;
        this.#refusals.add(() => exchange.refuse(tooManyRequests(wait)));
        return;
      }
      if (target.kind === 'respond') {
        void this.#respond(exchange, target.respond);
        return;
      }
      exchange.backend = target.backend;
      exchange.call = target.call ?? null;
    } catch (error) {
      log('error', 'a request could not be routed', { host: head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
      return;
    }
    this.admit(exchange);
  }

  /** Asks the backend what to do with a request that was routed to it. */
  admit(exchange: Exchange): void {
    try {
      const admission = exchange.backend!.admit();
      if (admission.kind === 'forward') exchange.forward(admission.upstream);
      else if (admission.kind === 'refuse') exchange.refuse(admission);
      else void this.#hold(exchange, admission.ready);
    } catch (error) {
      log('error', 'a request could not be admitted', { host: exchange.head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
    }
  }

  /** Refuses what is held, and what would be held from now on. */
  refuseHeld(): void {
    this.#requestQueues.close();
  }

  /** Forgets visitors that have gone, for when nobody comes. */
  sweep(now: number): void {
    this.#limiter.sweep(now);
  }

  /** 0 unless a limit stops the request. */
  #secondsToWait({ limits }: Target, exchange: Exchange): number {
    if (limits === undefined) return 0;
    exchange.site = limits.site;
    return this.#limiter.admit(limits, exchange.client, exchange.tally.startedAt);
  }

  async #respond(
    exchange: Exchange,
    respond: (head: RequestHead) => LocalAnswer | Promise<LocalAnswer>,
  ): Promise<void> {
    try {
      const answer = await respond(exchange.head);
      if ('refusal' in answer) exchange.refuse(answer.refusal);
      else exchange.answer(answer);
    } catch (error) {
      log('error', 'a local answer failed', { host: exchange.head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
    }
  }

  async #hold(exchange: Exchange, ready: Promise<void>): Promise<void> {
    const outcome = await this.#requestQueues.wait(exchange, ready);
    if (outcome === 'ready') this.admit(exchange);
    else if (outcome === 'late') exchange.refuse(HELD_TOO_LONG);
    else if (outcome === 'full') exchange.refuse(TOO_MANY_HELD);
    else if (outcome === 'closed') exchange.refuse(CLOSING);
  }
}
