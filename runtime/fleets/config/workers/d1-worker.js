// D1 in an app's process: workerd's own D1, and an entrypoint through which the host runs SQL of the app's owner.
import { WorkerEntrypoint } from 'cloudflare:workers';
import { splitStatements } from './cellar-sql-statements.js';
import D1, { D1Database as Database } from './d1.js';

export default D1;

/** Maximum size of one answer, rows and figures together, in bytes. */
const ANSWER_BYTES = 10 * 1024 * 1024;
/** An answer is encoded to bytes whenever it has more than this many new characters. */
const PART_LENGTH = 64 * 1024;
const NOT_ENFORCED = /^PRAGMA\s+(?:\w+\s*\.\s*)?foreign_keys\s*(?:=|\()\s*['"]?(?:off|false|no|0)\b/i;

/** Statements that only begin or end a transaction. */
const IN_TRANSACTION = /^(?:BEGIN|COMMIT|END)(?:\s+(?:DEFERRED|IMMEDIATE|EXCLUSIVE))?(?:\s+TRANSACTION)?$/i;
/** SQLite's error when an inserted row refers to a table that does not exist yet. */
const MISSING_PARENT = /^no such table: main\./;

/** An import runs statements of at most this many bytes unchanged. SQLite may refuse larger ones. */
const STATEMENT_BYTES = 90_000;
/** In a longer statement, literals of at least this many characters become parameters. */
const LITERAL_LENGTH = 5_000;
/** Maximum number of literals of a statement that become parameters. */
const PARAMETERS = 100;
const LITERAL = /[xX]'[^']*'|'[^']*(?:''[^']*)*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?\*\//g;

/** workerd's prefix of a failed commit's error. */
const RESET = /^Durable Object was reset and rolled back .*? violated: /;

const encoder = new TextEncoder();

/** Whether one of the statements turns the enforcement of foreign keys off. */
export function turnForeignKeysOff(statements) {
  return statements.some(({ sql }) => NOT_ENFORCED.test(sql));
}

export class D1Database extends Database {
  /** Answers `{done, duration_ms}`, or `{failed: message}` if nothing was changed. */
  async fetch(request) {
    const begun = Date.now();
    try {
      const done =
        new URL(request.url).pathname === '/import'
          ? [JSON.stringify(await this.importFile(await request.text()))]
          : await this.runQueries(await request.json());
      await this.ctx.storage.sync();
      // workerd's clock advances only after I/O, such as the `sync()` above.
      const duration = `,"duration_ms":${Date.now() - begun}}`;
      return new Response(new Blob(['{"done":', ...done, duration]));
    } catch (error) {
      return failure(error);
    }
  }

  /**
   * Runs queries, `[{sql, params}]`, as one transaction. A query may have several statements; its parameters belong to the
   * last one.
   * @returns parts of JSON: for each query a list with `{columns, rows, meta}` of each statement
   */
  async runQueries(queries) {
    const split = queries.map(({ sql, params }) => ({ statements: splitStatements(sql), params }));
    const all = split.flatMap(({ statements }) => statements);
    if (all.length === 0) throw new Error('No SQL statements detected.');
    return this.#transaction(turnForeignKeysOff(all), () => {
      const answer = new Answer();
      let before = this.#figures();
      split.forEach(({ statements, params }, at) => {
        answer.add(at === 0 ? '[[' : ',[');
        statements.forEach(({ sql }, index) => {
          if (index > 0) answer.add(',');
          const values = index === statements.length - 1 ? params.map(bound) : [];
          before = this.#run(sql, values, answer, before);
        });
        answer.add(']');
      });
      answer.add(']');
      return answer.end();
    });
  }

  /**
   * Runs one statement and adds its result to `answer`, with D1's counts, which include changes by triggers and cascades.
   * @returns the figures after the statement
   */
  #run(text, values, answer, before) {
    const cursor = this.ctx.storage.sql.exec(text, ...values);
    answer.add(`{"columns":${JSON.stringify(cursor.columnNames)},"rows":[`);
    let comma = '';
    for (const row of cursor.raw()) {
      answer.add(`${comma}${JSON.stringify(row.map(shown))}`);
      comma = ',';
    }
    const after = this.#figures();
    const meta = {
      changes: after.total - before.total,
      last_row_id: after.last,
      changed_db: after.total !== before.total || after.last !== before.last || after.size !== before.size,
      size_after: after.size,
      rows_read: cursor.rowsRead,
      rows_written: cursor.rowsWritten,
    };
    answer.add(`],"meta":${JSON.stringify(meta)}}`);
    return after;
  }

  /**
   * Runs an SQL file as one transaction, and returns no rows. In too long statements, long literals become parameters. Files
   * of `sqlite3` contain BEGIN and COMMIT, which are skipped. Files of D1 may insert rows before they create the referenced
   * table. Such a file runs again without foreign keys.
   */
  async importFile(text) {
    const statements = splitStatements(text).filter(({ sql }) => !IN_TRANSACTION.test(sql));
    if (statements.length === 0) throw new Error('the file has no statement');
    const { sql } = this.ctx.storage;
    const work = () => {
      const before = this.#figures();
      let [read, written] = [0, 0];
      for (const { sql: statement, line } of statements) {
        try {
          const cursor = sql.exec(...withBound(statement));
          for (const _ of cursor.raw());
          read += cursor.rowsRead;
          written += cursor.rowsWritten;
        } catch (error) {
          throw new Error(`${error.message} (line ${line})`);
        }
      }
      const after = this.#figures();
      return {
        statements: statements.length,
        changes: after.total - before.total,
        rows_read: read,
        rows_written: written,
        size_after: after.size,
      };
    };
    try {
      return await this.#transaction(turnForeignKeysOff(statements), work);
    } catch (error) {
      if (!MISSING_PARENT.test(error.message)) throw error;
      return this.#transaction(true, work);
    }
  }

  /** Runs `work`, which must be synchronous, as one transaction. */
  async #transaction(isWithoutKeys, work) {
    if (!isWithoutKeys) return this.ctx.storage.transactionSync(work);
    // Blocks other events of the object meanwhile. An error thrown inside would reset the object.
    const { value, error } = await this.ctx.blockConcurrencyWhile(async () => {
      try {
        return { value: await this.withoutForeignKeys(work) };
      } catch (error) {
        return { error };
      }
    });
    if (error) throw error;
    return value;
  }

  /**
   * Runs `work` as one transaction without enforced foreign keys. SQLite changes this setting only outside of transactions,
   * so nothing else may use the database meanwhile.
   * @throws {Error} if a row refers to a missing row at the end; nothing is changed then
   */
  async withoutForeignKeys(work) {
    const { storage } = this.ctx;
    await this.#enforce('OFF');
    try {
      return storage.transactionSync(() => {
        const value = work();
        const [missing] = storage.sql.exec('PRAGMA foreign_key_check');
        if (missing === undefined) return value;
        const { table, rowid, parent } = missing;
        const row = rowid === null ? 'a row' : `row ${rowid}`;
        throw new Error(
          `FOREIGN KEY constraint failed: ${row} of ${table} refers to a missing row of ${parent}`,
        );
      });
    } finally {
      await this.#enforce('ON');
    }
  }

  /**
   * Turns the enforcement of foreign keys `ON` or `OFF`. SQLite ignores the setting while a transaction is open, so this
   * first waits until earlier writes are on disk.
   */
  async #enforce(state) {
    const { storage } = this.ctx;
    await storage.sync();
    storage.sql.exec(`PRAGMA foreign_keys = ${state}`);
    const { foreign_keys: isOn } = storage.sql.exec('PRAGMA foreign_keys').one();
    if (isOn === (state === 'ON' ? 1 : 0)) return;
    const why = `foreign keys could not be turned ${state.toLowerCase()}`;
    // The aborted object starts again with a new connection, which enforces foreign keys.
    if (state === 'ON') this.ctx.abort(why);
    throw new Error(why);
  }

  /**
   * Returns the number of rows changed on this connection, the id of the last inserted row, and the database's size in
   * bytes.
   */
  #figures() {
    const { sql } = this.ctx.storage;
    const [total, last] = sql.exec('SELECT total_changes(), last_insert_rowid()').raw().next().value;
    return { total, last, size: sql.databaseSize };
  }
}

/** Answers the host only: `/query/<database>` runs queries, `/import/<database>` an SQL file. */
export class HostDatabases extends WorkerEntrypoint {
  async fetch(request) {
    const [, way, database] = new URL(request.url).pathname.split('/');
    const { DATABASE } = this.env;
    try {
      const object = DATABASE.get(DATABASE.idFromName(decodeURIComponent(database)));
      return await object.fetch(new Request(`http://d1/${way}`, request));
    } catch (error) {
      // A failed commit, such as one with a broken foreign key, resets the object. The object itself cannot catch this
      // error.
      return failure(error);
    }
  }
}

/** Returns an error as JSON, with SQLite's message but without workerd's prefix. */
function failure(error) {
  return Response.json({ failed: String(error.message).replace(RESET, '').slice(0, 2000) });
}

/** Collects an answer as bytes. @throws {Error} when it has more than `ANSWER_BYTES` */
class Answer {
  #parts = [];
  #bytes = 0;
  #text = '';

  add(text) {
    this.#text += text;
    if (this.#text.length > PART_LENGTH) this.#flush();
  }

  end() {
    this.#flush();
    return this.#parts;
  }

  #flush() {
    const part = encoder.encode(this.#text);
    this.#text = '';
    this.#bytes += part.length;
    if (this.#bytes > ANSWER_BYTES)
      throw new Error(`the answer would have more than ${ANSWER_BYTES} bytes; ask for fewer rows or columns`);
    this.#parts.push(part);
  }
}

/** Converts a value of a row to its JSON form in the API; see docs/storage.md. */
function shown(value) {
  if (value instanceof ArrayBuffer) return { $bytes: new Uint8Array(value).toBase64() };
  if (typeof value === 'number' && !Number.isFinite(value)) return { $number: String(value) };
  return value;
}

/** Converts a parameter of the API to a value for SQLite. Bytes arrive as `{$bytes: base64}`. */
function bound(value) {
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  return Uint8Array.fromBase64(value.$bytes).buffer;
}

/** Returns a statement and its parameters. If the statement is too long, its long literals become parameters. */
function withBound(sql) {
  if (sql.length < STATEMENT_BYTES / 3 || encoder.encode(sql).length <= STATEMENT_BYTES) return [sql];
  const values = [];
  const shortened = sql.replace(LITERAL, (literal) => {
    const isText = literal.startsWith("'");
    if ((!isText && !/^x'/i.test(literal)) || literal.length < LITERAL_LENGTH) return literal;
    if (values.length === PARAMETERS) return literal;
    values.push(isText ? literal.slice(1, -1).replaceAll("''", "'") : bytesOf(literal.slice(2, -1)));
    return '?';
  });
  return [shortened, ...values];
}

function bytesOf(hex) {
  if (!/^(?:[0-9a-f]{2})*$/i.test(hex)) throw new Error('the file has bytes that are not hexadecimal digits');
  return Uint8Array.fromHex(hex).buffer;
}
