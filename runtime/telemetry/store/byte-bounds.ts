// Limits the bytes of rows that apps write, for each app and in total. The app with the most bytes loses its oldest rows.
import type { Database } from 'better-sqlite3';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import { maxBy } from './max-by.ts';

/** Limit of one app's rows, in bytes. */
const APP_BYTES = 64 * 1024 * 1024;
/** Limit of the database's pages in use, in bytes. A row can take four times as much there as in `Rows.sizes`. */
const ALL_BYTES = 1024 * 1024 * 1024;
/** Rows in one batch of removals. */
const PIECE = 2_000;

/** Limits in bytes, of one app's rows and of the database. */
export interface ByteBoundsOptions {
  appBytes?: number;
  allBytes?: number;
}

/** Access to apps' rows. */
interface Rows {
  sizes: () => { app_id: string; bytes: number }[];
  /** Removes an app's oldest rows until they free `most.bytes`, but at most `limit` rows. @returns how many */
  removeOldest: (appId: string, limit: number, most: { bytes: number }) => number;
}

export class ByteBounds {
  readonly #database: Database;
  readonly #rows: Rows;
  readonly #appBytes: number;
  readonly #allBytes: number;
  readonly #onRemoved: (rows: number) => void;

  /** @param onRemoved called with the number of removed rows */
  constructor(
    database: Database,
    rows: Rows,
    { appBytes = APP_BYTES, allBytes = ALL_BYTES }: ByteBoundsOptions,
    onRemoved: (rows: number) => void,
  ) {
    this.#database = database;
    this.#rows = rows;
    this.#appBytes = appBytes;
    this.#allBytes = allBytes;
    this.#onRemoved = onRemoved;
  }

  /** Removes about as many rows as were written, while a limit is exceeded. Pruning alone may be slower than the writes. */
  makeRoom(written: number): void {
    for (let removed = 0; removed < written; ) {
      const piece = this.removePiece();
      if (piece === 0) return;
      removed += piece;
    }
  }

  /** Removes one batch of rows, if a limit is exceeded. @returns how many */
  removePiece(): number {
    const largest = maxBy(this.#rows.sizes(), ({ bytes }) => bytes);
    if (largest === null) return 0;
    const bytes = Math.max(largest.bytes - this.#appBytes, bytesInUse(this.#database) - this.#allBytes);
    if (bytes <= 0) return 0;
    const removed = this.#rows.removeOldest(largest.app_id, PIECE, { bytes });
    this.#onRemoved(removed);
    return removed;
  }
}
