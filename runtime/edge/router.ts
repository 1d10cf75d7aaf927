// Routes a request whose head was read: finds its site, applies the rate limits, and passes it to its backend.
import { log, reason as messageOf } from '../log.ts';
import type { Exchange } from './exchange.ts';
import { Limiter } from './limits/rate-limits.ts';
import { RefusalQueue } from './limits/refusal-queue.ts';
import { Shares } from './limits/shares.ts';
import {
  CLOSING,
  INTERNAL,
  QUEUED_TOO_LONG,
  SHARE_USED,
  TOO_MANY_HELD,
  tooManyRequests,
} from './refusals.ts';
import type { Resolve, Respond, Target } from './target.ts';
import { RequestQueues } from './upstream/request-queue.ts';

export class Router {
  readonly #resolve: Resolve;
  readonly #requestQueues: RequestQueues;
  readonly #limiter = new Limiter();
  readonly #refusals = new RefusalQueue();
  readonly #shares: Shares;

  /**
   * @param resolve routes the requests of connections that have no `resolve` of their own
   * @param holdTimeoutMs longest total time that a request may be queued, in ms
   * @param shareMax maximum number of open requests with the same `share` (see `Target`)
   */
  constructor(resolve: Resolve, holdTimeoutMs: number, shareMax?: number) {
    this.#shares = new Shares(shareMax);
    this.#resolve = resolve;
    this.#requestQueues = new RequestQueues(holdTimeoutMs);
  }

  /** Routes a request: refuses it, answers it, or passes it to its backend. */
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
      if (!this.#takeShare(target, exchange)) {
        this.#refusals.add(() => exchange.refuse(SHARE_USED));
        return;
      }
    } catch (error) {
      log('error', 'a request could not be routed', { host: head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
      return;
    }
    this.admit(exchange);
  }

  /** Stops counting a request that has ended. */
  ended({ share }: Exchange): void {
    if (share !== null) this.#shares.give(share);
  }

  /** Asks the backend what to do with a request that was routed to it. */
  admit(exchange: Exchange): void {
    try {
      const admission = exchange.backend!.admit();
      if (admission.kind === 'forward') exchange.forward(admission.upstream, admission.hop);
      else if (admission.kind === 'refuse') exchange.refuse(admission);
      else if (admission.kind === 'answer') exchange.answer(admission.answer);
      else this.hold(exchange, admission.ready);
    } catch (error) {
      log('error', 'a request could not be admitted', { host: exchange.head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
    }
  }

  /** Queues a request, and asks its backend again when `ready` settles, which never rejects. */
  hold(exchange: Exchange, ready: Promise<void>): void {
    void this.#hold(exchange, ready);
  }

  /** Refuses queued requests, and requests that would be queued later. */
  refuseHeld(): void {
    this.#requestQueues.close();
  }

  /** Deletes the counters of idle visitors. Call it regularly, because otherwise only new requests delete them. */
  sweep(now: number): void {
    this.#limiter.sweep(now);
  }

  /** Returns the seconds until a retry if a rate limit refuses the request; otherwise 0. */
  #secondsToWait({ limits }: Target, exchange: Exchange): number {
    if (limits === undefined) return 0;
    exchange.site = limits.site;
    return this.#limiter.admit(limits, exchange.client, exchange.tally.startedAt);
  }

  #takeShare({ share }: Target, exchange: Exchange): boolean {
    if (share === undefined) return true;
    if (!this.#shares.take(share)) return false;
    exchange.share = share;
    return true;
  }

  async #respond(exchange: Exchange, respond: Respond): Promise<void> {
    try {
      const answer = await respond(exchange.head, exchange.client);
      if ('refusal' in answer) exchange.refuse(answer.refusal);
      else exchange.answer(answer);
    } catch (error) {
      log('error', 'the response to a request could not be made', {
        host: exchange.head.host,
        reason: messageOf(error),
      });
      exchange.refuse(INTERNAL);
    }
  }

  async #hold(exchange: Exchange, ready: Promise<void>): Promise<void> {
    const outcome = await this.#requestQueues.wait(exchange, ready);
    if (outcome === 'ready') this.admit(exchange);
    else if (outcome === 'late') exchange.refuse(QUEUED_TOO_LONG);
    else if (outcome === 'full') exchange.refuse(TOO_MANY_HELD);
    else if (outcome === 'closed') exchange.refuse(CLOSING);
  }
}
