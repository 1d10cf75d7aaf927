// HOST calls for apps of other hosts: passes each on, as it comes and without a copy in memory.
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { HOP_COUNT, HOP_KEY, HOP_TO, PASSED } from '../edge/http/head/hosts-headers.ts';
import { reason } from '../log.ts';
import { Refusal } from '../refusal.ts';
import { clientLeft } from '../sockets/client-left.ts';
import type { Hosts } from './hosts.ts';
import type { Peer } from './peer.ts';
import type { Elsewhere } from './remote-backend.ts';

/** Between two hosts only. */
const OF_CONNECTION = ['connection', 'keep-alive', 'host'];

/** Whether an app is at this host, and how this host learns of others. */
export type AppsHere = Pick<Hosts, 'here' | 'askNow'>;

export class CallsElsewhere {
  readonly #elsewhere: Elsewhere & AppsHere;

  constructor(elsewhere: Elsewhere & AppsHere) {
    this.#elsewhere = elsewhere;
  }

  /**
   * Returns the host that a call is for; null when that is this one.
   * @param appId of the app that it names @param home the id of a host that it names
   * @throws {Refusal} 503 when that host does not answer, or is unknown
   */
  async hostOf(
    { headers }: IncomingMessage,
    appId: string | null,
    home: string | null,
  ): Promise<Peer | null> {
    const { homes, peers, here, askNow } = this.#elsewhere;
    if (headers[PASSED] !== undefined) return null;
    // Another host may just have got a new app.
    if (home === null && appId !== null && homes.get(appId) === undefined && !here(appId, null))
      await askNow();
    const id = home ?? (appId === null ? null : (homes.elsewhere(appId)?.id ?? null));
    if (id === null || id === homes.self) return null;
    const peer = peers.get(id);
    if (peer === undefined) throw new Refusal(503, 'host_unavailable', `there is no host ${id}`);
    if (peer.lost.aborted) throw noAnswer(peer);
    return peer;
  }

  /** Passes a call on, and its answer back. @throws {Refusal} 503 when the host does not answer */
  async pass(peer: Peer, call: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = { ...call.headers };
    for (const name of OF_CONNECTION) delete headers[name];
    const signal = AbortSignal.any([peer.lost, clientLeft(response)]);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = request({
      ...peer.target,
      method: call.method,
      path: call.url,
      headers: { ...headers, [HOP_KEY]: this.#elsewhere.key, [HOP_TO]: 'host', [HOP_COUNT]: '1' },
      agent: false,
      signal,
    });
    sent.on('response', resolve).on('error', reject);
    // The other host may answer before it has read everything.
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
    // A broken answer must not look complete: it ends the connection.
    await pipeline(answer, response).catch(() => response.destroy());
  }
}

function noAnswer({ name }: Peer, error?: unknown): Refusal {
  const why = error === undefined ? '' : `: ${reason(error)}`;
  return new Refusal(503, 'host_unavailable', `the host ${name}, which runs the app, does not answer${why}`);
}
