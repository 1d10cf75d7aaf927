// The SQL migrations of a D1 database, in the order in which wrangler applies them.
import { type Dirent, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, matchesGlob, posix } from 'node:path';
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import { MAX_ENTRIES, MIGRATION_BYTES } from '../limits.ts';
import { insidePath, isThere, pathWithin, show } from '../project/path-containment.ts';
import { readProjectFile } from '../project/regular-file.ts';
import type { DatabaseMigration } from '../release.ts';

/** The table in which Wrangler records migrations when a project names no other. */
const USUAL_TABLE = 'd1_migrations';
/** Maximum characters of a pattern. */
const PATTERN_LENGTH = 256;
/** Maximum commas of a pattern: each can double the number of patterns that the braces expand to. */
const PATTERN_COMMAS = 8;
/** Matches the folders at the start of a pattern that have no special characters. */
const PLAIN_FOLDERS = /^(?:[^*?[\]{}()\\/]+\/)*/;

/**
 * Copies a database's migrations into `<out>/<target>`.
 * @param root real path of the project
 * @param base directory of the configuration
 * @param notes lines for the deploy's log. A missing `migrations_dir` only adds a warning: Wrangler accepts it
 * @throws {BuildFailure} when a file lies outside the project or is too large, and for a pattern that is outside
 * `migrations_dir` or exceeds a limit
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
  const above = directory === './' ? '' : directory;
  const pattern = posix.normalize(database.migrations_pattern ?? `${above}*.sql`);
  const setting = `d1_databases.migrations_pattern of ${database.binding}`;
  if (!pattern.startsWith(above)) throw new BuildFailure(`${setting} must start with ${directory}`);
  const glob = pattern.slice(above.length);
  if (glob.length > PATTERN_LENGTH || glob.split(',').length - 1 > PATTERN_COMMAS || glob.includes('..'))
    throw new BuildFailure(
      `${setting}: after ${directory} it may have at most ${PATTERN_LENGTH} characters, ${PATTERN_COMMAS} commas and no ".."`,
    );
  const names = matchingFiles(root, from, glob).sort(compareMigrations);
  return names.map((name) => {
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

/**
 * Returns the paths of the files below `from` that match `glob`. Does not use Node's glob function, because it follows
 * symbolic links out of the project.
 * @throws {BuildFailure} for too many files and folders
 */
function matchingFiles(root: string, from: string, glob: string): string[] {
  const depth = glob.includes('**') ? Number.POSITIVE_INFINITY : glob.split('/').length;
  const found: string[] = [];
  const first = PLAIN_FOLDERS.exec(glob)![0].slice(0, -1);
  const folders = isThere(root, join(from, first)) ? [first] : [];
  let entries = 0;
  for (const folder of folders)
    for (const entry of entriesOf(root, join(from, folder))) {
      if (++entries > MAX_ENTRIES)
        throw new BuildFailure(`${show(root, from)} has more than ${MAX_ENTRIES} files and folders`);
      const name = posix.join(folder, entry.name);
      if (!entry.isDirectory()) {
        if (matchesGlob(name, glob)) found.push(name);
      } else if (name.split('/').length < depth) folders.push(name);
    }
  return found;
}

function entriesOf(root: string, folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    throw new BuildFailure(`${show(root, folder)} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
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
