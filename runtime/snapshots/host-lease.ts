// Lets only one host at a time do some work. A record in the bucket names that host, and the time until which it may do the
// work.
import { setTimeout as sleep } from 'node:timers/promises';
import type { S3Store } from '../bucket/s3-store.ts';
import { ChangedObject, ifThere } from '../bucket/store.ts';
import { log, reason } from '../log.ts';

/** Folder of the records, below the prefix of the bucket. */
const LEASES = 'host-leases/';
/** How long a host has a lease after each renewal, in ms. */
const LEASE_MS = 60_000;
/** Time between two renewals, in ms. */
const RENEW_MS = 15_000;
/** Time between two checks whether a lease is free, in ms. */
const LOOK_MS = 2_000;

export type LeaseStore = Pick<S3Store, 'readTagged' | 'writeIf'>;

/** The content of a record. A host compares `until` with its own clock, so the hosts' clocks must be synchronised (NTP). */
interface Lease {
  host: string;
  /** In ms since 1970. */
  until: number;
}

/** A lease that this host has. */
interface Held {
  /** The ETag of the record in the bucket. */
  etag: string;
  /** In ms, on the clock of `performance.now()`. */
  until: number;
}

export interface LeaseOptions {
  store: LeaseStore;
  /** The id of this host. */
  self: string;
  /** Default: `LEASE_MS`. */
  leaseMs?: number;
  /** Default: `RENEW_MS`. */
  renewMs?: number;
  /** Default: `LOOK_MS`. */
  lookMs?: number;
}

export class HostLease {
  readonly #options: LeaseOptions;
  readonly #name: string;

  /** @param name of the work, and of its record in the bucket */
  constructor(name: string, options: LeaseOptions) {
    this.#name = `${LEASES}${name}.json`;
    this.#options = options;
  }

  /**
   * Does `work` once no other host does it. The signal of `work` aborts when another host may do it, because this host was
   * frozen or the bucket does not answer.
   * @throws what `work` throws; the reason of an aborted `signal`; {Error} when the bucket fails before `work` begins
   */
  async run<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { leaseMs = LEASE_MS, renewMs = RENEW_MS } = this.#options;
    const lost = new AbortController();
    const ended = new AbortController();
    const isLost = () => lost.abort(new Error('another host may do the same work now'));
    let held = await this.#acquire(signal);
    const expire = () => setTimeout(isLost, Math.max(0, held.until - performance.now()));
    let expiry = expire();
    const renew = async () => {
      for (;;) {
        await sleep(renewMs, undefined, { signal: ended.signal });
        try {
          held = await this.#write(held.etag, leaseMs);
          clearTimeout(expiry);
          if (lost.signal.aborted) return;
          expiry = expire();
        } catch (error) {
          log('warn', 'a lease could not be renewed', { lease: this.#name, error: reason(error) });
          if (error instanceof ChangedObject) return isLost();
        }
      }
    };
    // `renew` rejects only when `ended` aborts its sleep, which is not a failure.
    const renewing = renew().catch(() => {});
    try {
      return await work(AbortSignal.any([signal, lost.signal]));
    } finally {
      ended.abort();
      await renewing;
      clearTimeout(expiry);
      // Frees the lease. Otherwise the next host would wait until the lease expires.
      if (!lost.signal.aborted) await this.#write(held.etag, 0).catch(() => {});
    }
  }

  async #acquire(signal: AbortSignal): Promise<Held> {
    const { store, self, leaseMs = LEASE_MS, lookMs = LOOK_MS } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const found = await ifThere(store.readTagged(this.#name));
      const lease = found && (JSON.parse(found.bytes.toString('utf8')) as Lease);
      if (lease === null || lease.host === self || lease.until <= Date.now()) {
        try {
          return await this.#write(found?.etag ?? null, leaseMs);
        } catch (error) {
          // Another host was faster.
          if (!(error instanceof ChangedObject)) throw error;
        }
      }
      await sleep(lookMs, undefined, { signal });
    }
  }

  async #write(etag: string | null, leaseMs: number): Promise<Held> {
    const { store, self } = this.#options;
    const lease: Lease = { host: self, until: Date.now() + leaseMs };
    // Calculated before the write, because the lease begins now, however late the bucket answers.
    const until = performance.now() + leaseMs;
    return { etag: await store.writeIf(this.#name, Buffer.from(JSON.stringify(lease)), etag), until };
  }
}
