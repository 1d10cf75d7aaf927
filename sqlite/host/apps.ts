// Rows of the host's `apps` table.
import type { Database } from 'better-sqlite3';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';

/** When an app fell asleep and woke. Times are ISO 8601. */
export interface SleepMarker {
  /** When the app fell asleep; null while it is awake. */
  asleepSince: string | null;
  /** When the app woke last; null for never. */
  wokeAt: string | null;
}

/** The host's row of an app. */
export interface AppRow {
  sleep: SleepMarker;
  wanted: WantedApp;
  liveDeployId: string | null;
  /** ISO 8601; null until a release was live. */
  deployedAt: string | null;
  /** The queues that the live release consumes. */
  consumes: string[];
}

interface Stored {
  wanted: string;
  live_deploy_id: string | null;
  deployed_at: string | null;
  consumes: string;
  asleep_since: string | null;
  woke_at: string | null;
}

export function appQueries(database: Database) {
  const generation = database.prepare<[string], { generation: number }>(
    'SELECT generation FROM apps WHERE id = ?',
  );
  const known = 'FROM apps WHERE deleted_at IS NULL AND id NOT IN (SELECT id FROM previews) ORDER BY id';
  const all = database.prepare<[], Stored>(
    `SELECT wanted, live_deploy_id, deployed_at, consumes, asleep_since, woke_at ${known}`,
  );
  const ids = database.prepare<[], string>(`SELECT id ${known}`).pluck();
  const highest = database.prepare<[], { generation: number | null }>(
    'SELECT max(generation) AS generation FROM apps',
  );
  const want = database.prepare<[string, string, number]>(
    `INSERT INTO apps (id, wanted, generation) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET wanted = excluded.wanted, generation = excluded.generation
     WHERE deleted_at IS NULL AND generation <= excluded.generation`,
  );
  const bury = database.prepare<[string, number, string]>(
    `INSERT INTO apps (id, wanted, generation, deleted_at) VALUES (?, '{}', ?, ?)
     ON CONFLICT (id) DO UPDATE SET
       wanted = '{}', generation = max(generation, excluded.generation), deleted_at = coalesce(deleted_at, excluded.deleted_at),
       live_deploy_id = NULL, storage_names = '{}', consumes = '[]'`,
  );
  const place = database
    .prepare<[string], 'local' | 'bucket'>(
      "SELECT coalesce(wanted ->> 'storage', 'local') FROM apps WHERE id = ? AND deleted_at IS NULL",
    )
    .pluck();
  const isBuried = database.prepare<[string], { buried: 0 | 1 }>(
    'SELECT deleted_at IS NOT NULL AS buried FROM apps WHERE id = ?',
  );
  const point = database.prepare<[string, string, string, string, string]>(
    'UPDATE apps SET live_deploy_id = ?, deployed_at = ?, storage_names = ?, consumes = ? WHERE id = ?',
  );
  const names = database.prepare<[string], { storage_names: string }>(
    'SELECT storage_names FROM apps WHERE id = ?',
  );

  const setSleep = database.prepare<[string | null, string | null, string]>(
    'UPDATE apps SET asleep_since = ?, woke_at = ? WHERE id = ?',
  );
  const outbound = database
    .prepare<[string], string | null>('SELECT outbound FROM apps WHERE id = ?')
    .pluck();
  const setOutbound = database.prepare<[string, string]>('UPDATE apps SET outbound = ? WHERE id = ?');
  const name = database.prepare<[string, string]>('UPDATE apps SET storage_names = ? WHERE id = ?');

  return {
    /** Returns the newest generation seen for an app or a tombstone; 0 for an unknown one. */
    generation: (id: string): number => generation.get(id)?.generation ?? 0,
    /** Returns the newest generation seen for any app; 0 when there is none. */
    highestGeneration: (): number => highest.get()?.generation ?? 0,
    /** Returns where an app or a preview keeps its data; null for a deleted or unknown one. */
    place: (id: string): 'local' | 'bucket' | null => place.get(id) ?? null,
    isDeleted: (id: string): boolean => isBuried.get(id)?.buried === 1,
    /** Returns every app that is not deleted, by id, without previews: those are not in the control plane. */
    all: (): AppRow[] =>
      all.all().map((row) => ({
        wanted: { storage: 'local', ...(JSON.parse(row.wanted) as WantedApp) },
        liveDeployId: row.live_deploy_id,
        deployedAt: row.deployed_at,
        consumes: JSON.parse(row.consumes) as string[],
        sleep: { asleepSince: row.asleep_since, wokeAt: row.woke_at },
      })),
    /** Returns the ids of the apps that `all` returns. */
    ids: (): string[] => ids.all(),
    /** Stores the whole desired state. Does nothing for a deleted app or an older generation. */
    want: (wanted: WantedApp): void => {
      want.run(wanted.id, JSON.stringify(wanted), wanted.generation);
    },
    /** Turns an app into a tombstone. Adds one for an unknown app. */
    delete: (id: string, generation: number, at: string): void => {
      bury.run(id, generation, at);
    },
    /** Makes a release live, with the names of its storage and the queues that it consumes. */
    setLive: (id: string, deployId: string, at: string, storage: object, consumes: string[] = []): void => {
      point.run(deployId, at, JSON.stringify(storage), JSON.stringify(consumes), id);
    },
    setSleep: (id: string, { asleepSince, wokeAt }: SleepMarker): void => {
      setSleep.run(asleepSince, wokeAt, id);
    },
    /** Returns the slug of the app that gets a script's `fetch()` requests; null for none. */
    outbound: (id: string): string | null => outbound.get(id) ?? null,
    setOutbound: (id: string, slug: string): void => {
      setOutbound.run(slug, id);
    },
    /** Stores the names of the storage that an app got before its first deploy. */
    setStorageNames: (id: string, storage: object): void => {
      name.run(JSON.stringify(storage), id);
    },
    /** Returns the stored names of an app's storage; `{}` if none are stored. */
    storageNames: (id: string): object => JSON.parse(names.get(id)?.storage_names ?? '{}') as object,
  };
}
