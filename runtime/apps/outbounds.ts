// Which outbound Worker gets what a script of a dispatch namespace fetches.
import { randomUUID } from 'node:crypto';

/** After an answer a script may go on as long as this, in ms: the limit of `waitUntil`. */
const AFTER_MS = 30_000;
/** Most calls of one script that are known. Older ones have no parameters any more. */
const CALLS_MAX = 2_000;

/** Where a request of a script goes. */
interface Outbound {
  /** The slug of the app with the outbound Worker. */
  service: string;
  /** The values of the call's parameters, as JSON. */
  values: string;
}

interface Outbounds {
  /** By the random texts that name them. */
  calls: Map<string, Outbound>;
  /** For requests that belong to no known call. */
  last: string;
}

/** The calls of scripts that have an outbound Worker. */
export class OutboundCalls {
  readonly #scripts = new Map<string, Outbounds>();

  /** Whether a script was ever called with an outbound Worker. All that it fetches then goes to one. */
  has(script: string): boolean {
    return this.#scripts.has(script);
  }

  /** Returns a text that names the call, and a function to call at its end. */
  begin(script: string, outbound: Outbound): { name: string; ended: () => void } {
    const known = this.#scripts.get(script) ?? { calls: new Map<string, Outbound>(), last: '' };
    this.#scripts.set(script, known);
    const { calls } = known;
    known.last = outbound.service;
    const name = randomUUID();
    calls.set(name, outbound);
    if (calls.size > CALLS_MAX) calls.delete(calls.keys().next().value!);
    return { name, ended: () => void setTimeout(() => calls.delete(name), AFTER_MS).unref() };
  }

  /** Returns where a request of a script goes; undefined for a script without an outbound Worker. */
  find(script: string, name: string | undefined): Outbound | undefined {
    const known = this.#scripts.get(script);
    return known && (known.calls.get(name ?? '') ?? { service: known.last, values: '{}' });
  }

  forget(script: string): void {
    this.#scripts.delete(script);
  }
}
