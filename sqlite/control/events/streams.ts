// The newest events of one app's live streams, in the SQLite database of its Durable Object.

/** Maximum number of events kept of each stream. */
export const KEPT_EVENTS = 1000;

/** An event of a stream. `seq` counts from 1 within its stream; `data` is JSON. */
export interface StreamEvent {
  seq: number;
  name: string | null;
  data: string;
}

/** The events after a position in a stream. `gap`: some were dropped, or the position is not from this stream. */
export interface Resumption {
  events: StreamEvent[];
  gap: boolean;
}

/** The events of one app's streams. */
export class StreamStore {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(`
      CREATE TABLE IF NOT EXISTS stream_events (
        stream TEXT NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (stream, seq)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS outboxes (outbox TEXT PRIMARY KEY, applied_seq INTEGER NOT NULL) STRICT;
    `);
    // Adds columns that tables of older versions lack.
    const columns = sql.exec("SELECT name FROM pragma_table_info('stream_events')").toArray();
    if (!columns.some(({ name }) => name === 'name'))
      sql.exec('ALTER TABLE stream_events ADD COLUMN name TEXT');
    if (!columns.some(({ name }) => name === 'at'))
      sql.exec('ALTER TABLE stream_events ADD COLUMN at INTEGER NOT NULL DEFAULT 0');
  }

  /** Appends an event to a stream, and drops those beyond `KEPT_EVENTS`. @param at ms since 1970 */
  append(stream: string, name: string | null, data: string, at: number): StreamEvent {
    const { seq } = this.#sql
      .exec<{ seq: number }>(
        `INSERT INTO stream_events (stream, seq, name, data, at)
         SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3, ?4 FROM stream_events WHERE stream = ?1 RETURNING seq`,
        stream,
        name,
        data,
        at,
      )
      .one();
    this.#sql.exec('DELETE FROM stream_events WHERE stream = ? AND seq <= ?', stream, seq - KEPT_EVENTS);
    return { seq, name, data };
  }

  /**
   * Drops events added before `before`, in ms since 1970. The newest one of each stream stays, so that `seq` is not reused.
   * @returns when the oldest remaining event that a later call may drop was added, in ms since 1970; null without one
   */
  prune(before: number): number | null {
    const older =
      'seq < (SELECT max(seq) FROM stream_events AS last WHERE last.stream = stream_events.stream)';
    this.#sql.exec(`DELETE FROM stream_events WHERE at < ? AND ${older}`, before);
    return this.#sql
      .exec<{ at: number | null }>(`SELECT min(at) AS at FROM stream_events WHERE ${older}`)
      .one().at;
  }

  after(stream: string, seq: number): Resumption {
    const events = this.#sql
      .exec<{ seq: number; name: string | null; data: string }>(
        'SELECT seq, name, data FROM stream_events WHERE stream = ? AND seq > ? ORDER BY seq',
        stream,
        seq,
      )
      .toArray();
    const next = events[0]?.seq ?? this.#last(stream) + 1;
    return { events, gap: next !== seq + 1 };
  }

  /** Records that facts of an outbox were applied up to `seq`. @returns the `seq` recorded before; 0 for none */
  advance(outbox: string, seq: number): number {
    const [row] = this.#sql
      .exec<{ applied_seq: number }>('SELECT applied_seq FROM outboxes WHERE outbox = ?', outbox)
      .toArray();
    this.#sql.exec(
      `INSERT INTO outboxes (outbox, applied_seq) VALUES (?, ?)
       ON CONFLICT (outbox) DO UPDATE SET applied_seq = max(applied_seq, excluded.applied_seq)`,
      outbox,
      seq,
    );
    return row?.applied_seq ?? 0;
  }

  #last(stream: string): number {
    return this.#sql
      .exec<{ seq: number }>(
        'SELECT coalesce(max(seq), 0) AS seq FROM stream_events WHERE stream = ?',
        stream,
      )
      .one().seq;
  }
}
