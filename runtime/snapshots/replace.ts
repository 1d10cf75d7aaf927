// An app's storage replaced by that of a snapshot, while everything else runs.
import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Apps } from '../apps/apps.ts';
import type { Layout } from '../machine/data-directory.ts';
import { handOver } from '../machine/rights.ts';
import type { AppUsers } from '../machine/users.ts';
import type { StorageNames } from '../storage/names.ts';
import { objectId } from '../storage/object-id.ts';
import { NotThere } from './errors.ts';
import { type Move, moveAll } from './moves.ts';
import type { Snapshots } from './snapshots.ts';

export interface ReplaceOptions {
  apps: Apps;
  snapshots: Snapshots;
  paths: Layout;
  storageNames: (appId: string) => Partial<StorageNames>;
  users: (appId: string) => AppUsers;
}

/** What is to be restored. `database`: the key of one D1 database; null for all storage of the app. */
export interface Wanted {
  snapshot: string;
  app: string;
  database: string | null;
}

const HAND_OVER_TIMEOUT_MS = 60_000;
/** Where all D1 databases of an app lie. */
const D1_KEY = 'D1Database';

/**
 * Replaces an app's storage, or one database of it. Requests are held meanwhile; what is replaced is in a snapshot of its
 * own, and in the trash for a week. The app's code, variables and repository stay as they are.
 * @returns the id of the snapshot of the state before
 * @throws {NotThere}, {Unusable}; then nothing has changed
 */
export async function replaceStorage(options: ReplaceOptions, wanted: Wanted): Promise<{ before: string }> {
  const { apps, snapshots, paths, users } = options;
  const { snapshot, app, database } = wanted;
  const work = join(paths.restoring, `${app}-${Date.now()}`);
  const only = database === null ? null : databaseFile(options.storageNames(app), database);
  await snapshots.extract({ snapshot, app, only, into: work });
  try {
    const { head } = await snapshots.take(`before a restore of ${apps.get(app)?.wanted.slug ?? app}`);
    const files = join(work, 'files');
    const { cell } = users(app);
    const theirs = readdirSync(files, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    if (cell !== null) {
      const directories = theirs.map(({ name }) => join(files, name));
      await handOver(directories, cell, HAND_OVER_TIMEOUT_MS);
    }
    const aside = join(paths.trash, `${app}-${Date.now()}`);
    const data = paths.data(app);
    await apps.replaceStorage(app, () => {
      if (only === null) moveAll(work, [{ from: files, to: data, aside: join(aside, 'data') }]);
      else moveAll(work, databaseMoves(files, data, only, aside));
    });
    return { before: head.id };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** @throws {NotThere} when the app has no such database */
function databaseFile({ databases = {} }: Partial<StorageNames>, key: string): string {
  const id = Object.hasOwn(databases, key) ? databases[key]! : null;
  if (id === null) throw new NotThere(`the app has no database ${key}`);
  return join('do', D1_KEY, `${objectId(D1_KEY, id)}.sqlite`);
}

/** What SQLite keeps beside the file belongs to the old one. Which migrations are applied is found out again. */
function databaseMoves(files: string, data: string, file: string, aside: string): Move[] {
  // None of the app's processes runs. What they may have left must not lead elsewhere.
  for (const path of [join(data, dirname(dirname(file))), join(data, dirname(file))])
    if (!lstatSync(path).isDirectory()) throw new Error(`${path} is no directory`);
  const away = ['-wal', '-shm', '-journal'].map((suffix) => `${file}${suffix}`);
  return [
    ...[...away, 'migrations.json'].map((name) => ({
      from: join(data, name),
      to: join(aside, name),
      aside: null,
    })),
    { from: join(files, file), to: join(data, file), aside: join(aside, file) },
  ];
}
