// Buckets of one length (a minute or an hour): their table, with a cache of the buckets in use.
import type { BucketQueries, BucketRow } from '../../../sqlite/telemetry/buckets.ts';
import { addRow, type Bucket, emptyBucket, toRow } from './bucket.ts';

/** Maximum cached buckets after a write. Over it, the cache is emptied. */
const CACHED_MAX = 2_000;
/** Maximum buckets that wait while writes fail. Over it, all of them are dropped. */
const UNWRITTEN_MAX = 50_000;

interface Cached {
  appId: string;
  at: number;
  bucket: Bucket;
}

export class Buckets {
  readonly lengthMs: number;
  readonly #rows: BucketQueries;
  readonly #cached = new Map<string, Cached>();
  readonly #unwritten = new Set<Cached>();
  /** The bucket that was used last, which is usually used next. */
  #last: Cached | null = null;

  /** @param lengthMs the length of a bucket */
  constructor(rows: BucketQueries, lengthMs: number) {
    this.#rows = rows;
    this.lengthMs = lengthMs;
  }

  /** Returns an app's bucket at a time, for the caller to add to. */
  at(appId: string, time: number): Bucket {
    const at = time - (time % this.lengthMs);
    if (this.#last?.at === at && this.#last.appId === appId) return this.#last.bucket;
    const key = `${appId} ${at}`;
    let cached = this.#cached.get(key);
    if (cached === undefined) {
      const bucket = emptyBucket();
      const row = this.#rows.find(appId, at);
      if (row !== undefined) addRow(bucket, row);
      cached = { appId, at, bucket };
      this.#cached.set(key, cached);
    }
    this.#unwritten.add(cached);
    this.#last = cached;
    return cached.bucket;
  }

  /** Writes the changed buckets. Call `written` after the commit. @returns the ids of their apps */
  write(): Set<string> {
    for (const { appId, at, bucket } of this.#unwritten) this.#rows.save(appId, at, toRow(bucket));
    return new Set([...this.#unwritten].map(({ appId }) => appId));
  }

  written(): void {
    this.#last = null;
    this.#unwritten.clear();
    if (this.#cached.size > CACHED_MAX) this.#cached.clear();
  }

  /** Call when the write failed. @returns how many buckets are dropped because there are too many */
  notWritten(): number {
    const given = this.#unwritten.size > UNWRITTEN_MAX ? this.#unwritten.size : 0;
    if (given > 0) {
      this.#last = null;
      this.#unwritten.clear();
      this.#cached.clear();
    }
    return given;
  }

  /** Adds a copied bucket to the table. Write the cached buckets before the transaction, and call `reset` after it. */
  add(appId: string, at: number, row: BucketRow): void {
    const bucket = emptyBucket();
    const found = this.#rows.find(appId, at);
    if (found !== undefined) addRow(bucket, found);
    addRow(bucket, row);
    this.#rows.save(appId, at, toRow(bucket));
  }

  /** Empties the cache, so that buckets are read from the table again. */
  reset(): void {
    this.#last = null;
    this.#cached.clear();
  }

  /** Returns an app's stored buckets that begin at or after `from`, and before `to`. */
  range(appId: string, from: number, to: number): (BucketRow & { at: number })[] {
    return this.#rows.range(appId, from, to);
  }

  /** Removes an app's cached buckets and up to `limit` of its rows. @returns whether more rows may be left */
  forget(appId: string, limit: number): boolean {
    this.#last = null;
    for (const [key, cached] of this.#cached) {
      if (cached.appId !== appId) continue;
      this.#cached.delete(key);
      this.#unwritten.delete(cached);
    }
    return this.#rows.deleteOf(appId, limit) === limit;
  }

  /** Removes up to `limit` rows that begin before `at`, oldest first. @returns how many */
  removeBefore(at: number, limit: number): number {
    return this.#rows.deleteBefore(at, limit);
  }
}
