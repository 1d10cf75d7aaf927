// What apps write by bindings of Analytics Engine, point by point: kept within bounds, and listed.
import {
  DATAPOINT_MIGRATIONS,
  type DatapointQueries,
  type DatapointRow,
  datapointQueries,
} from '../../sqlite/telemetry/datapoints.ts';
import type { ReportedPoint } from './log-lines.ts';
import type { Immediate, Part } from './part.ts';
import type { Asks, ThreadOptions } from './protocol.ts';
import type { Store } from './store.ts';

/** Points taken of an app between two writes, which is about a second; the others are dropped and counted. */
const AT_ONCE_MAX = 2_000;
/** Bytes of the points that are kept of one app, and of all together: then the app that has most loses its oldest. */
const APP_BYTES = 64 * 1024 * 1024;
const ALL_BYTES = 1024 * 1024 * 1024;
/** Bytes that a row has besides its texts, about. */
const ROW_BYTES = 60;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Rows that are removed at once. */
const PIECE = 1_000;

type Written = Omit<DatapointRow, 'id' | 'app_id'>;

export interface DatapointsOptions extends Pick<ThreadOptions, 'retentionDays'> {
  /** Bounds, for tests. */
  appBytes?: number;
  allBytes?: number;
}

export class Datapoints implements Part {
  readonly name = 'datapoints';
  readonly dropped = { datapoints: 0 };
  readonly answers: Immediate<'datapoints'>;
  readonly #rows: DatapointQueries;
  readonly #retentionMs: number;
  readonly #appBytes: number;
  readonly #allBytes: number;
  readonly #unwritten = new Map<string, Written[]>();

  constructor(
    store: Store,
    { retentionDays, appBytes = APP_BYTES, allBytes = ALL_BYTES }: DatapointsOptions,
  ) {
    this.#rows = datapointQueries(store.open('datapoints', DATAPOINT_MIGRATIONS));
    this.#retentionMs = retentionDays * DAY_MS;
    this.#appBytes = appBytes;
    this.#allBytes = allBytes;
    this.answers = { datapoints: (asked) => this.#list(asked) };
  }

  /** Takes a point that an app has written. @param at ms since 1970 */
  report(appId: string, at: number, { dataset, index, blobs, doubles }: ReportedPoint): void {
    const points = this.#unwritten.get(appId) ?? [];
    this.#unwritten.set(appId, points);
    if (points.length >= AT_ONCE_MAX) {
      this.dropped.datapoints++;
      return;
    }
    const texts = { blobs: JSON.stringify(blobs), doubles: JSON.stringify(doubles) };
    const length = dataset.length + (index?.length ?? 0) + texts.doubles.length;
    const bytes = ROW_BYTES + length + Buffer.byteLength(texts.blobs);
    points.push({ at, dataset, index, ...texts, bytes });
  }

  /** Its points come by the log. */
  take(): void {}

  flush(): void {
    if (this.#unwritten.size === 0) return;
    this.#rows.transaction(() => {
      for (const [appId, points] of this.#unwritten) this.#rows.add(appId, points);
    });
    this.#unwritten.clear();
  }

  prune(now: number): boolean {
    const sizes = this.#rows.sizes().sort((a, b) => b.bytes - a.bytes);
    const all = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    const [largest] = sizes;
    const bytes = Math.max((largest?.bytes ?? 0) - this.#appBytes, all - this.#allBytes);
    if (largest !== undefined && bytes > 0)
      return this.#rows.removeOldest(largest.app_id, PIECE, { bytes }) > 0;
    for (const { app_id } of sizes) {
      if (this.#rows.removeOldest(app_id, PIECE, { before: now - this.#retentionMs }) > 0) return true;
      this.#rows.removeApp(app_id);
    }
    return false;
  }

  forget(appId: string): boolean {
    this.#unwritten.delete(appId);
    if (this.#rows.removeOldest(appId, PIECE) > 0) return true;
    this.#rows.removeApp(appId);
    return false;
  }

  apps(): string[] {
    return this.#rows.sizes().map(({ app_id }) => app_id);
  }

  #list({ appId, hours, dataset, index, limit, before }: Asks['datapoints']['params']) {
    this.flush();
    const rows = this.#rows.newest({
      appId,
      dataset: dataset ?? null,
      index: index ?? null,
      since: Date.now() - hours * HOUR_MS,
      before: before ?? Number.MAX_SAFE_INTEGER,
      limit: limit + 1,
    });
    const page = rows.slice(0, limit);
    return { items: page.map(shown), next: rows.length > limit ? page.at(-1)!.id : null };
  }
}

function shown({ at, dataset, index, blobs, doubles }: DatapointRow) {
  return {
    at: new Date(at).toISOString(),
    dataset,
    index,
    blobs: JSON.parse(blobs) as (string | null)[],
    doubles: JSON.parse(doubles) as (number | null)[],
  };
}
