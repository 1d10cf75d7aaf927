// Applies migrations to one D1 database inside workerd, as D1 in an app's process would: with the same class, unique key,
// storage and SQL limits.
import { D1Database as Database, turnForeignKeysOff } from './cellar-d1.js';
import { splitStatements } from './cellar-sql-statements.js';

/** The default table of applied migrations. Before `migrations_table` was supported, all databases used it. */
const USUAL_TABLE = 'd1_migrations';
/** Maximum number of names of applied migrations in the answer to a failure. */
const DONE_SHOWN = 1_000;

export class D1Database extends Database {
  /**
   * Takes `{table, takesOver, migrations: [{name, path}]}`, with paths in the release. Answers `{applied: [name]}` or
   * `{failed: {at, message, done}}`. `done`: names applied before this call. `takesOver`: names recorded in the default
   * table count as applied.
   */
  async fetch(request) {
    let at = '';
    let done = new Set();
    try {
      const { table, takesOver, migrations } = await request.json();
      const read = [];
      for (const { name, path } of migrations) {
        at = name;
        read.push({ name, statements: splitStatements(await readText(this.env.RELEASE, path)) });
      }
      at = table;
      const { sql } = this.ctx.storage;
      done = namesIn(sql, table);
      const before = takesOver ? namesIn(sql, USUAL_TABLE) : new Set();
      const taken = read.filter(({ name }) => before.has(name) && !done.has(name));
      const pending = read.filter(({ name }) => !before.has(name) && !done.has(name));
      const withoutKeys = pending.find(({ statements }) => turnForeignKeysOff(statements));
      const record = (name) => sql.exec(`INSERT INTO ${quoted(table)} (name) VALUES (?)`, name);
      const apply = () => {
        at = table;
        sql.exec(createTable(table));
        for (const { name } of taken) record(name);
        for (const { name, statements } of pending) {
          for (const statement of statements) {
            at = `${name}:${statement.line}`;
            sql.exec(statement.sql).toArray();
          }
          at = name;
          record(name);
        }
        if (withoutKeys) at = withoutKeys.name;
      };
      if (withoutKeys) await this.withoutForeignKeys(apply);
      else this.ctx.storage.transactionSync(apply);
      await this.ctx.storage.sync();
      return Response.json({ applied: pending.map(({ name }) => name) });
    } catch (error) {
      return Response.json({ failed: { at, message: error.message, done: [...done].slice(-DONE_SHOWN) } });
    }
  }
}

/** Returns the names recorded in a table of migrations; empty if the table is missing. */
function namesIn(sql, table) {
  const [found] = sql.exec("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", table);
  if (found === undefined) return new Set();
  return new Set([...sql.exec(`SELECT name FROM ${quoted(table)}`)].map(({ name }) => name));
}

/** Returns the SQL that creates a table of applied migrations, with Wrangler's schema. */
function createTable(table) {
  return `CREATE TABLE IF NOT EXISTS ${quoted(table)}(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;
}

function quoted(name) {
  return `"${name.replaceAll('"', '""')}"`;
}

async function readText(release, path) {
  const names = path.split('/').map((name) => encodeURIComponent(name));
  const response = await release.fetch(`http://release/${names.join('/')}`);
  if (response.status !== 200) throw new Error(`${path} cannot be read (${response.status})`);
  return response.text();
}

export default {
  async fetch(request, env) {
    const database = decodeURIComponent(new URL(request.url).pathname.slice(1));
    try {
      return await env.DATABASE.get(env.DATABASE.idFromName(database)).fetch(request);
    } catch (error) {
      // A failed commit, such as one with a broken foreign key, resets the object. The object itself cannot catch this
      // error.
      return Response.json({ failed: { at: 'the commit', message: error.message, done: [] } });
    }
  },
};
