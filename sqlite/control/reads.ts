// Batches the reads of one request: a call to D1 costs far more than a statement in it.

/** A database to read from: D1 itself, or batched reads. */
export type Reader = Pick<D1Database, 'prepare' | 'batch'>;

/** Runs one query. @returns its rows */
export async function rowsOf<Row>(db: Reader, query: string, ...values: string[]): Promise<Row[]> {
  const [rows] = await db.batch<Row>([db.prepare(query).bind(...values)]);
  return rows!.results;
}

interface Group {
  statements: D1PreparedStatement[];
  resolve: (results: D1Result[]) => void;
  reject: (error: unknown) => void;
}

/**
 * Collects reads until a microtask runs, then sends them as one batch. Not for writes: a batch is one transaction, and
 * the statements of a failed batch run again.
 */
export class JoinedReads implements Reader {
  readonly #db: D1Database;
  #waiting: Group[] = [];

  constructor(db: D1Database) {
    this.#db = db;
  }

  prepare(sql: string): D1PreparedStatement {
    return this.#db.prepare(sql);
  }

  batch<Row>(statements: D1PreparedStatement[]): Promise<D1Result<Row>[]> {
    if (this.#waiting.length === 0) queueMicrotask(() => void this.#send());
    return new Promise((resolve, reject) => {
      this.#waiting.push({ statements, resolve: resolve as Group['resolve'], reject });
    });
  }

  async #send(): Promise<void> {
    const groups = this.#waiting;
    this.#waiting = [];
    try {
      const results = await this.#db.batch(groups.flatMap(({ statements }) => statements));
      for (const { statements, resolve } of groups) resolve(results.splice(0, statements.length));
    } catch {
      // Retries the reads of each caller separately, because one failed read makes the whole batch fail.
      for (const { statements, resolve, reject } of groups) {
        const again = () => this.#db.batch(statements);
        again().catch(again).then(resolve, reject);
      }
    }
  }
}

/**
 * Runs a read, and retries it twice. A failed write, as on a full disk, ends the Durable Object of the database, so
 * concurrent reads fail too.
 */
export const withRetries = <Answer>(read: () => Promise<Answer>): Promise<Answer> =>
  read().catch(read).catch(read);
