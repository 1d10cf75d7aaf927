// Brings the D1 database to the newest schema.
import control from './migrations/0001_control.sql';
import observedAsOf from './migrations/0002_observed_as_of.sql';
import factsByRow from './migrations/0003_facts_by_row.sql';
import idempotencyByCaller from './migrations/0004_idempotency_by_caller.sql';
import order from './migrations/0005_order.sql';
import ages from './migrations/0006_ages.sql';

/** In order, by file name as Wrangler records it. A statement ends with `;` at the end of a line. */
const migrations: { name: string; sql: string }[] = [
  { name: '0001_control.sql', sql: control },
  { name: '0002_observed_as_of.sql', sql: observedAsOf },
  { name: '0003_facts_by_row.sql', sql: factsByRow },
  { name: '0004_idempotency_by_caller.sql', sql: idempotencyByCaller },
  { name: '0005_order.sql', sql: order },
  { name: '0006_ages.sql', sql: ages },
];

/** The database has a schema that this Cellar does not know. */
export class NewerSchema extends Error {}

/**
 * Applies what is missing: each migration in one transaction with the row that records it.
 * @throws {NewerSchema} when a newer Cellar has used the database; nothing is changed then
 */
export async function migrate(db: D1Database): Promise<void> {
  let applied = await appliedMigrations(db);
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = [...applied].filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new NewerSchema(
      `The control plane's database was used by a newer Cellar (it has ${unknown.join(', ')}); start that one.`,
    );
  }
  for (const { name, sql } of migrations) {
    if (applied.has(name)) continue;
    const statements = statementsOf(sql).map((statement) => db.prepare(statement));
    const record = db.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name);
    try {
      await db.batch([...statements, record]);
    } catch (error) {
      // Two first requests may come at once: the second one's batch fails whole, and finds the work done.
      applied = await appliedMigrations(db);
      if (!applied.has(name)) throw error;
    }
  }
}

async function appliedMigrations(db: D1Database): Promise<Set<string>> {
  const [, recorded] = await db.batch<{ name: string }>([
    db.prepare(
      `CREATE TABLE IF NOT EXISTS d1_migrations (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         name TEXT UNIQUE,
         applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
       )`,
    ),
    db.prepare('SELECT name FROM d1_migrations'),
  ]);
  return new Set(recorded!.results.map((row) => row.name));
}

function statementsOf(sql: string): string[] {
  return sql
    .replace(/^--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}
