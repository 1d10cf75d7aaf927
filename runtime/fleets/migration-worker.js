// Applies migrations to one D1 database, inside workerd. Takes the database's storage from workerd's own D1, whose
// class it replaces for the moment: same name, same unique key, same storage, same limits on what SQL may do.
import { DurableObject } from 'cloudflare:workers';
import { splitStatements } from './cellar-sql-statements.js';

const TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

/** Names of applied migrations that are told after a failure. */
const TOLD = 1_000;

export class D1Database extends DurableObject {
  /**
   * Takes `[{name, path}]`, paths in the release, and answers `{applied: [name]}` or `{failed: {at, message, done}}`. `done`:
   * what was applied before.
   */
  async fetch(request) {
    const migrations = [];
    let at = '';
    let done = new Set();
    try {
      for (const { name, path } of await request.json()) {
        at = name;
        migrations.push({ name, text: await readText(this.env.RELEASE, path) });
      }
      at = 'd1_migrations';
      const applied = this.ctx.storage.transactionSync(() => {
        const { sql } = this.ctx.storage;
        sql.exec(TABLE);
        done = new Set([...sql.exec('SELECT name FROM d1_migrations')].map((row) => row.name));
        const pending = migrations.filter(({ name }) => !done.has(name));
        for (const { name, text } of pending) {
          at = name;
          for (const statement of splitStatements(text)) {
            at = `${name}:${statement.line}`;
            sql.exec(statement.sql).toArray();
          }
          at = name;
          sql.exec('INSERT INTO d1_migrations (name) VALUES (?)', name);
        }
        return pending.map(({ name }) => name);
      });
      await this.ctx.storage.sync();
      return Response.json({ applied });
    } catch (error) {
      return Response.json({ failed: { at, message: error.message, done: [...done].slice(-TOLD) } });
    }
  }
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
      // A commit that fails, for a broken foreign key, fails the object and not the call that it comes after.
      return Response.json({ failed: { at: 'the commit', message: error.message, done: [] } });
    }
  },
};
