// Stores a sample of each app's requests for a day, and lists them. There are limits for each second and in total.
import { setImmediate } from 'node:timers/promises';
import type { Database } from 'better-sqlite3';
import {
  REQUEST_MIGRATIONS,
  type RequestQueries,
  type RequestRow,
  requestQueries,
} from '../../../sqlite/telemetry/requests.ts';
import type { Answers, Part, Taken } from '../part.ts';
import type { Asks } from '../protocol.ts';
import { AppAllowances } from '../store/app-allowances.ts';
import { ByteBounds, type ByteBoundsOptions } from '../store/byte-bounds.ts';
import type { Store } from '../store/store.ts';
import { rowOf, shownSpan } from './spans.ts';

/** Maximum stored requests of an app in a second. `skipped` of a stored request counts those left out before it. */
const STORED_PER_S = 100;
/** Limit of an app's stored requests, about 400 bytes each. */
const KEPT_MAX = 50_000;
/** Requests over `KEPT_MAX` are removed after this many new ones. */
const TRIMMED_EVERY = 1_000;
/** Maximum requests of an app that wait to be written. */
const UNWRITTEN_MAX = 1_000;
/** Maximum requests of all apps that wait to be written. */
const ALL_UNWRITTEN_MAX = 20_000;
const HOUR_MS = 3_600_000;
const KEPT_MS = 24 * HOUR_MS;
/** Limit of the database's pages in use, in bytes. The app with the most bytes loses its oldest rows. */
const BYTES_MAX = 512 * 1024 * 1024;
/** Rows in one batch of removals. */
const PIECE = 1_000;
/** Requests searched before other work gets a turn. */
const SEARCHED = 500;
/** Time after which a search returns a partial result, in ms. */
const SEARCH_MS = 1_000;
const ANY_STATUS = [0, 999] as const;

export class Requests implements Part {
  readonly name = 'requests';
  readonly dropped = { stored_requests: 0 };
  readonly answers: Required<Pick<Answers, 'requests'>>;
  readonly #database: Database;
  readonly #bounds: ByteBounds;
  readonly #rows: RequestQueries;
  readonly #allowances = new AppAllowances(STORED_PER_S, 1);
  readonly #unwritten = new Map<string, Omit<RequestRow, 'id'>[]>();
  #allUnwritten = 0;
  /** Requests stored since the last trim to the limit, by app. A trim looks at all requests of an app, so it is rare. */
  readonly #untrimmed = new Map<string, number>();
  /** Requests left out since the last stored one, by app. */
  readonly #skipped = new Map<string, number>();

  constructor(store: Store, bounds: ByteBoundsOptions = {}) {
    this.#database = store.open('requests', REQUEST_MIGRATIONS);
    this.#rows = requestQueries(this.#database);
    this.#bounds = new ByteBounds(this.#database, this.#rows, { allBytes: BYTES_MAX, ...bounds }, (rows) => {
      this.dropped.stored_requests += rows;
    });
    this.answers = { requests: (asked) => this.#list(asked) };
  }

  take({ requests }: Taken): void {
    for (const request of requests) {
      const { appId } = request;
      const rows = this.#unwritten.get(appId) ?? [];
      const skipped = this.#skipped.get(appId) ?? 0;
      const isFull = rows.length >= UNWRITTEN_MAX || this.#allUnwritten >= ALL_UNWRITTEN_MAX;
      if (isFull || !this.#allowances.takes(appId)) {
        this.#skipped.set(appId, skipped + 1);
        continue;
      }
      this.#unwritten.set(appId, rows);
      rows.push({ ...rowOf(request), skipped });
      this.#allUnwritten++;
      if (skipped > 0) this.#skipped.delete(appId);
    }
  }

  flush(): void {
    this.#allowances.tidy();
    if (this.#unwritten.size === 0) return;
    this.#database.transaction(() => {
      for (const [appId, rows] of this.#unwritten) {
        for (const row of rows) this.#rows.add(row);
        this.#trim(appId, rows.length);
      }
    })();
    this.#unwritten.clear();
    this.#allUnwritten = 0;
  }

  #trim(appId: string, added: number): void {
    const untrimmed = (this.#untrimmed.get(appId) ?? TRIMMED_EVERY) + added;
    const isDue = untrimmed > TRIMMED_EVERY;
    if (isDue) this.#rows.trim(appId, KEPT_MAX);
    this.#untrimmed.set(appId, isDue ? 0 : untrimmed);
  }

  /** Returns the stored requests of a trace, oldest first. */
  ofTrace(appId: string, traceId: string, limit: number): RequestRow[] {
    this.flush();
    return this.#rows.ofTrace(appId, traceId, limit);
  }

  prune(now: number): boolean {
    return this.#rows.deleteBefore(now - KEPT_MS, PIECE) + this.#bounds.removePiece() >= PIECE;
  }

  forget(appId: string): boolean {
    this.#allUnwritten -= this.#unwritten.get(appId)?.length ?? 0;
    this.#unwritten.delete(appId);
    this.#skipped.delete(appId);
    this.#untrimmed.delete(appId);
    this.#allowances.forget(appId);
    return this.#rows.deleteOf(appId, PIECE) === PIECE;
  }

  apps(): string[] {
    return this.#rows.apps();
  }

  /** Lists requests newest first. A slow search returns the requests found so far, and a cursor. */
  async #list(asked: Asks['requests']['params']): Promise<Asks['requests']['answer']> {
    this.flush();
    const { appId, hours, limit, method, status, path, min_ms, cell_start } = asked;
    const [leastStatus, mostStatus] = boundsOf(status);
    const wanted = {
      appId,
      from: Date.now() - hours * HOUR_MS,
      method: method ?? null,
      leastStatus,
      mostStatus,
      path: path?.toLowerCase() ?? null,
      slowerThan: min_ms ?? 0,
      cellStart: cell_start ?? null,
    };
    const deadline = performance.now() + SEARCH_MS;
    const rows: RequestRow[] = [];
    let before: number | null = asked.before ?? Number.MAX_SAFE_INTEGER;
    for (;;) {
      const first: number | null = this.#rows.further(appId, before, SEARCHED);
      const left = limit + 1 - rows.length;
      rows.push(...this.#rows.newest({ ...wanted, first: first ?? 0, before, limit: left }));
      if (rows.length > limit) return { items: rows.slice(0, limit).map(shown), next: rows[limit - 1]!.id };
      before = first;
      if (before === null || performance.now() > deadline) return { items: rows.map(shown), next: before };
      await setImmediate();
    }
  }
}

function shown({ skipped, ...row }: RequestRow): Asks['requests']['answer']['items'][number] {
  return { ...shownSpan(row), skipped };
}

/** `5xx` is 500 to 599, `404` only itself. */
function boundsOf(status: string | undefined): readonly [number, number] {
  if (status === undefined) return ANY_STATUS;
  return [Number(status.replaceAll('x', '0')), Number(status.replaceAll('x', '9'))];
}
