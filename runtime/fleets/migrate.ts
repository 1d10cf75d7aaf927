// D1 migrations. User SQL may loop for ever or try to attach files, so it runs in a workerd of its own, on the real
// storage, while no other process has that.
import { readFileSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import { askSocket } from '../machine/ask-socket.ts';
import { writeAtomic } from '../machine/data-directory.ts';
import type { User } from '../machine/users.ts';
import type { Cell } from './cell.ts';
import { lineSink } from './cell-output.ts';
import { d1Worker } from './config/bundled-services.ts';
import { capnp, type Fields } from './config/capnp.ts';
import { D1, D1_WORKER, STATEMENTS, STATEMENTS_WORKER } from './config/entry.ts';
import { startCell } from './start-cell.ts';

/** What to migrate, and where. */
export interface MigrateOptions {
  workerd: string;
  /** Who runs it; `null`: the host's own user. */
  user: User | null;
  /** Memory that the process may use, in MiB. */
  memoryMb: number;
  databases: Release['databases'];
  /** The release's directory. */
  directory: string;
  /** The app's data: `do` holds its databases, `migrations.json` what is known to be applied. */
  dataDirectory: string;
  runDirectory: string;
  log: (line: string) => void;
  signal?: AbortSignal;
}

/** Longest run for all databases, in ms, process start and every file included. */
const MIGRATE_TIMEOUT_MS = 60_000;
/** Longest answer: names of files, or one message of SQLite's. */
const ANSWER_BYTES = 1024 * 1024;
/** Applied migrations that a message names. */
const GONE_TOLD = 3;
const SOCKET = 'migrate';
/** The table that records migrations where the project names none. */
const USUAL_TABLE = 'd1_migrations';
const WORKER = readFileSync(new URL('./migration-worker.js', import.meta.url), 'utf8');

type Database = Release['databases'][number];
type Answer = { applied: string[] } | { failed: { at: string; message: string; done: string[] } };

/**
 * Applies what is pending, each database in one transaction with its rows in the table of its migrations. Starts nothing when
 * nothing can be pending. Nobody else may have the storage meanwhile.
 * @throws {Error} naming database, file, line and SQLite's message; that database is as it was before
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
  const cell = await startMigrationCell(options, signal);
  try {
    for (const { database, migrations } of pending) {
      const { binding, storageId, migrationsTable: table = USUAL_TABLE } = database;
      const takesOver = known[keyOf(database)] === undefined && !isUsualTable(database, options.databases);
      const body = JSON.stringify({ table, takesOver, migrations });
      const path = `/${encodeURIComponent(storageId)}`;
      const answer = await ask(cell, { path, body, signal });
      if ('failed' in answer) {
        const { at, message, done } = answer.failed;
        const gone = done.filter((applied) => !database.migrations.some(({ name }) => name === applied));
        throw new Error(`migration of ${binding} failed at ${at}: ${message}${renamed(gone)}`);
      }
      known[keyOf(database)] = [...(known[keyOf(database)] ?? []), ...migrations.map(({ name }) => name)];
      for (const name of answer.applied) options.log(`${binding}: applied ${name}`);
    }
  } catch (error) {
    if (!deadline.aborted) throw error;
    throw new Error(`migrations did not end within ${MIGRATE_TIMEOUT_MS / 1000} s and were undone`);
  } finally {
    if (signal.aborted) cell.kill();
    await cell.stop();
  }
  // Written last, and only to save the start of a process: the table in the database says what was applied.
  writeAtomic(knownPath(options.dataDirectory), JSON.stringify(known));
}

/** Whether a database's migrations are recorded in the usual table, by this binding or another one of the release. */
function isUsualTable({ storageId }: Database, databases: readonly Database[]): boolean {
  return databases.some(
    (each) =>
      each.storageId === storageId && each.migrations.length > 0 && each.migrationsTable === undefined,
  );
}

/** The name under which it is known what of a database's migrations is applied. */
function keyOf({ storageId, migrationsTable }: Database): string {
  return migrationsTable === undefined ? storageId : `${storageId} ${migrationsTable}`;
}

/** What a failure may come from, where migrations were applied that the project does not have. @param gone their names */
function renamed(gone: string[]): string {
  if (gone.length === 0) return '';
  const told = gone.length > GONE_TOLD ? ['…', ...gone.slice(-GONE_TOLD)] : gone;
  return `; the database has applied ${told.join(', ')}, which the project does not have: a migration keeps the name that it was applied by`;
}

async function ask(cell: Cell, about: { path: string; body: string; signal: AbortSignal }): Promise<Answer> {
  const request = { method: 'POST', limitBytes: ANSWER_BYTES, ...about };
  const answered = askSocket(cell.socketPath(SOCKET), request).then(({ status, text }) => {
    if (text === null) throw new Error(`migrations failed with more than ${ANSWER_BYTES} bytes to say`);
    if (status !== 200) throw new Error(`migrations failed: ${text}`);
    return JSON.parse(text) as Answer;
  });
  const ended = cell.exited.then(({ reason }) => Promise.reject(new Error(`migrations failed: ${reason}`)));
  return Promise.race([answered, ended]);
}

async function startMigrationCell(options: MigrateOptions, signal: AbortSignal): Promise<Cell> {
  const directory = join(options.runDirectory, 'migrate');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const config = join(directory, 'migrate.capnp');
  await writeFile(config, migrationConfig());
  try {
    return await startCell({
      workerd: options.workerd,
      user: options.user,
      memoryMb: options.memoryMb,
      directory: options.directory,
      config,
      disks: { do: join(options.dataDirectory, 'do') },
      runDirectory: options.runDirectory,
      sockets: [SOCKET],
      ownsStorage: true,
      output: lineSink(() => {}),
      signal,
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function migrationConfig(): string {
  const worker = d1Worker([
    { name: 'migration-worker.js', esModule: WORKER },
    { name: D1, esModule: D1_WORKER },
    { name: STATEMENTS, esModule: STATEMENTS_WORKER },
  ]);
  const config = capnp({
    structuredLogging: true,
    services: [
      { name: 'do', disk: { writable: true } },
      // The process reads the migrations itself: how many there are, and how long they are, their author decides.
      { name: 'release', disk: { path: '.', allowDotfiles: true } },
      { name: 'internet', network: { allow: [] } },
      {
        name: 'app',
        worker: {
          ...worker,
          bindings: [...(worker.bindings as Fields[]), { name: 'RELEASE', service: 'release' }],
        },
      },
    ],
    sockets: [{ name: SOCKET, http: {}, service: 'app' }],
  });
  return `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${config};\n`;
}

function knownPath(dataDirectory: string): string {
  return join(dataDirectory, 'migrations.json');
}

/** Names of applied migrations by `keyOf` a database. Lost or unreadable, it is found out again. */
function readKnown(dataDirectory: string): Record<string, string[]> {
  try {
    return JSON.parse(readFileSync(knownPath(dataDirectory), 'utf8'));
  } catch {
    return {};
  }
}
