// Reads of one request, joined: a call to D1 costs far more than a statement in it.

/** What a read needs of a database: D1 itself, or reads that are joined. */
export type Reader = Pick<D1Database, 'prepare' | 'batch'>;

interface Group {
  statements: D1PreparedStatement[];
  resolve: (results: D1Result[]) => void;
  reject: (error: unknown) => void;
}

/** Sends the reads that are asked for in one turn as one batch. Not for writes: a batch is one transaction. */
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
      // As in `onceMore`, each by itself: a read that fails must not fail the others of its batch.
      for (const { statements, resolve, reject } of groups) this.#db.batch(statements).then(resolve, reject);
    }
  }
}

/**
 * What a read answers; one that fails is read once more. A write that fails, such as on a full disk, ends the object that has the
 * database, and with it the reads of others that are under way.
 */
export const onceMore = <Answer>(read: () => Promise<Answer>): Promise<Answer> => read().catch(read);
