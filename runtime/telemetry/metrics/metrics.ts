// Figures of each app: hour buckets, and also minute buckets for recent times.
import type { Database } from 'better-sqlite3';
import type { Result } from '../../../handlers/contract/index.ts';
import {
  type BucketTable,
  bucketQueries,
  METRICS_MIGRATIONS,
  writtenQueries,
} from '../../../sqlite/telemetry/buckets.ts';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import type { CopySource } from '../copies/source.ts';
import type { Immediate, Part, Taken } from '../part.ts';
import type { Asks, ThreadOptions } from '../protocol.ts';
import type { Store } from '../store/store.ts';
import { addRequest, addRow, addUsage, emptyBucket } from './bucket.ts';
import { BucketCopies } from './bucket-copies.ts';
import { Buckets } from './buckets.ts';
import { percentiles, total } from './histogram.ts';

/** Version of the figures. Increase it when the meaning of a figure changes. */
const SCHEMA = 1;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Retention of minute buckets, in ms. For older times only hour buckets are left. */
const MINUTES_KEPT_MS = 74 * HOUR_MS;
/** Retention of copies of minutes, in ms. The table keeps them longer, so that a copied hour never lacks minutes. */
const MINUTES_COPIED_MS = 73 * HOUR_MS;
/** Number of hours in an overview. The last one is the current hour. */
const OVERVIEW_HOURS = 24;
/** An overview has the highest memory of the current minute and of this time before it, in ms. */
const PRESENT_MS = 2 * MINUTE_MS;
/** Limit of the database's pages in use, in bytes. */
const BYTES_MAX = 1024 * 1024 * 1024;
/** Rows in one batch of removals. */
const PIECE = 500;

type Items = Result<'metrics.get'>['items'];

/** The step for ranges of up to so many hours. An answer has at most a few hundred steps. */
const STEPS: readonly [hours: number, stepMs: number][] = [
  [6, MINUTE_MS],
  [24, 5 * MINUTE_MS],
  [72, 15 * MINUTE_MS],
  [168, HOUR_MS],
  [Number.POSITIVE_INFINITY, 6 * HOUR_MS],
];

export class Metrics implements Part {
  readonly name = 'metrics';
  readonly dropped = { buckets: 0 };
  readonly answers: Immediate<'metrics' | 'metrics/version' | 'metrics/overview'>;
  readonly #database: Database;
  readonly #retentionMs: number;
  readonly #minutes: Buckets;
  readonly #hours: Buckets;
  readonly #written: ReturnType<typeof writtenQueries>;

  constructor(store: Store, { retentionDays }: Pick<ThreadOptions, 'retentionDays'>) {
    this.#database = store.open('metrics', METRICS_MIGRATIONS);
    this.#retentionMs = retentionDays * DAY_MS;
    this.#minutes = new Buckets(bucketQueries(this.#database, 'minutes'), MINUTE_MS);
    this.#hours = new Buckets(bucketQueries(this.#database, 'hours'), HOUR_MS);
    this.#written = writtenQueries(this.#database);
    this.answers = {
      metrics: ({ appId, hours }) => {
        this.flush();
        return this.#read(appId, hours, Date.now());
      },
      'metrics/overview': ({ appIds }) => {
        this.flush();
        const now = Date.now();
        return Object.fromEntries(appIds.map((appId) => [appId, this.#overview(appId, now)]));
      },
      'metrics/version': ({ appId }) => {
        this.flush();
        const at = this.#written.at(appId);
        return { schema: SCHEMA, watermark: at === null ? null : new Date(at).toISOString() };
      },
    };
  }

  take({ requests, usage }: Taken): void {
    for (const request of requests) {
      for (const buckets of [this.#minutes, this.#hours])
        addRequest(buckets.at(request.appId, request.endedAt), request);
    }
    for (const used of usage) {
      for (const buckets of [this.#minutes, this.#hours]) addUsage(buckets.at(used.appId, used.at), used);
    }
  }

  flush(): void {
    const both = [this.#minutes, this.#hours];
    try {
      this.#database.transaction(() => {
        const now = Date.now();
        for (const appId of this.#minutes.write()) this.#written.save(appId, now);
        this.#hours.write();
      })();
    } catch (error) {
      for (const buckets of both) this.dropped.buckets += buckets.notWritten();
      throw error;
    }
    for (const buckets of both) buckets.written();
  }

  prune(now: number): boolean {
    const minutes = this.#minutes.removeBefore(now - Math.min(MINUTES_KEPT_MS, this.#retentionMs), PIECE);
    const hours = this.#hours.removeBefore(now - this.#retentionMs, PIECE);
    return minutes + hours + this.#removeTooMuch() >= PIECE;
  }

  /**
   * Removes the oldest rows when the file is too large, of minutes first. Does not look for the largest app, because
   * the buckets of each app are limited. @returns how many
   */
  #removeTooMuch(): number {
    if (bytesInUse(this.#database) < BYTES_MAX) return 0;
    const removed =
      this.#minutes.removeBefore(Number.MAX_SAFE_INTEGER, PIECE) ||
      this.#hours.removeBefore(Number.MAX_SAFE_INTEGER, PIECE);
    this.dropped.buckets += removed;
    return removed;
  }

  forget(appId: string): boolean {
    this.#written.delete(appId);
    const left = [this.#minutes, this.#hours].map((buckets) => buckets.forget(appId, PIECE));
    return left.includes(true);
  }

  apps(): string[] {
    return this.#written.apps();
  }

  /**
   * Returns the hour buckets and the minute buckets as sources of copies in the bucket.
   * @param root the folder of the host's copies
   */
  copies(root: string): CopySource[] {
    const minutesMs = Math.min(MINUTES_COPIED_MS, this.#retentionMs);
    const of = (table: BucketTable, buckets: Buckets, periodMs: number, keptMs: number) =>
      new BucketCopies(this.#database, root, table, {
        periodMs,
        keptMs,
        add: (rows) => {
          for (const { app_id, at, ...row } of rows) buckets.add(app_id, at, row);
          for (const app of new Set(rows.map(({ app_id }) => app_id))) this.#written.save(app, Date.now());
        },
        flush: () => this.flush(),
        reset: () => buckets.reset(),
      });
    return [
      of('hours', this.#hours, DAY_MS, this.#retentionMs),
      of('minutes', this.#minutes, HOUR_MS, minutesMs),
    ];
  }

  #overview(appId: string, now: number): Asks['metrics/overview']['answer'][string] {
    const from = now - (now % HOUR_MS) - (OVERVIEW_HOURS - 1) * HOUR_MS;
    const requests = Array.from({ length: OVERVIEW_HOURS }, () => 0);
    const day = emptyBucket();
    for (const row of this.#hours.range(appId, from, now + 1)) {
      requests[Math.floor((row.at - from) / HOUR_MS)]! += row.requests;
      addRow(day, row);
    }
    const minute = now - (now % MINUTE_MS);
    const lately = this.#minutes.range(appId, minute - PRESENT_MS, now + 1);
    return {
      requests,
      errors: day.errors,
      duration_ms_p99: percentiles(day.latency, [0.99])[0]!,
      requests_per_minute: lately.find(({ at }) => at === minute - MINUTE_MS)?.requests ?? 0,
      memory_bytes: Math.max(0, ...lately.map(({ memory_bytes }) => memory_bytes)) || null,
    };
  }

  #read(appId: string, hours: number, now: number): Result<'metrics.get'> {
    const stepMs = STEPS.find(([most]) => hours <= most)![1];
    const buckets = stepMs < HOUR_MS ? this.#minutes : this.#hours;
    const to = now - (now % stepMs) + stepMs;
    const from = to - Math.ceil((hours * HOUR_MS) / stepMs) * stepMs;
    const steps = Array.from({ length: (to - from) / stepMs }, emptyBucket);
    for (const row of buckets.range(appId, from, to))
      addRow(steps[Math.floor((row.at - from) / stepMs)]!, row);
    const items: Items = steps.map(({ latency, duration_ms, memory_bytes, ...sums }, index) => {
      const [p50, p90, p95, p99] = percentiles(latency, [0.5, 0.9, 0.95, 0.99]);
      const timed = total(latency);
      return {
        at: new Date(from + index * stepMs).toISOString(),
        ...sums,
        duration_ms_p50: p50!,
        duration_ms_p90: p90!,
        duration_ms_p95: p95!,
        duration_ms_p99: p99!,
        duration_ms_mean: timed === 0 ? null : Math.round((duration_ms / timed) * 100) / 100,
        memory_bytes: memory_bytes === 0 ? null : memory_bytes,
      };
    });
    return { step_s: stepMs / 1000, items, next_cursor: null };
  }
}
