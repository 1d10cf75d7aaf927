// How many bytes are kept of what apps write row by row, of one app and of all: then the app that has most loses its oldest.
import type { Database } from 'better-sqlite3';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import { maxBy } from './max-by.ts';

/** Bytes of one app's rows; and what all rows may take in their file, where a row can take four times its bytes. */
const APP_BYTES = 64 * 1024 * 1024;
const ALL_BYTES = 1024 * 1024 * 1024;
/** Rows that are removed at once. */
const PIECE = 2_000;

export interface ByteBoundsOptions {
  /** Bounds, for tests. */
  appBytes?: number;
  allBytes?: number;
}

/** The rows of apps. */
interface Rows {
  sizes: () => { app_id: string; bytes: number }[];
  /** Removes up to `limit` of an app's oldest rows, no more than it takes to have so many bytes less. @returns how many */
  removeOldest: (appId: string, limit: number, most: { bytes: number }) => number;
}

export class ByteBounds {
  readonly #database: Database;
  readonly #rows: Rows;
  readonly #appBytes: number;
  readonly #allBytes: number;
  readonly #onRemoved: (rows: number) => void;

  /** @param onRemoved is told how many rows were removed */
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

  /** Makes room for rows that were just written: pieces that are removed later might be fewer than those that come. */
  makeRoom(written: number): void {
    for (let removed = 0; removed < written; ) {
      const piece = this.removePiece();
      if (piece === 0) return;
      removed += piece;
    }
  }

  /** Removes a piece of what is too much. @returns how many rows */
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
