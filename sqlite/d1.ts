// Migrates a D1 database to the newest schema.

/** `name` is recorded in the database. A statement of `sql` ends with `;` at the end of a line. */
export interface Migration {
  name: string;
  sql: string;
}

/** The database has a schema that this Cellar does not know. */
export class NewerSchema extends Error {}

/**
 * Applies missing migrations in order, each in one transaction with the row that records it.
 * @param database its name in the error message
 * @throws {NewerSchema} when a newer Cellar has used the database; nothing is changed then
 */
export async function applyMigrations(
  db: D1Database,
  migrations: readonly Migration[],
  database: string,
): Promise<void> {
  let applied = await appliedMigrations(db);
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = [...applied].filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new NewerSchema(
      `${database} was used by a newer Cellar (it has ${unknown.join(', ')}); start that newer version.`,
    );
  }
  for (const { name, sql } of migrations) {
    if (applied.has(name)) continue;
    const statements = statementsOf(sql).map((statement) => db.prepare(statement));
    const record = db.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name);
    try {
      await db.batch([...statements, record]);
    } catch (error) {
      // A concurrent request may have applied this migration. Then the whole batch fails, and nothing is left to do.
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
