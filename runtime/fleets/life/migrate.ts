// D1 migrations. The author's SQL may loop for ever or try to attach files, so it runs in a separate workerd process. This
// process uses the app's real storage, and no other process does meanwhile.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Release } from '../../../bundler/release.ts';
import { writeAtomic } from '../../disk/data-directory.ts';
import { d1Worker } from '../config/bundled-services.ts';
import type { Fields } from '../config/capnp.ts';
import { D1_MODULES } from '../config/entry.ts';
import { type TaskPlace, withTask } from '../process/task-cell.ts';

/** What to migrate, and where. The databases are in the storage's `do` directory. */
export interface MigrateOptions extends TaskPlace {
  databases: Release['databases'];
  log: (line: string) => void;
  signal?: AbortSignal;
}

/** Time limit for all databases, process start included, in ms. */
const MIGRATE_TIMEOUT_MS = 60_000;
/** Maximum number of applied migrations, missing in the project, that an error names. */
const GONE_SHOWN = 3;
/** The default table of applied migrations. */
const USUAL_TABLE = 'd1_migrations';
/** Advice when no migration has been applied yet. Some authors apply SQL by hand, so their files fail when run in order. */
const WITHOUT_MIGRATIONS =
  '; Cloudflare deploys without migrations: to do the same, set "migrations_dir" to a folder without .sql files, push, and then apply SQL with `wrangler d1 execute --remote`';
const WORKER = readFileSync(new URL('./migration-worker.js', import.meta.url), 'utf8');

type Database = Release['databases'][number];
type Answer = { applied: string[] } | { failed: { at: string; message: string; done: string[] } };

/**
 * Applies pending migrations: for each database in one transaction, together with the rows of its migrations table. Starts
 * no process if the cache shows that all are applied. Nothing else may use the storage meanwhile.
 * @throws {Error} naming the binding, file, line and SQLite's message. The failed database is unchanged; earlier ones are
 *   migrated
 */
export async function migrate(options: MigrateOptions): Promise<void> {
  const known = readKnown(options.dataDirectory);
  const pending = options.databases
    .map((database) => {
      const done = new Set(known[keyOf(database)]);
      return { database, migrations: database.migrations.filter(({ name }) => !done.has(name)) };
    })
    .filter(({ migrations }) => migrations.length > 0);
  if (pending.length === 0) return;

  const deadline = AbortSignal.timeout(MIGRATE_TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([deadline, options.signal]) : deadline;
  const { databases: _, log, ...place } = options;
  const task = { name: 'migrate', what: 'migrations', services: services(), disks: ['do'], signal };
  try {
    await withTask(place, task, async (ask) => {
      for (const { database, migrations } of pending) {
        const { binding, storageId, migrationsTable: table = USUAL_TABLE } = database;
        const takesOver = known[keyOf(database)] === undefined && !isUsualTable(database, options.databases);
        const body = JSON.stringify({ table, takesOver, migrations });
        const answer = (await ask(`/${encodeURIComponent(storageId)}`, body)) as Answer;
        if ('failed' in answer) {
          const { at, message, done } = answer.failed;
          const gone = done.filter((applied) => !database.migrations.some(({ name }) => name === applied));
          const isFirst = done.length === 0 && !known[keyOf(database)]?.length;
          throw new Error(
            `migration of ${binding} failed at ${at}: ${message}${renamed(gone)}${isFirst ? WITHOUT_MIGRATIONS : ''}`,
          );
        }
        known[keyOf(database)] = [...(known[keyOf(database)] ?? []), ...migrations.map(({ name }) => name)];
        for (const name of answer.applied) log(`${binding}: applied ${name}`);
      }
    });
  } catch (error) {
    if (!deadline.aborted) throw error;
    throw new Error(`migrations did not end within ${MIGRATE_TIMEOUT_MS / 1000} s and were undone`);
  }
  // This cache only saves the start of a process. Each database's own table is authoritative, so the cache is written last.
  writeAtomic(knownPath(options.dataDirectory), JSON.stringify(known));
}

/** Whether a database's migrations are recorded in the default table, through this binding or another of the release. */
function isUsualTable({ storageId }: Database, databases: readonly Database[]): boolean {
  return databases.some(
    (each) =>
      each.storageId === storageId && each.migrations.length > 0 && each.migrationsTable === undefined,
  );
}

/** The key of a database in the cache of applied migrations. */
function keyOf({ storageId, migrationsTable }: Database): string {
  return migrationsTable === undefined ? storageId : `${storageId} ${migrationsTable}`;
}

/** Returns a hint that names applied migrations that the project lacks, for example renamed ones; empty without any. */
function renamed(gone: string[]): string {
  if (gone.length === 0) return '';
  const shown = gone.length > GONE_SHOWN ? ['…', ...gone.slice(-GONE_SHOWN)] : gone;
  return `; the database has applied ${shown.join(', ')}, which the project does not have: a migration must keep the name under which it was applied`;
}

function services(): Fields[] {
  const worker = d1Worker([
    { name: 'migration-worker.js', esModule: WORKER },
    ...D1_MODULES.map(({ name, text }) => ({ name, esModule: text })),
  ]);
  const bindings = [...(worker.bindings as Fields[]), { name: 'RELEASE', service: 'release' }];
  return [{ name: 'app', worker: { ...worker, bindings } }];
}

function knownPath(dataDirectory: string): string {
  return join(dataDirectory, 'migrations.json');
}

/** Returns the names of applied migrations in `migrations.json`, by `keyOf`; none if the file is missing or unreadable. */
function readKnown(dataDirectory: string): Record<string, string[]> {
  try {
    return JSON.parse(readFileSync(knownPath(dataDirectory), 'utf8'));
  } catch {
    return {};
  }
}
