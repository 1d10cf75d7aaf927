// Another host, as this one reaches it: connections to its private gateway, and pings.
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KnownHost } from '../../handlers/contract/host/hosts.ts';
import { HOP_APP, HOP_COUNT, HOP_KEY, HOP_TO, KNOWN_QUEUES } from '../edge/http/head/hop-names.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import { log } from '../log.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import { CONSUMED_QUEUES_BYTES, type ConsumedQueues } from './consumed-queues.ts';

const PING_EVERY_MS = 2_000;
const PING_DEADLINE_MS = 2_000;
/** Deadline for the classes of an app, whose release the other host may have to get from the bucket. */
const CLASSES_DEADLINE_MS = 10_000;
/** Maximum bytes of the answer with an app's classes. */
const CLASSES_BYTES = 1024 * 1024;
/** Consecutive pings without an answer after which the host counts as lost: about 6 s. */
const PINGS_MISSED_LIMIT = 3;
/** How long a failed request waits until it is sent again, in ms. A change of an app's home or of a host ends the wait. */
const AGAIN_MS = 1_000;

export class Peer {
  readonly id: string;
  readonly name: string;
  readonly address: string;
  readonly #key: string;
  readonly #onChange: () => void;
  readonly #target: { host: string; port: number };
  readonly #timer: NodeJS.Timeout;
  #upstream: Upstream;
  /** Queues that its apps consume, as of its newest answer. */
  queues: readonly ConsumedQueues[] = [];
  #knownQueues = '';
  #missed = 0;
  #pinging = false;
  #lost = new AbortController();
  /** Set after a request could not be sent. Settles when requests may be sent again. */
  #again: Promise<void> | null = null;

  /**
   * @param key the secret of the hosts
   * @param onChange called when the host is lost, when it answers again, and when `queues` has changed
   */
  constructor({ id, name, address }: KnownHost, key: string, onChange: () => void) {
    this.id = id;
    this.name = name;
    this.address = address;
    this.#key = key;
    this.#onChange = onChange;
    this.#target = targetOf(address);
    this.#upstream = new Upstream(this.#target);
    this.#timer = setInterval(() => void this.ping(), PING_EVERY_MS).unref();
    void this.ping();
  }

  /** Connections to its private gateway. */
  get upstream(): Upstream {
    return this.#upstream;
  }

  /** Where its private gateway listens. */
  get target(): { host: string; port: number } {
    return this.#target;
  }

  /** Whether `queues` is known. */
  get hasReported(): boolean {
    return this.#knownQueues !== '';
  }

  /** How long the other host has not answered, in ms. Time in which this host was frozen itself does not count. */
  get unansweredMs(): number {
    return this.#missed * PING_EVERY_MS;
  }

  /** Aborted when the other host is lost. Once that host answers again, there is a new signal. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Set after a request could not be sent. Settles when requests may be sent again; null when they may now. */
  get waiting(): Promise<void> | null {
    return this.#again;
  }

  /**
   * Call it when a request has failed. Settles when the request may be sent again. Never rejects.
   * @param changed settles when a home or a host has changed
   * @param wasReached whether the host accepted the connection. Then only this request waits, because it may be the cause
   */
  again(changed: Promise<void>, wasReached: boolean): Promise<void> {
    if (this.#again !== null) return this.#again;
    if (wasReached) return Promise.race([sleep(AGAIN_MS), changed]);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, AGAIN_MS);
    const again = Promise.race([promise, changed]).then(() => {
      clearTimeout(timer);
      this.#again = null;
    });
    this.#again = again;
    return again;
  }

  /** Asks the other host whether it answers. Never rejects. */
  async ping(): Promise<void> {
    if (this.#pinging) return;
    this.#pinging = true;
    const answers = await this.#answers();
    this.#pinging = false;
    if (answers) this.#answered();
    else this.#unanswered();
  }

  /**
   * Asks the other host for the unique keys of an app's Durable Object classes, by class name.
   * @throws {Error} when it does not answer within `CLASSES_DEADLINE_MS`, or with too many bytes
   */
  async classesOf(appId: string): Promise<Record<string, string>> {
    const asked = { [HOP_TO]: 'classes', [HOP_APP]: appId };
    const { body } = await this.#ask(asked, CLASSES_DEADLINE_MS, CLASSES_BYTES);
    return JSON.parse(body);
  }

  /** Stops the pings and destroys all connections. */
  close(): void {
    clearInterval(this.#timer);
    this.#lost.abort(new Error(`the host ${this.name} is gone`));
    this.#upstream.destroy();
  }

  async #answers(): Promise<boolean> {
    const asked = { [HOP_TO]: 'ping', [KNOWN_QUEUES]: this.#knownQueues };
    try {
      const { body, headers } = await this.#ask(asked, PING_DEADLINE_MS, CONSUMED_QUEUES_BYTES);
      if (body !== '') this.queues = JSON.parse(body);
      this.#knownQueues = String(headers[KNOWN_QUEUES]);
      // A message may be waiting until the consumer of its queue is known.
      if (body !== '') this.#onChange();
      return true;
    } catch {
      return false;
    }
  }

  /** @throws {Error} without a whole answer of at most `limitBytes` within `deadlineMs` */
  async #ask(
    asked: Record<string, string>,
    deadlineMs: number,
    limitBytes: number,
  ): Promise<{ body: string; headers: IncomingHttpHeaders }> {
    const signal = AbortSignal.timeout(deadlineMs);
    const headers = { [HOP_KEY]: this.#key, [HOP_COUNT]: '1', ...asked };
    const sent = request({ ...this.#target, headers, agent: false, signal });
    // `error` fires again when the answer breaks off, after `once` has stopped listening.
    sent.on('error', () => {});
    const [answer] = (await once(sent.end(), 'response')) as [IncomingMessage];
    const body = await readAtMost(answer, limitBytes);
    if (answer.statusCode !== 200 || body === null)
      throw new Error(`the host ${this.name} did not answer with the expected response`);
    return { body: body.toString('utf8'), headers: answer.headers };
  }

  #answered(): void {
    const wasLost = this.#lost.signal.aborted;
    this.#missed = 0;
    if (!wasLost) return;
    this.#lost = new AbortController();
    log('info', 'another host answers again', { host: this.name, address: this.address });
    this.#onChange();
  }

  #unanswered(): void {
    this.#missed++;
    if (this.#missed !== PINGS_MISSED_LIMIT) return;
    log('warn', 'another host does not answer', { host: this.name, address: this.address });
    const { upstream } = this;
    this.#upstream = new Upstream(this.#target);
    this.#lost.abort(new Error(`the host ${this.name} does not answer`));
    // Otherwise requests to the lost host could hang for ever. Ended requests that are safe to repeat are sent again.
    upstream.destroy();
    this.#onChange();
  }
}

function targetOf(address: string): { host: string; port: number } {
  const at = address.lastIndexOf(':');
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
}
