// Passes calls of the control plane's `HOST` binding on to the host that has the app. Bodies are streamed.
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { HOP_COUNT, HOP_KEY, HOP_TO, PASSED } from '../edge/http/head/hop-names.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import { reason } from '../log.ts';
import { Refusal } from '../refusal.ts';
import { clientLeft } from '../sockets/client-left.ts';
import type { Peer } from './peer.ts';
import { type Elsewhere, HOPS_MAX } from './remote-backend.ts';

/** Headers that belong to one connection, so they are not passed on. */
const OF_CONNECTION = ['connection', 'keep-alive', 'host'];

/** How long a call waits for an app that is on its way to this host, in ms. */
const ARRIVAL_MS = 10_000;

interface Around extends Elsewhere {
  /** Returns an app of this host. */
  here: (appId: string, previewHost: null) => Backend | undefined;
  /** Asks the control plane for routes now. Never rejects. */
  askNow: () => Promise<void>;
}

export class CallsElsewhere {
  readonly #around: Around;

  constructor(around: Around) {
    this.#around = around;
  }

  /**
   * Returns the host that a call is for. Null for this host, an unknown app, or a call that names neither app nor host.
   * @param appId the app that the call names; null for none
   * @param home the id of the host that the call names; null for none
   * @throws {Refusal} 503 when that host does not answer or is unknown, or `HOPS_MAX` hosts have passed the call on
   */
  async hostOf(
    { headers }: IncomingMessage,
    appId: string | null,
    home: string | null,
  ): Promise<Peer | null> {
    const { homes, here } = this.#around;
    const hops = Number(headers[PASSED] ?? 0);
    if (home !== null) return hops > 0 ? null : this.#peer(home);
    if (appId === null || here(appId, null) !== undefined) return null;
    if (homes.get(appId) === undefined) await this.#around.askNow();
    const route = homes.get(appId);
    if (route === undefined) return null;
    if (route.home === homes.self) {
      await this.#arrival(appId);
      return null;
    }
    if (hops >= HOPS_MAX) throw new Refusal(503, 'host_unavailable', 'the app is moving to another host');
    return this.#peer(route.home);
  }

  async #peer(id: string): Promise<Peer | null> {
    const { homes, peers } = this.#around;
    if (id === homes.self) return null;
    // The control plane may know a new host before this host does.
    if (peers.get(id) === undefined) await this.#around.askNow();
    const peer = peers.get(id);
    if (peer === undefined) throw new Refusal(503, 'host_unavailable', `there is no host ${id}`);
    if (peer.lost.aborted) throw noAnswer(peer);
    return peer;
  }

  /** Resolves when an app is on this host, or after `ARRIVAL_MS`. */
  async #arrival(appId: string): Promise<void> {
    const { here, peers } = this.#around;
    const late = sleep(ARRIVAL_MS, true, { ref: false });
    while (here(appId, null) === undefined) if (await Promise.race([peers.changed, late])) return;
  }

  /** Passes a call on to a host, and the response back. @throws {Refusal} 503 when the host does not answer */
  async pass(peer: Peer, call: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = { ...call.headers };
    for (const name of OF_CONNECTION) delete headers[name];
    const signal = AbortSignal.any([peer.lost, clientLeft(response)]);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request({
      ...peer.target,
      method: call.method,
      path: call.url,
      headers: {
        ...headers,
        [HOP_KEY]: this.#around.key,
        [HOP_TO]: 'host',
        [HOP_COUNT]: String(Number(call.headers[PASSED] ?? 0) + 1),
      },
      agent: false,
      signal,
    });
    sent.on('response', resolve).on('error', reject);
    // A broken pipe is not a failure: the other host may answer before it has read everything.
    pipeline(call, sent).catch(() => {});
    let answer: IncomingMessage;
    try {
      answer = await promise;
    } catch (error) {
      if (response.destroyed) return;
      throw noAnswer(peer, error);
    }
    const received = { ...answer.headers };
    for (const name of OF_CONNECTION) delete received[name];
    response.writeHead(answer.statusCode!, received);
    response.flushHeaders();
    // A broken answer must not look complete, so the connection is destroyed.
    await pipeline(answer, response).catch(() => response.destroy());
  }
}

function noAnswer({ name }: Peer, error?: unknown): Refusal {
  const why = error === undefined ? '' : `: ${reason(error)}`;
  return new Refusal(503, 'host_unavailable', `the host ${name}, which runs the app, does not answer${why}`);
}
