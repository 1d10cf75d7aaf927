// The list of the queues that a host's apps consume, in the form that the other hosts get.
import { createHash } from 'node:crypto';
import { logRarely } from '../log.ts';

/** Maximum bytes of the list. */
export const CONSUMED_QUEUES_BYTES = 4 * 1024 * 1024;
/** Maximum bytes of one app's item. Otherwise an app with very many queues would leave no room for others. */
const APP_BYTES = 16 * 1024;
/** How long a list is cached, in ms. Each other host asks every two seconds, and a list may be long. */
const KEPT_MS = 1_000;

export interface ConsumedQueues {
  /** The app's id. */
  app: string;
  owner: string;
  queues: string[];
}

/** The list of this host, as JSON. */
export class OwnQueues {
  readonly #queues: () => ConsumedQueues[];
  #known = { at: Number.NEGATIVE_INFINITY, body: '', digest: '' };

  /** @param queues returns which apps of this host consume which queues */
  constructor(queues: () => ConsumedQueues[]) {
    this.#queues = queues;
  }

  /** Returns the list and its digest. Apps that do not fit are left out. */
  look(): { body: string; digest: string } {
    const now = performance.now();
    if (now - this.#known.at < KEPT_MS) return this.#known;
    const body = `[${this.#items().join(',')}]`;
    this.#known = { at: now, body, digest: createHash('sha256').update(body).digest('hex') };
    return this.#known;
  }

  #items(): string[] {
    // Two bytes for the brackets.
    let left = CONSUMED_QUEUES_BYTES - 2;
    return this.#queues().flatMap((each) => {
      const item = JSON.stringify(each);
      const bytes = Buffer.byteLength(item) + 1;
      if (bytes <= Math.min(left, APP_BYTES)) {
        left -= bytes;
        return item;
      }
      logRarely('warn', 'apps of other hosts cannot send to the queues of an app: it consumes too many', {
        app: each.app,
      });
      return [];
    });
  }
}
