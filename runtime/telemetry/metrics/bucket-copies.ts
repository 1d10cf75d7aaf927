// Copies the metrics of minutes or hours to the bucket. An object has all apps' rows of a period, or a part of these rows.
import type { Database } from 'better-sqlite3';
import { type BucketTable, bucketQueries, type CopiedBucket } from '../../../sqlite/telemetry/buckets.ts';
import { type CopyQueries, copyQueries } from '../../../sqlite/telemetry/copies.ts';
import type { CopiedRow } from '../copies/content.ts';
import type { CopySource } from '../copies/source.ts';

const HOUR_MS = 3_600_000;
/** Maximum rows of an object. */
const ROWS = 2_000;
/** Rows are written at most this long after their period, in ms. */
const LATE_MS = 5 * 60_000;
/** Characters of a time in ISO format, up to its day. */
const DAY_LENGTH = '2026-01-01'.length;
/** Characters of a time in ISO format, up to its hour. */
const HOUR_LENGTH = '2026-01-01T00'.length;

export interface BucketCopiesOptions {
  /** Length of a period, in ms: an hour or a day. */
  periodMs: number;
  /** How long a period's copies are kept after the start of the period, in ms. */
  keptMs: number;
  /** Adds rows to the table, in a transaction. */
  add: (rows: CopiedBucket[]) => void;
  /** Writes all buckets that are not in the table yet. */
  flush: () => void;
  /** Called when the table has changed: cached buckets are out of date. */
  reset: () => void;
}

export class BucketCopies implements CopySource {
  readonly table: string;
  readonly folder: string;
  readonly copies: CopyQueries;
  readonly #rows: ReturnType<typeof bucketQueries>;
  readonly #options: BucketCopiesOptions;

  /** @param root the folder of the host's copies */
  constructor(database: Database, root: string, table: BucketTable, options: BucketCopiesOptions) {
    this.table = `${table}/`;
    this.folder = `${root}${this.table}`;
    this.copies = copyQueries(database);
    this.#rows = bucketQueries(database, table);
    this.#options = options;
  }

  changed(now: number): string[] {
    const { periodMs, keptMs } = this.#options;
    const last = this.copies.last(this.folder);
    // Starts at least `LATE_MS` back, because late rows may have changed the previous period. The last copy is in the future
    // if the clock was set back.
    const from = last === null ? (this.#rows.oldest() ?? now) : Math.min(this.#timeOf(last), now - LATE_MS);
    const folders = new Set(
      this.copies.outdated(this.folder).map((name) => this.#folderAt(this.#timeOf(name))),
    );
    for (let at = Math.max(from, now - keptMs + periodMs); at < now + periodMs; at += periodMs)
      folders.add(this.#folderAt(at));
    return [...folders].sort();
  }

  *parts(folder: string): Generator<CopiedRow[]> {
    const from = this.#timeOf(folder);
    for (let last = { at: from, app_id: '' }; ; ) {
      const rows = this.#rows.after(last, from + this.#options.periodMs, ROWS);
      if (rows.length === 0) return;
      last = rows.at(-1)!;
      yield rows.map(({ latency, ...row }) => ({ ...row, latency: Buffer.from(latency).toString('base64') }));
    }
  }

  has(name: string): boolean {
    return name.startsWith(this.folder) && name.endsWith('.json.gz') && this.#timeOf(name) > 0;
  }

  isOld(name: string, now: number): boolean {
    return this.#timeOf(name) < now - this.#options.keptMs;
  }

  take(name: string, rows: CopiedRow[], hash: string): void {
    this.#options.flush();
    this.copies.transaction(() => {
      this.#options.add(rows.map(bucketOf));
      this.copies.save(name, hash);
    });
    this.#options.reset();
  }

  forget(appId: string): void {
    for (const at of this.#rows.periods(appId, this.#options.periodMs))
      this.copies.outdate(this.#folderAt(at));
  }

  #folderAt(time: number): string {
    const length = this.#options.periodMs === HOUR_MS ? HOUR_LENGTH : DAY_LENGTH;
    return `${this.folder}${new Date(time).toISOString().slice(0, length)}/`;
  }

  /** Returns when the period of a folder or an object begins. */
  #timeOf(name: string): number {
    const [period = ''] = name.slice(this.folder.length).split('/');
    return Date.parse(period.length === HOUR_LENGTH ? `${period}:00Z` : period);
  }
}

function bucketOf({ latency, ...row }: CopiedRow & { latency?: unknown }): CopiedBucket {
  const bucket: object = { ...row, latency: Buffer.from(String(latency), 'base64') };
  return bucket as CopiedBucket;
}
