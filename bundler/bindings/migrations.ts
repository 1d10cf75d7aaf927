// The SQL migrations of a D1 database, in the order in which wrangler applies them.
import { globSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import { MIGRATION_BYTES } from '../limits.ts';
import { insidePath, isThere, pathWithin, show } from '../project/path-containment.ts';
import { readProjectFile } from '../project/regular-file.ts';
import type { DatabaseMigration } from '../release.ts';

/** The table in which Wrangler records migrations when a project names no other. */
const USUAL_TABLE = 'd1_migrations';

/**
 * Copies a database's migrations into `<out>/<target>`.
 * @param root real path of the project
 * @param base directory of the configuration
 * @param notes lines for the deploy's log. A missing `migrations_dir` only adds a warning, because Wrangler also deploys
 * then
 * @throws {BuildFailure} when a file lies outside the project or is too large, and for a pattern outside `migrations_dir`
 */
export function copyMigrations(
  root: string,
  base: string,
  database: WranglerConfig['d1_databases'][number],
  out: string,
  target: string,
  notes: string[],
): DatabaseMigration[] {
  const what = `d1_databases.migrations_dir of ${database.binding}`;
  const directory = posix.normalize(`${database.migrations_dir ?? 'migrations'}/`);
  const from = pathWithin(root, base, directory, what);
  if (!isThere(root, from)) {
    if (database.migrations_dir !== undefined)
      notes.push(`warning: ${what}: there is no ${show(root, from)}, so no migration is applied`);
    return [];
  }
  const pattern = posix.normalize(database.migrations_pattern ?? `${directory}*.sql`);
  if (!pattern.startsWith(directory)) {
    throw new BuildFailure(
      `d1_databases.migrations_pattern of ${database.binding} must start with ${directory}`,
    );
  }
  const names = globSync(pattern.slice(directory.length), { cwd: from }).sort(compareMigrations);
  return names.map((name) => {
    if (name.split('/').includes('..')) throw new BuildFailure(`${what}: ${name} is outside that folder`);
    const source = insidePath(root, from, name, what);
    const path = `${target}/${name}`;
    mkdirSync(dirname(join(out, path)), { recursive: true });
    writeFileSync(join(out, path), readProjectFile(root, source, MIGRATION_BYTES));
    return { name, path };
  });
}

/** Returns the name of the table that records a database's migrations; an empty object for Wrangler's default. */
export function migrationsTable({
  migrations_table: table = USUAL_TABLE,
}: WranglerConfig['d1_databases'][number]): { migrationsTable?: string } {
  return table === USUAL_TABLE || table === '' ? {} : { migrationsTable: table };
}

/** Compares each part of two paths by its leading number, then by name: `2_b.sql` comes before `10_a.sql`. */
function compareMigrations(a: string, b: string): number {
  const left = a.split('/');
  const right = b.split('/');
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const order = compareParts(left[i]!, right[i]!);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

function compareParts(a: string, b: string): number {
  const [x, y] = [Number.parseInt(a, 10), Number.parseInt(b, 10)];
  if (x !== y && !(Number.isNaN(x) && Number.isNaN(y))) {
    if (Number.isNaN(x)) return 1;
    return Number.isNaN(y) ? -1 : x - y;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}
