// Stores the data points of Analytics Engine bindings within limits, and lists them.
import { setImmediate } from 'node:timers/promises';
import {
  DATAPOINT_MIGRATIONS,
  type DatapointQueries,
  type DatapointRow,
  datapointQueries,
} from '../../../sqlite/telemetry/datapoints.ts';
import type { ReportedPoint } from '../logs/log-lines.ts';
import type { Answers, Part } from '../part.ts';
import type { Asks, ThreadOptions } from '../protocol.ts';
import { ByteBounds, type ByteBoundsOptions } from '../store/byte-bounds.ts';
import { maxBy } from '../store/max-by.ts';
import type { Store } from '../store/store.ts';

/** Maximum points of an app between two writes, about a second apart. Points over the limit are dropped and counted. */
const AT_ONCE_MAX = 2_000;
/** Limit of queued bytes while writes fail. */
const UNWRITTEN_BYTES = 16 * 1024 * 1024;
/** Approximate bytes of a row without its texts. */
const ROW_BYTES = 60;
/** Points searched before other work gets a turn. */
const SEARCHED_POINTS = 20_000;
/** Time after which a search returns a partial result, in ms. */
const SEARCH_MS = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Rows in one batch of removals. */
const PIECE = 1_000;

type Written = Omit<DatapointRow, 'id' | 'app_id'>;

export interface DatapointsOptions extends Pick<ThreadOptions, 'retentionDays'>, ByteBoundsOptions {
  /** Shorter `SEARCH_MS`, for tests. */
  searchMs?: number;
}

export class Datapoints implements Part {
  readonly name = 'datapoints';
  readonly dropped = { datapoints: 0 };
  readonly answers: Required<Pick<Answers, 'datapoints'>>;
  readonly #rows: DatapointQueries;
  readonly #retentionMs: number;
  readonly #bounds: ByteBounds;
  readonly #searchMs: number;
  readonly #unwritten = new Map<string, Written[]>();

  constructor(store: Store, { retentionDays, searchMs = SEARCH_MS, ...bounds }: DatapointsOptions) {
    const database = store.open('datapoints', DATAPOINT_MIGRATIONS, true);
    this.#rows = datapointQueries(database);
    this.#retentionMs = retentionDays * DAY_MS;
    this.#bounds = new ByteBounds(database, this.#rows, bounds, (points) => {
      this.dropped.datapoints += points;
    });
    this.#searchMs = searchMs;
    this.answers = { datapoints: (asked) => this.#list(asked) };
  }

  /** Takes a point that an app wrote. @param at ms since 1970 */
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

  flush(): void {
    if (this.#unwritten.size === 0) return;
    try {
      this.#rows.transaction(() => {
        let written = 0;
        for (const [appId, points] of this.#unwritten) {
          this.#rows.add(appId, points);
          written += points.length;
        }
        this.#bounds.makeRoom(written);
      });
    } catch (error) {
      this.#dropUnwritten();
      throw error;
    }
    this.#unwritten.clear();
  }

  prune(now: number): boolean {
    if (this.#bounds.removePiece() > 0) return true;
    for (const { app_id } of this.#rows.sizes()) {
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

  /** If the unwritten points are over the limit, drops all those of the apps with the most bytes. */
  #dropUnwritten(): void {
    const sizes = new Map([...this.#unwritten].map(([appId, points]) => [appId, bytesOf(points)]));
    let all = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
    while (all > UNWRITTEN_BYTES) {
      const [appId, bytes] = maxBy(sizes, ([, its]) => its)!;
      this.dropped.datapoints += this.#unwritten.get(appId)!.length;
      this.#unwritten.delete(appId);
      sizes.delete(appId);
      all -= bytes;
    }
  }

  /** Lists points newest first. A slow search returns the points found so far, and a cursor. */
  async #list(asked: Asks['datapoints']['params']): Promise<Asks['datapoints']['answer']> {
    this.flush();
    const { appId, hours, dataset = null, index = null, limit } = asked;
    const since = Date.now() - hours * HOUR_MS;
    const deadline = performance.now() + this.#searchMs;
    const found: DatapointRow[] = [];
    let before = asked.before ?? Number.MAX_SAFE_INTEGER;
    for (;;) {
      const from = this.#rows.further(appId, before, SEARCHED_POINTS);
      const more = limit + 1 - found.length;
      found.push(
        ...this.#rows.newest({ appId, dataset, index, since, from: from ?? 0, before, limit: more }),
      );
      if (found.length > limit) {
        const page = found.slice(0, limit);
        return { items: page.map(shown), next: page.at(-1)!.id };
      }
      if (from === null) return { items: found.map(shown), next: null };
      before = from;
      if (performance.now() > deadline) return { items: found.map(shown), next: before };
      await setImmediate();
    }
  }
}

function bytesOf(points: readonly Written[]): number {
  return points.reduce((sum, { bytes }) => sum + bytes, 0);
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
