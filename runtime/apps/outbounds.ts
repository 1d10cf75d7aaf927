// Finds the outbound Worker for each request that a script of a dispatch namespace sends with `fetch()`.
import { randomUUID } from 'node:crypto';
import type { HostStore } from '../../sqlite/host/index.ts';

/** A script may go on for this long after its response, in ms: the limit of `waitUntil`. */
const AFTER_MS = 30_000;
/** Maximum number of remembered calls of one script. The oldest calls lose their parameters. */
const CALLS_MAX = 2_000;
/**
 * Shortest time between writes to the disk for one script, in ms. Otherwise two apps with different outbound Workers that
 * call the script alternately would cause a write each time.
 */
const WRITES_MS = 60_000;

/** The outbound Worker that receives a script's outgoing requests. */
interface Outbound {
  /** The slug of the app with the outbound Worker. */
  service: string;
  /** The values of the call's parameters, as JSON. */
  values: string;
}

interface Outbounds {
  /** Calls of the script, by their random names. */
  calls: Map<string, Outbound>;
  /** The slug of the app with the outbound Worker of the newest call. Used for requests that belong to no known call. */
  last: string;
  /** The value of `last` on the disk; null without one. */
  written: string | null;
  /** When `written` was stored, in ms since 1970. */
  writtenAt: number;
}

/**
 * The calls of scripts that have an outbound Worker. The store records the app of each script's outbound Worker, so a
 * restarted Cellar knows it too.
 */
export class OutboundCalls {
  readonly #scripts = new Map<string, Outbounds>();
  readonly #store: Pick<HostStore['apps'], 'outbound' | 'setOutbound'>;

  constructor(store: Pick<HostStore['apps'], 'outbound' | 'setOutbound'>) {
    this.#store = store;
  }

  /** Returns whether a script was ever called with an outbound Worker. Then all its fetches go to an outbound Worker. */
  has(script: string): boolean {
    return this.#known(script) !== undefined;
  }

  /** Records a call of a script. Returns a random name for the call, and a function to call at its end. */
  begin(script: string, outbound: Outbound): { name: string; ended: () => void } {
    const known = this.#known(script) ?? this.#add(script, null);
    const { calls } = known;
    known.last = outbound.service;
    this.#write(script, known);
    const name = randomUUID();
    calls.set(name, outbound);
    if (calls.size > CALLS_MAX) calls.delete(calls.keys().next().value!);
    return { name, ended: () => void setTimeout(() => calls.delete(name), AFTER_MS).unref() };
  }

  /** Returns the outbound Worker for a request of a script; undefined for a script without one. @param name of the call */
  find(script: string, name: string | undefined): Outbound | undefined {
    const known = this.#known(script);
    return known && (known.calls.get(name ?? '') ?? { service: known.last, values: '{}' });
  }

  /** Frees the memory for a script. The record in the store stays, for an app that comes back. */
  forget(script: string): void {
    this.#scripts.delete(script);
  }

  #known(script: string): Outbounds | undefined {
    const known = this.#scripts.get(script);
    if (known !== undefined) return known;
    const written = this.#store.outbound(script);
    return written === null ? undefined : this.#add(script, written);
  }

  #add(script: string, written: string | null): Outbounds {
    const added = { calls: new Map<string, Outbound>(), last: written ?? '', written, writtenAt: 0 };
    this.#scripts.set(script, added);
    return added;
  }

  #write(script: string, known: Outbounds): void {
    const now = Date.now();
    if (known.written === known.last || now - known.writtenAt < WRITES_MS) return;
    this.#store.setOutbound(script, known.last);
    known.written = known.last;
    known.writtenAt = now;
  }
}
