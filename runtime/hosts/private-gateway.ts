// Routes requests of the other hosts to this host's apps, and to its server for calls of the `HOST` binding. A request
// without the hosts' key gets a 404.
import type { LocalAnswer, RequestHead, Target } from '../edge/gateway.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import {
  HOP_APP,
  HOP_COUNT,
  HOP_DEPTH,
  HOP_GENERATION,
  HOP_KEY,
  HOP_SOCKET,
  HOP_TO,
  KNOWN_QUEUES,
  PASSED,
} from '../edge/http/head/hop-names.ts';
import type { Hopping } from '../edge/http/head/hosts-headers.ts';
import { CALL_HEADER } from '../edge/http/head/service-headers.ts';
import type { Call, Resolve } from '../edge/target.ts';
import type { Admission, Backend, Refused } from '../edge/upstream/backend.ts';
import type { CallDepths } from './call-depths.ts';
import { type ConsumedQueues, OwnQueues } from './consumed-queues.ts';
import { keyCheck } from './hosts-key.ts';
import { type Elsewhere, HOPS_MAX, RemoteBackend } from './remote-backend.ts';

export interface PrivateGatewayOptions extends Elsewhere {
  /** Returns an app of this host for a request's headers; with `previewHost`, the app's preview of that host name. */
  here: (appId: string, previewHost: string | null, headers: readonly string[]) => Backend | undefined;
  /** Whether this host has an app. */
  has: (appId: string) => boolean;
  /** Routes a visitor's request to an app or a preview of this host, without limits. Answers 404 for an unknown preview. */
  toApp: (head: RequestHead, appId: string, previewHost: string | null) => Target;
  /** Wakes an app of this host; does nothing for an unknown one. */
  wake: (appId: string) => Target;
  /** Asks the control plane where apps are. Never rejects. */
  ask: () => Promise<void>;
  /** Returns the unique keys of an app's classes of Durable Objects, by class name. */
  classes: (appId: string) => Promise<Record<string, string>>;
  /** Returns which apps of this host consume which queues, for the other hosts. */
  queues: () => ConsumedQueues[];
  /** Counts the depth of calls between apps. */
  depths: CallDepths;
  /** The server for calls of the control plane's `HOST` binding. */
  hostCalls: Backend;
}

/** Returns the function that routes the requests of other hosts. */
export function privateGateway(options: PrivateGatewayOptions): Resolve {
  const { here, has, key, toApp, wake, classes, queues, depths, hostCalls } = options;
  const isKey = keyCheck(key);
  const consumed = new OwnQueues(queues);

  return (head, { spanId }) => {
    const value = (name: string) => headerValue(head.headers, name);
    if (!isKey(value(HOP_KEY))) return NOTHING;
    const hops = Number(value(HOP_COUNT));
    if (!Number.isInteger(hops) || hops < 1 || hops > HOPS_MAX) return LOOP;
    const to = value(HOP_TO) as Hopping | undefined;
    const appId = value(HOP_APP) ?? '';
    if (to === 'ping') return { kind: 'respond', respond: () => pong(value(KNOWN_QUEUES)) };
    if (to === 'host') return { kind: 'proxy', backend: hostCalls, call: passedOn(hops) };
    if (to === 'wake') return wake(appId);
    // Only for an app that is here: an empty answer would mean that the app has no classes.
    if (to === 'classes' && has(appId))
      return {
        kind: 'respond',
        respond: async () => ({ status: 200, headers: {}, body: JSON.stringify(await classes(appId)) }),
      };
    if (to !== 'app' && to !== 'preview' && to !== 'call') return NOTHING;
    const call = to === 'call' ? callOf(head, spanId, depths) : undefined;
    return at(head, to, appId, hops, Number(value(HOP_GENERATION)), call);
  };

  /** Answers a ping with the consumed queues, unless the other host has them. @param known digest of the list it has */
  function pong(known: string | undefined): LocalAnswer {
    const { body, digest } = consumed.look();
    return { status: 200, headers: { [KNOWN_QUEUES]: digest }, body: known === digest ? '' : body };
  }

  /**
   * Routes a request or a call to an app, on this host or another one.
   * @param generation of the app, as the sending host knows it: each change of the app's wanted state raises it
   */
  function at(
    head: RequestHead,
    to: Hopping,
    appId: string,
    hops: number,
    generation: number,
    call?: Call,
  ): Target {
    const previewHost = to === 'preview' ? head.host : null;
    if (has(appId) && to !== 'call') return { ...toApp(head, appId, previewHost), share: appId };
    const find = () => here(appId, previewHost, head.headers);
    const elsewhere = new RemoteBackend(options, appId, to, find, hops);
    const backend = new ArrivingApp(options, elsewhere, find, generation);
    const limits = { site: appId, clientRpm: 0, appRpm: 0 };
    return { kind: 'proxy', backend, limits, share: appId, ...(call && { call }) };
  }
}

/** Serves one request to an app that may be about to arrive. The request waits until it is known where the app is. */
class ArrivingApp implements Backend {
  readonly #around: PrivateGatewayOptions;
  readonly #elsewhere: Backend;
  readonly #here: () => Backend | undefined;
  readonly #generation: number;
  /** The value of `Homes.changed` when the control plane was asked; null before that. */
  #asked: Promise<void> | null = null;

  /**
   * @param elsewhere backend of the app at another host
   * @param generation of the app, as the sending host knows it. If this host knows no newer one, the app is about to
   * arrive
   */
  constructor(
    around: PrivateGatewayOptions,
    elsewhere: Backend,
    here: () => Backend | undefined,
    generation: number,
  ) {
    this.#around = around;
    this.#elsewhere = elsewhere;
    this.#here = here;
    this.#generation = generation;
  }

  get site(): string {
    return this.#elsewhere.site;
  }

  admit(): Admission {
    const here = this.#here();
    if (here !== undefined) return here.admit();
    const { homes, peers, ask } = this.#around;
    const route = homes.get(this.site);
    if (route !== undefined && route.generation > this.#generation) return this.#elsewhere.admit();
    if (route !== undefined) return { kind: 'hold', ready: peers.changed };
    // Without a route, the app is new to this host, or was deleted.
    if (this.#asked === null) {
      this.#asked = homes.changed;
      return { kind: 'hold', ready: ask() };
    }
    return this.#asked === homes.changed ? { kind: 'hold', ready: homes.changed } : DELETED;
  }
}

/** Returns the call of another app, from the headers of the sending host. */
function callOf({ headers }: RequestHead, spanId: string, depths: CallDepths): Call {
  const depth = Number(headerValue(headers, HOP_DEPTH) ?? 1);
  const described = headerValue(headers, CALL_HEADER);
  return {
    socketName: headerValue(headers, HOP_SOCKET) ?? null,
    lines: described === undefined ? '' : `${CALL_HEADER}: ${described}\r\n`,
    endsItself: described !== undefined && ['rpc', 'email'].includes(JSON.parse(described).kind),
    hopLines: `${HOP_DEPTH}: ${depth}\r\n`,
    ended: depths.begin(spanId, depth),
  };
}

/** Returns a call of the `HOST` binding, with a header that says how many hosts have passed it on. */
function passedOn(hops: number): Call {
  return { socketName: null, lines: `${PASSED}: ${hops}\r\n`, endsItself: false, ended: () => {} };
}

const DELETED: Refused = {
  ...{ kind: 'refuse', status: 404, code: 'unknown_host', reason: 'unknown_host' },
  detail: 'The app that answered here was deleted.',
};
const NOTHING: Target = { kind: 'respond', respond: () => ({ status: 404, headers: {}, body: '' }) };
const LOOP: Target = {
  kind: 'respond',
  respond: () => ({
    refusal: { status: 508, code: 'loop_detected', detail: 'Too many hosts have passed the request on.' },
  }),
};
