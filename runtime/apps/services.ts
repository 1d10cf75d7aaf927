// Routes an app's calls, which arrive at a socket of the gateway that only this app can use. They go to services, queues,
// tail Workers and outbound Workers of the same owner's apps, and to scripts of dispatch namespaces. Answers calls for
// secrets of Secrets Stores. The app may use only the bindings with which its process was started.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { DispatchBinding, StoreSecretBinding } from '../../bundler/release.ts';
import { DISPATCH_NAME, nameOfScript, scriptKey, slugOfScript } from '../../handlers/contract/apps/slug.ts';
import { someOf } from '../../handlers/contract/text.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { Gateway, RequestHead, Spans, Target } from '../edge/gateway.ts';
import { asciiJson } from '../edge/http/body/ascii-json.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import { HOP_DEPTH } from '../edge/http/head/hop-names.ts';
import {
  CALL_HEADER,
  CALLING_HEADER,
  NO_SCRIPT_HEADER,
  OBJECT_HEADER,
  OUTBOUND_HEADER,
  SCRIPT_HEADER,
} from '../edge/http/head/service-headers.ts';
import type { Refusal } from '../edge/refusals.ts';
import type { Call } from '../edge/target.ts';
import type { Admission, Backend } from '../edge/upstream/backend.ts';
import type { Fleet } from '../fleets/life/fleet.ts';
import type { Calls, ServiceAccess } from '../fleets/process/service-access.ts';
import type { CallDepths } from '../hosts/call-depths.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { giveSocket, makeTraversable } from '../isolation/rights.ts';
import type { AppUsers } from '../isolation/users.ts';
import { logRarely, reason } from '../log.ts';
import type { KnownApps } from './known/known-apps.ts';
import { OutboundCalls } from './outbounds.ts';
import type { StoreSecrets } from './store-secrets.ts';

/** Maximum number of concurrent calls of one app. This also stops apps that call each other in a cycle. */
const CALLS_MAX = 1_000;
/** Longest chain of calls for one request, as on Cloudflare. */
const DEPTH_MAX = 16;
const SOCKET = 'services.sock';
/**
 * Longest name of a Durable Object that is passed on to it, in UTF-8 bytes, as on Cloudflare. An object with a longer name
 * does not learn its name.
 */
const NAME_BYTES = 1_024;

export interface ServicesOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  baseDomain: string;
  gateway: () => Gateway;
  apps: () => KnownApps;
  /** Null in a Cellar of one host. */
  hosts: Hosts | null;
  /** The depths of the calls of all apps on this host. */
  depths: CallDepths;
  /** Records the outbound Workers of scripts. */
  store: ConstructorParameters<typeof OutboundCalls>[0];
  /** The secrets of the accounts' Secrets Stores. */
  storeSecrets: Pick<StoreSecrets, 'get'>;
}

/** An app that calls other apps. */
interface Caller {
  /** The bindings that its process may use. */
  calls: Calls;
  /** Number of running calls. */
  running: number;
  /** Resolves with a function that closes its socket. */
  listening: Promise<() => void>;
}

export class Services {
  readonly #options: ServicesOptions;
  readonly #callers = new Map<string, Caller>();
  readonly #outbounds: OutboundCalls;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.#outbounds = new OutboundCalls(options.store);
  }

  /** Returns an app's access to the apps of its bindings. */
  access(appId: string): ServiceAccess {
    const socketOf = () => this.#socket(appId);
    const hasOutbound = () => this.#outbounds.has(appId);
    return {
      get hasOutbound() {
        return hasOutbound();
      },
      get socket() {
        return socketOf();
      },
      open: async (calls) => {
        const known = this.#callers.get(appId);
        if (known !== undefined) known.calls = calls;
        else if (hasOutbound() || Object.values(calls).some((list) => list.length > 0)) {
          const caller: Caller = { calls, running: 0, listening: this.#listen(appId) };
          this.#callers.set(appId, caller);
          // The next start of the process tries to listen again.
          caller.listening.catch(() => {
            if (this.#callers.get(appId) === caller) this.#callers.delete(appId);
          });
        }
        await this.#callers.get(appId)?.listening;
      },
    };
  }

  /** Closes the socket of an app that was deleted or has left this host. */
  forget(appId: string): void {
    void this.#callers.get(appId)?.listening.then(
      (end) => end(),
      () => {},
    );
    this.#callers.delete(appId);
    this.#outbounds.forget(appId);
  }

  #socket(appId: string): string {
    return join(this.#options.paths.run(appId), SOCKET);
  }

  async #listen(appId: string): Promise<() => void> {
    const { paths, users, gateway } = this.#options;
    const { cell } = users(appId);
    makeTraversable(paths.run(appId), cell);
    const socket = this.#socket(appId);
    const end = await gateway().listenService(socket, (head, spans) => this.#resolve(appId, head, spans));
    giveSocket(socket, cell);
    return end;
  }

  #resolve(callerId: string, head: RequestHead, spans: Spans): Target {
    const caller = this.#callers.get(callerId);
    const [way, number] = (headerValue(head.headers, CALLING_HEADER) ?? '').split(' ');
    if (caller === undefined) return NO_BINDING;
    if (way === 'queue') return this.#toQueue(callerId, caller, caller.calls.queues[Number(number)], spans);
    if (way === 'tail')
      return this.#toTail(callerId, caller, caller.calls.tails[Number(number)], head, spans);
    if (way === 'dispatch')
      return this.#toScript(callerId, caller, caller.calls.namespaces[Number(number)], head, spans);
    if (way === 'outbound') return this.#toOutbound(callerId, caller, head, spans);
    if (way === 'secret') return this.#toSecret(callerId, caller.calls.secrets[Number(number)]);
    const binding = caller.calls.services[Number(number)];
    if (binding === undefined || (way !== 'fetch' && way !== 'rpc')) return NO_BINDING;
    const name = binding.service!;
    const target = this.#sibling(callerId, name, head.headers);
    if (target === null) return noApp(name);
    const { entrypoint, props, className } = binding;
    const object = className === undefined ? null : objectOf(head);
    if (object === undefined) return NO_OBJECT;
    const isPlain = way === 'fetch' && entrypoint === undefined && props === undefined && object === null;
    const asked = object === null ? { entrypoint, props } : { object: { className, ...object } };
    return this.#call(caller, named(name, target), spans, {
      socketName: isPlain ? null : 'exports',
      lines: isPlain ? '' : callLine({ kind: way, ...asked }),
      endsItself: way === 'rpc',
    });
  }

  /** Routes a request to a script of a dispatch namespace of the owner. */
  #toScript(
    callerId: string,
    caller: Caller,
    binding: DispatchBinding | undefined,
    { headers }: RequestHead,
    spans: Spans,
  ): Target {
    const [script = '', call = ''] = (headerValue(headers, SCRIPT_HEADER) ?? '').split(' ', 2);
    const owner = this.#options.apps().get(callerId)?.wanted.owner;
    if (binding === undefined || owner === undefined) return NO_BINDING;
    const { namespace, outbound } = binding;
    if (!DISPATCH_NAME.test(script)) return noScript(call);
    const key = scriptKey(owner, namespace, script);
    const slug = slugOfScript(createHash('sha256').update(key).digest('hex'));
    const unknown = { ...NO_SIBLING, headers: { [NO_SCRIPT_HEADER]: call } };
    const target = this.#sibling(callerId, slug, headers, nameOfScript(slug), unknown);
    if (target === null) return noScript(call);
    const to = { socketName: null, lines: '', endsItself: false };
    if (outbound === undefined) return this.#call(caller, named(script, target), spans, to);
    const fleet = this.#options.apps().resolve(nameOfScript(slug));
    const chosen = fleet && this.#options.apps().get(fleet.site)?.fleetFor(headers);
    if (chosen === undefined) return refuse(ELSEWHERE.status, ELSEWHERE.code, ELSEWHERE.detail);
    const values = headerValue(headers, OUTBOUND_HEADER) ?? '{}';
    const { name, ended } = this.#outbounds.begin(chosen.site, { service: outbound.service, values });
    const watched = named(script, outboundOnly(chosen));
    const routed = this.#call(caller, watched, spans, { ...to, lines: `${OUTBOUND_HEADER}: ${name}\r\n` });
    if (routed.kind !== 'proxy') ended();
    else {
      const { ended: forget } = routed.call!;
      routed.call!.ended = () => {
        forget();
        ended();
      };
    }
    return routed;
  }

  /** Routes what a script fetches to its outbound Worker. */
  #toOutbound(callerId: string, caller: Caller, { headers }: RequestHead, spans: Spans): Target {
    const outbound = this.#outbounds.find(callerId, headerValue(headers, OUTBOUND_HEADER));
    if (outbound === undefined) return NO_BINDING;
    const { service, values } = outbound;
    const target = this.#sibling(callerId, service, headers);
    if (target === null) return noApp(service);
    return this.#call(caller, named(service, target), spans, {
      socketName: 'exports',
      lines: `${callLine({ kind: 'outbound' })}${OUTBOUND_HEADER}: ${values}\r\n`,
      endsItself: false,
    });
  }

  /** Answers with the value of a secret of the owner's Secrets Store. */
  #toSecret(callerId: string, binding: StoreSecretBinding | undefined): Target {
    const owner = this.#options.apps().get(callerId)?.wanted.owner;
    if (binding === undefined || owner === undefined) return NO_BINDING;
    const { store, secret: name } = binding;
    const respond = async () => {
      const value = await this.#options.storeSecrets.get({ owner, store, name }).catch((error: unknown) => {
        logRarely('warn', 'a secret of a Secrets Store cannot be read', {
          app: callerId,
          error: reason(error),
        });
      });
      if (value === undefined) return { refusal: UNREADABLE };
      const headers = { 'content-type': 'text/plain; charset=utf-8' };
      return { status: value === null ? 404 : 200, headers, body: value ?? '' };
    };
    return { kind: 'respond', respond };
  }

  /** Routes events of the calling app to the app with its tail Worker. */
  #toTail(
    callerId: string,
    caller: Caller,
    name: string | undefined,
    { headers }: RequestHead,
    spans: Spans,
  ): Target {
    if (name === undefined) return NO_BINDING;
    const target = this.#sibling(callerId, name, headers);
    if (target === null) return noApp(name);
    const apps = this.#options.apps();
    const lines = callLine({ kind: 'tail', from: apps.slugOf(apps.originOf(callerId)) });
    return this.#call(caller, named(name, target), spans, {
      socketName: 'exports',
      lines,
      endsItself: false,
    });
  }

  /** Routes a message to the app that consumes the queue. The message is acknowledged once that app has stored it. */
  #toQueue(callerId: string, caller: Caller, queue: string | undefined, spans: Spans): Target {
    if (queue === undefined) return NO_BINDING;
    const { hosts } = this.#options;
    const apps = this.#options.apps();
    const owner = apps.get(callerId)?.wanted.owner;
    const find = (): Backend | Refusal => {
      const consumers = apps.consumersOf(callerId, queue);
      const [consumer] = consumers;
      if (consumer === undefined)
        return refusedSend(404, `No app of the same owner consumes the queue ${asciiJson(queue)}.`);
      if (consumers.length > 1) {
        const slugs = someOf(consumers.map((id) => apps.slugOf(id) ?? id));
        return refusedSend(
          409,
          `Several apps consume the queue ${asciiJson(queue)}: ${slugs}. Let only one consume it.`,
        );
      }
      return apps.get(consumer)?.fleet ?? hosts!.called(consumer);
    };
    let backend = find();
    if ('status' in backend) {
      if (backend.status !== 404 || hosts === null || owner === undefined) return respond(backend);
      backend = waiting(callerId, find, reportsOf(hosts, owner));
    }
    const to = { socketName: 'queues', lines: callLine({ queue }), endsItself: false };
    return this.#call(caller, named(`that consumes ${queue}`, backend), spans, to);
  }

  #call(
    caller: Caller,
    backend: Backend,
    { spanId, parentSpanId }: Spans,
    to: Omit<Call, 'ended' | 'hopLines'>,
  ): Target {
    if (caller.running >= CALLS_MAX)
      return refuse(
        503,
        'too_many_calls',
        `${CALLS_MAX} calls of this app are under way already. Try again.`,
        1,
      );
    const { depths } = this.#options;
    const depth = depths.next(parentSpanId);
    if (depth > DEPTH_MAX)
      return refuse(
        508,
        'loop_detected',
        `Apps call each other more than ${DEPTH_MAX} deep for one request.`,
      );
    caller.running++;
    const forget = depths.begin(spanId, depth);
    const ended = () => {
      caller.running--;
      forget();
    };
    const hopLines = `${HOP_DEPTH}: ${depth}\r\n`;
    const limits = { site: backend.site, clientRpm: 0, appRpm: 0 };
    return { kind: 'proxy', backend, limits, call: { ...to, hopLines, ended } };
  }

  /**
   * Returns the backend of the app with a slug, at any host; null when there is no such app of the calling app's owner. While
   * this host does not know the apps of other hosts, a call to an app that is not here waits.
   * @param unknown the refusal of a call that has waited for an app that does not exist
   */
  #sibling(
    appId: string,
    slug: string,
    headers: readonly string[],
    address = `${slug}.${this.#options.baseDomain}`,
    unknown = NO_SIBLING,
  ): Backend | null {
    const find = () => this.#knownSibling(appId, slug, headers, address);
    const homes = this.#options.hosts?.homes;
    const found = find();
    if (found !== null || homes === undefined || homes.isKnown) return found;
    return waiting(
      appId,
      () => find() ?? unknown,
      () => (homes.isKnown ? null : homes.changed),
    );
  }

  #knownSibling(appId: string, slug: string, headers: readonly string[], address: string): Backend | null {
    const { hosts } = this.#options;
    const apps = this.#options.apps();
    const fleet = apps.resolve(address);
    const route = fleet === undefined ? hosts?.homes.resolve(address) : undefined;
    const known = route ?? (fleet && apps.get(fleet.site)?.wanted);
    const owner = apps.get(appId)?.wanted.owner;
    if (known?.slug !== slug || owner === undefined || known.owner !== owner) return null;
    if (fleet === undefined) return hosts!.called(known.id);
    const chosen = apps.get(fleet.site)!.fleetFor(headers);
    return { site: fleet.site, admit: () => chosen.admit() };
  }
}

/** Wraps a backend so that its refusals name the service: the calling app has a binding, and knows no address. */
function named(name: string, backend: Backend): Backend {
  return {
    site: backend.site,
    admit: (): Admission => {
      const admission = backend.admit();
      if (admission.kind !== 'refuse') return admission;
      return { ...admission, detail: `The service ${name}: ${admission.detail}` };
    },
  };
}

/**
 * Returns the backend of a call to an app that this host does not know yet. The call waits until the app is found.
 * @param find returns the app's backend, or a refusal: a 404 while the app is unknown
 * @param more returns a promise that settles when `find` may find the app, and never rejects; null when the call must not wait
 */
function waiting(callerId: string, find: () => Backend | Refusal, more: () => Promise<void> | null): Backend {
  return {
    // A queue of its own. In the queue of visitors' requests for unknown names, one app could take all places.
    site: `calls of ${callerId}`,
    admit: (): Admission => {
      const found = find();
      if (!('status' in found)) return found.admit();
      const ready = found.status === 404 ? more() : null;
      return ready === null ? { kind: 'refuse', ...found } : { kind: 'hold', ready };
    },
  };
}

/** Returns the parameter `more` of `waiting` for a message to a queue: other hosts may still report a consumer. */
function reportsOf({ peers, askNow }: Hosts, owner: string): () => Promise<void> | null {
  let hasAsked = false;
  return () => {
    const ready = peers.unreported(owner);
    if (ready !== null || hasAsked) return ready;
    // The consumer may have just left its host, and this host may not know its new home yet.
    hasAsked = true;
    return askNow();
  };
}

/**
 * Wraps a script's fleet so that only a process whose requests go to the outbound Worker gets the call. Restarts any
 * other process once.
 */
function outboundOnly(fleet: Fleet): Backend {
  let wasRestarted = false;
  return {
    site: fleet.site,
    admit: (): Admission => {
      if (fleet.lacksOutbound) {
        if (wasRestarted) return { kind: 'refuse', ...NOT_RESTARTED };
        wasRestarted = true;
        const ended = () => {};
        return { kind: 'hold', ready: fleet.renew().then(ended, ended) };
      }
      const admission = fleet.admit();
      return admission.kind === 'forward' && admission.hop ? { kind: 'refuse', ...ELSEWHERE } : admission;
    },
  };
}

const NOT_RESTARTED: Refusal = {
  status: 503,
  code: 'host_unavailable',
  detail:
    'The script does not use its outbound Worker yet, and could not be restarted. Try again. If this repeats, deploy the script again.',
  retryAfterS: 1,
};
const ELSEWHERE: Refusal = {
  status: 501,
  code: 'outbound_elsewhere',
  detail:
    'A script with an outbound Worker must run on the machine of the app that calls it. Move one of them.',
};
const NO_SIBLING: Refusal = {
  status: 404,
  code: 'service_not_found',
  detail: 'There is no such app of the same owner.',
};
const NO_OBJECT = refuse(400, 'object_invalid', 'The call names no Durable Object.');
const UNREADABLE: Refusal = {
  status: 503,
  code: 'host_unavailable',
  detail: 'The secret cannot be read now. Try again.',
  retryAfterS: 1,
};
const NO_BINDING = refuse(
  403,
  'binding_not_found',
  'The calling app does not have this binding. Deploy it again.',
);

/** Returns the response for a missing script. It repeats `call`, the caller's random text, so no script can forge it. */
function noScript(call: string): Target {
  return {
    kind: 'respond',
    respond: () => ({ status: 404, headers: { [NO_SCRIPT_HEADER]: call }, body: '' }),
  };
}

function noApp(name: string): Target {
  return refuse(404, 'service_not_found', `There is no app ${name} of the same owner.`);
}

function refuse(status: number, code: string, detail: string, retryAfterS?: number): Target {
  const refusal: Refusal = { status, code, detail, ...(retryAfterS !== undefined && { retryAfterS }) };
  return respond(refusal);
}

function respond(refusal: Refusal): Target {
  return { kind: 'respond', respond: () => ({ refusal }) };
}

/** Returns the refusal of a message to a queue. The queue binding makes its error of the two headers. @param cause in ASCII */
function refusedSend(status: 404 | 409, cause: string): Refusal {
  const headers = { 'CF-Queues-Error-Code': '15000', 'CF-Queues-Error-Cause': cause };
  return { status, code: status === 404 ? 'queue_not_found' : 'queue_ambiguous', detail: cause, headers };
}

/** Returns the Durable Object that a call is for; undefined when the header is missing or malformed. */
function objectOf({ headers }: RequestHead): { id: string; name?: string } | undefined {
  try {
    const { id, name } = JSON.parse(headerValue(headers, OBJECT_HEADER) ?? 'null');
    if (typeof id !== 'string' || !/^[0-9a-f]{64}$/.test(id)) return undefined;
    const isKnown = typeof name === 'string' && Buffer.byteLength(name) <= NAME_BYTES;
    return { id, ...(isKnown && { name }) };
  } catch {
    return undefined;
  }
}

/** Returns the header line that describes the call to the called app, such as its entrypoint or queue. */
function callLine(asked: object): string {
  return `${CALL_HEADER}: ${asciiJson(asked)}\r\n`;
}
