// An app that another host runs, as a backend of the gateway.
import type { KnownHost } from '../../handlers/contract/host/hosts.ts';
import { HOP_APP, HOP_COUNT, HOP_GENERATION, HOP_KEY, HOP_TO } from '../edge/http/head/hop-names.ts';
import type { Hopping } from '../edge/http/head/hosts-headers.ts';
import type { Admission, Backend, Hop, Refused } from '../edge/upstream/backend.ts';
import type { Homes } from './homes.ts';
import type { Peer } from './peer.ts';
import type { Peers } from './peers.ts';

/** Maximum hosts that pass a request on: the one that the client reached, and one that the app has just left. */
export const HOPS_MAX = 2;

/** What the backends of all apps on other hosts share. */
export interface Elsewhere {
  homes: Homes;
  peers: Peers;
  /** The secret by which the hosts authenticate each other. */
  key: string;
}

export class RemoteBackend implements Backend {
  /** The id of the app. */
  readonly site: string;
  readonly #elsewhere: Elsewhere;
  readonly #to: Hopping;
  readonly #here: () => Backend | undefined;
  readonly #hops: number;
  /** The `Hop` of the previous request, which later requests reuse until the home, the peer or the generation changes. */
  #hop: { home: KnownHost; peer: Peer; generation: number; hop: Hop } | null = null;

  /**
   * @param here returns the app once it is at this host
   * @param hops how many hosts have passed its requests on
   */
  constructor(
    elsewhere: Elsewhere,
    appId: string,
    to: Hopping,
    here: () => Backend | undefined,
    hops: number,
  ) {
    this.#elsewhere = elsewhere;
    this.#here = here;
    this.site = appId;
    this.#to = to;
    this.#hops = hops;
  }

  admit(): Admission {
    const { homes, peers } = this.#elsewhere;
    const home = homes.elsewhere(this.site);
    const held: Admission = { kind: 'hold', ready: peers.changed };
    // The app has just moved here, is moving here or was deleted, or its home is unknown.
    if (home === null)
      return this.#here()?.admit() ?? (homes.isOnRemovedHost(this.site) ? HOST_REMOVED : held);
    if (this.#hops >= HOPS_MAX) return held;
    const isLocal = homes.get(this.site)?.storage === 'local';
    if (home.state === 'silent') {
      if (isLocal) return hostSilent(home);
      homes.awaits(this.site, home.id);
      return held;
    }
    const peer = peers.get(home.id);
    if (peer === undefined || peer.lost.aborted) return held;
    if (peer.waiting !== null) return { kind: 'hold', ready: peer.waiting };
    return { kind: 'forward', upstream: peer.upstream, hop: this.#hopTo(home, peer) };
  }

  #hopTo(home: KnownHost, peer: Peer): Hop {
    const { homes, peers, key } = this.#elsewhere;
    const { generation } = homes.get(this.site)!;
    const known = this.#hop;
    if (known?.home === home && known.peer === peer && known.generation === generation) return known.hop;
    const linesOf = (to: Hopping) =>
      `${HOP_KEY}: ${key}\r\n${HOP_TO}: ${to}\r\n${HOP_APP}: ${this.site}\r\n` +
      `${HOP_GENERATION}: ${generation}\r\n${HOP_COUNT}: ${this.#hops + 1}\r\n`;
    const own = linesOf(this.#to);
    const ofCalls = linesOf('call');
    const hop: Hop = {
      host: home.name,
      // Calls from other apps also come here: they waited for the app's process when the app left this host.
      lines: (isCall) => (isCall ? ofCalls : own),
      again: (wasReached) => peer.again(peers.changed, wasReached),
    };
    this.#hop = { home, peer, generation, hop };
    return hop;
  }
}

const HOST_REMOVED: Refused = {
  kind: 'refuse',
  status: 503,
  code: 'app_unavailable',
  reason: 'no_answer',
  detail:
    'The data of this app is on the disk of a host that was removed from this Cellar. The app is back when that host is.',
};

function hostSilent({ name }: KnownHost): Refused {
  return {
    kind: 'refuse',
    status: 503,
    code: 'app_unavailable',
    reason: 'no_answer',
    detail: `The data of this app is on the disk of the host ${name}, which does not answer. The app is back when that host is.`,
    retryAfterS: 5,
  };
}
