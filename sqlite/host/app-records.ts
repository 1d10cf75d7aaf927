// What another machine needs to run an app: its rows of several tables as one record.
import type { Database } from 'better-sqlite3';
import type { DeployFact, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { PreviewRow } from './previews.ts';
import type { StoredPull } from './source/pulls.ts';

/**
 * Number of newest deploys in a record, and of newest deploys of new commits. These show whether main is deployed, and
 * which interrupted deploy to repeat. A record also has all deploys that can be rolled back to.
 */
const NEWEST = 2;
/** Maximum pull requests in a record. Closed ones without work come last; within both groups, newest changes first. */
const PULLS = 50;
/** Maximum messages of alerts in a record. */
const MESSAGES = 50;
/** Maximum bytes of the bodies of these messages together. */
const MESSAGES_BYTES = 64 * 1024;

/** An app's rows, without what belongs to this machine. Times are as in the tables. */
export interface AppRecord {
  format: 1;
  wanted: WantedApp;
  /** Null for an app that is not a preview. */
  preview: PreviewRow | null;
  /** Ids of its previews. Left out by an older Cellar. */
  previews?: string[];
  liveDeployId: string | null;
  deployedAt: string | null;
  consumes: string[];
  storageNames: object;
  asleepSince: string | null;
  wokeAt: string | null;
  /**
   * For a script of a dispatch namespace: the slug of its outbound Worker, which gets its `fetch()` requests. An older
   * Cellar leaves it out.
   */
  outbound?: string | null;
  /** Encrypted values as base64. */
  secrets: { name: string; sealed: string; createdAt: string; updatedAt: string }[];
  /** In the order in which they were added. */
  deploys: { fact: DeployFact; releaseOf: string | null }[];
  /**
   * `deliveries`: the newest messages that are not yet delivered, `nextAt` in ms since 1970. Left out by an older Cellar.
   */
  alerts: { id: string; alert: object; deliveries?: WaitingDelivery[] }[];
  /**
   * The repository on a Git host from which the app is deployed, with its encrypted keys as base64. An older Cellar leaves
   * it out.
   */
  connection?: { source: object; sealed: string } | null;
  /** Pull requests of that repository. Left out by an older Cellar. */
  pulls?: RecordedPull[];
}

interface RecordedPull {
  pull: StoredPull;
  /** When it has work to do, in ms since 1970; null for none. */
  dueAt: number | null;
}

interface WaitingDelivery {
  id: string;
  body: string;
  nextAt: number;
  /** The state whose begin or end it reports; null for other messages. Left out by an older Cellar. */
  state?: string | null;
}

/** An app whose folder is still in the bucket, although the app was deleted or moved to its machine. */
export interface DeletedApp {
  format: 1;
  deletedApp: string;
  /** When the folder is removed, ISO 8601. */
  removeAt: string;
  /** The id of the host that removes it. Left out by the only host. */
  home?: string;
}

/** A changed record: the revision grows with each change. */
export interface ChangedRecord {
  appId: string;
  revision: number;
}

interface StoredApp {
  wanted: string;
  live_deploy_id: string | null;
  deployed_at: string | null;
  consumes: string;
  storage_names: string;
  asleep_since: string | null;
  woke_at: string | null;
  outbound: string | null;
}

export function appRecordQueries(database: Database) {
  const changed = database.prepare<[], ChangedRecord>(
    'SELECT app_id AS appId, revision FROM changed_records ORDER BY app_id',
  );
  const changeOf = database.prepare<[string], ChangedRecord>(
    'SELECT app_id AS appId, revision FROM changed_records WHERE app_id = ?',
  );
  const written = database.prepare<[string, number]>(
    'DELETE FROM changed_records WHERE app_id = ? AND revision = ?',
  );
  const app = database.prepare<[string], StoredApp>(
    `SELECT wanted, live_deploy_id, deployed_at, consumes, storage_names, asleep_since, woke_at, outbound
     FROM apps WHERE id = ? AND deleted_at IS NULL`,
  );
  const preview = database.prepare<[string], PreviewRow>(
    `SELECT id, parent_id AS parentId, name, source, version_id AS versionId, created_at AS createdAt,
       expires_at AS expiresAt, share FROM previews WHERE id = ?`,
  );
  const previewIds = database
    .prepare<[string], string>(
      `SELECT previews.id FROM previews JOIN apps ON apps.id = previews.id
       WHERE parent_id = ? AND deleted_at IS NULL ORDER BY previews.id`,
    )
    .pluck();
  const secrets = database.prepare<
    [string],
    { name: string; sealed: Buffer; createdAt: string; updatedAt: string }
  >(
    'SELECT name, sealed, created_at AS createdAt, updated_at AS updatedAt FROM secrets WHERE app_id = ? ORDER BY name',
  );
  const deploys = database.prepare<
    { app: string; newest: number },
    { fact: string; releaseOf: string | null }
  >(
    `SELECT fact, release_of AS releaseOf FROM deploys
     WHERE app_id = @app AND (fact ->> 'can_roll_back' = 1
       OR rowid IN (SELECT rowid FROM deploys WHERE app_id = @app ORDER BY rowid DESC LIMIT @newest)
       OR rowid IN (SELECT rowid FROM deploys WHERE app_id = @app
         AND fact ->> 'trigger' NOT IN ('rollback', 'redeploy', 'upload', 'promote') ORDER BY rowid DESC LIMIT @newest))
     ORDER BY rowid`,
  );
  const alerts = database.prepare<[string], { id: string; alert: string }>(
    'SELECT id, alert FROM alerts WHERE app_id = ? ORDER BY id',
  );
  // The inner query reads only the index: many long messages may wait.
  const deliveries = database.prepare<[string, number], Required<WaitingDelivery> & { alertId: string }>(
    `SELECT alert_id AS alertId, id, body, next_at AS nextAt, state FROM alert_deliveries WHERE id IN
       (SELECT id FROM alert_deliveries WHERE alert_id IN (SELECT id FROM alerts WHERE app_id = ?)
        ORDER BY id DESC LIMIT ?)
     ORDER BY id DESC`,
  );
  const connection = database.prepare<[string], { source: string; sealed: Buffer }>(
    'SELECT source, sealed FROM sources WHERE app_id = ?',
  );
  // The repository is fetched at once, unless it is deployed manually: deliveries of its webhook may have been missed.
  const addConnection = database.prepare<{ id: string; source: string; sealed: Buffer }>(
    `INSERT INTO sources (app_id, source, sealed, due_at)
     VALUES (@id, @source, @sealed, iif(@source ->> 'deploy_on' = 'manual', NULL, 0))`,
  );
  const pulls = database.prepare<[string, number], { pull: string; dueAt: number | null }>(
    `SELECT pull, due_at AS dueAt FROM pulls WHERE app_id = ?
     ORDER BY due_at IS NULL AND pull ->> 'state' = 'closed', pull ->> 'updated_at' DESC, number DESC LIMIT ?`,
  );
  const addPull = database.prepare<[string, number, string, number | null]>(
    'INSERT INTO pulls (app_id, number, pull, due_at) VALUES (?, ?, ?, ?)',
  );
  const addApp = database.prepare<unknown[]>(
    `INSERT INTO apps (id, wanted, generation, live_deploy_id, deployed_at, consumes, storage_names, asleep_since, woke_at,
       outbound)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET wanted = excluded.wanted, generation = excluded.generation, deleted_at = NULL,
       live_deploy_id = excluded.live_deploy_id, deployed_at = excluded.deployed_at, consumes = excluded.consumes,
       storage_names = excluded.storage_names, asleep_since = excluded.asleep_since, woke_at = excluded.woke_at,
       outbound = excluded.outbound`,
  );
  const addPreview = database.prepare<PreviewRow>(
    `INSERT OR IGNORE INTO previews (id, parent_id, name, source, version_id, created_at, expires_at, share)
     VALUES (@id, @parentId, @name, @source, @versionId, @createdAt, @expiresAt, @share)`,
  );
  const isThere = database.prepare<[string]>('SELECT 1 FROM apps WHERE id = ? AND deleted_at IS NULL');
  const removal = database
    .prepare<[string], string>('SELECT due_at FROM folder_removals WHERE app_id = ?')
    .pluck();
  // Adds no removal for an app that keeps its data in the bucket: it uses the folder.
  const addRemoval = database.prepare<{ id: string; removeAt: string }>(
    `INSERT INTO folder_removals SELECT @id, @removeAt WHERE NOT EXISTS
       (SELECT 1 FROM apps WHERE id = @id AND deleted_at IS NULL AND wanted ->> 'storage' = 'bucket')
     ON CONFLICT (app_id) DO NOTHING`,
  );
  const addSecret = database.prepare<unknown[]>('INSERT INTO secrets VALUES (?, ?, ?, ?, ?)');
  const addDeploy = database.prepare<unknown[]>(
    'INSERT INTO deploys (id, app_id, fact, release_of) VALUES (?, ?, ?, ?)',
  );
  const addAlert = database.prepare<unknown[]>('INSERT INTO alerts (id, app_id, alert) VALUES (?, ?, ?)');
  // Unsure, because the other machine may have sent it.
  const addDelivery = database.prepare<unknown[]>(
    'INSERT INTO alert_deliveries (id, alert_id, body, next_at, state, unsure) VALUES (?, ?, ?, ?, ?, 1)',
  );
  const belongings = [
    ...['secrets', 'deploys', 'alerts', 'activity', 'sources'].map(
      (table) => `DELETE FROM ${table} WHERE app_id = ?`,
    ),
    'DELETE FROM previews WHERE id = ?',
  ].map((sql) => database.prepare<[string]>(sql));
  const addActivity = database.prepare<[string]>('INSERT INTO activity (app_id, resting) VALUES (?, 1)');
  const areAlarmsUnread = database.prepare<[], 1>("SELECT 1 FROM meta WHERE name = 'alarms_unread'").pluck();
  const setAlarmsUnread = database.prepare<[]>("INSERT OR REPLACE INTO meta VALUES ('alarms_unread', '1')");
  const alarmsAreRead = database.prepare<[]>("DELETE FROM meta WHERE name = 'alarms_unread'");
  const forgetChanges = database.prepare<[]>('DELETE FROM changed_records');
  const markOthers = database.prepare<{ taken: string }>(
    `INSERT INTO changed_records SELECT id, 1 FROM apps WHERE deleted_at IS NULL AND wanted ->> 'storage' = 'bucket'
       AND id NOT IN (SELECT value FROM json_each(@taken))`,
  );
  const join = database.prepare<[]>("INSERT OR REPLACE INTO meta VALUES ('joined', '1')");
  const hasJoined = database.prepare<[], 1>("SELECT 1 FROM meta WHERE name = 'joined'").pluck();
  const setCellar = database.prepare<[string]>(
    "INSERT INTO meta VALUES ('cellar', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
  );

  const change = database.prepare<[string]>(
    `INSERT INTO changed_records VALUES (?, 1) ON CONFLICT (app_id) DO UPDATE SET revision = revision + 1`,
  );
  const unchange = database.prepare<[string]>('DELETE FROM changed_records WHERE app_id = ?');
  const noRemoval = database.prepare<[string]>('DELETE FROM folder_removals WHERE app_id = ?');
  const notHeld = database.prepare<[string]>('DELETE FROM held WHERE app_id = ?');
  const allPreviewIds = database
    .prepare<[string], string>('SELECT id FROM previews WHERE parent_id = ?')
    .pluck();
  const removeApp = database.prepare<[string]>('DELETE FROM apps WHERE id = ?');
  const keep = database.prepare<[string, string, number]>(
    'INSERT INTO kept_apps (app_id, record, thrown_at) VALUES (?, ?, ?) ON CONFLICT (app_id) DO NOTHING',
  );
  const kept = database.prepare<[string], { record: string; thrownAt: number }>(
    'SELECT record, thrown_at AS thrownAt FROM kept_apps WHERE app_id = ?',
  );
  const notKept = database.prepare<[string]>('DELETE FROM kept_apps WHERE app_id = ?');
  const forgetKept = database.prepare<[number]>('DELETE FROM kept_apps WHERE thrown_at < ?');
  /** Returns the newest undelivered messages of an app by the alert's id, oldest first. */
  const messagesOf = (id: string): Map<string, WaitingDelivery[]> => {
    let bytes = 0;
    const newest = deliveries.all(id, MESSAGES).filter(({ body }) => {
      bytes += Buffer.byteLength(body);
      return bytes <= MESSAGES_BYTES;
    });
    return new Map(
      [...Map.groupBy(newest.reverse(), ({ alertId }) => alertId)].map(([alertId, of]) => [
        alertId,
        of.map(({ id, body, nextAt, state }) => ({ id, body, nextAt, state })),
      ]),
    );
  };
  const recordOf = (row: StoredApp): AppRecord => {
    const wanted = JSON.parse(row.wanted) as WantedApp;
    const { id } = wanted;
    const messages = messagesOf(id);
    return {
      format: 1,
      wanted,
      preview: preview.get(id) ?? null,
      previews: previewIds.all(id),
      liveDeployId: row.live_deploy_id,
      deployedAt: row.deployed_at,
      consumes: JSON.parse(row.consumes) as string[],
      storageNames: JSON.parse(row.storage_names) as object,
      asleepSince: row.asleep_since,
      wokeAt: row.woke_at,
      outbound: row.outbound,
      secrets: secrets.all(id).map((secret) => ({ ...secret, sealed: secret.sealed.toString('base64') })),
      deploys: deploys
        .all({ app: id, newest: NEWEST })
        .map(({ fact, releaseOf }) => ({ fact: JSON.parse(fact) as DeployFact, releaseOf })),
      alerts: alerts.all(id).map((row) => ({
        id: row.id,
        alert: JSON.parse(row.alert) as object,
        deliveries: messages.get(row.id) ?? [],
      })),
      connection: connectionOf(connection.get(id)),
      pulls: pulls.all(id, PULLS).map(({ pull, dueAt }) => ({ pull: JSON.parse(pull) as StoredPull, dueAt })),
    };
  };
  /**
   * Replaces an app's rows. Only removes its activity, and its own row as a preview: the caller adds these again if needed.
   */
  const putApp = (record: AppRecord): void => {
    const {
      wanted,
      liveDeployId,
      deployedAt,
      consumes,
      storageNames,
      asleepSince,
      wokeAt,
      outbound = null,
    } = record;
    const { id } = wanted;
    const lists = [JSON.stringify(consumes), JSON.stringify(storageNames)];
    const state = [liveDeployId, deployedAt, ...lists, asleepSince, wokeAt, outbound];
    addApp.run(id, JSON.stringify(wanted), wanted.generation, ...state);
    for (const statement of belongings) statement.run(id);
    for (const { name, sealed, createdAt, updatedAt } of record.secrets)
      addSecret.run(id, name, Buffer.from(sealed, 'base64'), createdAt, updatedAt);
    for (const { fact, releaseOf } of record.deploys)
      addDeploy.run(fact.id, id, JSON.stringify(fact), releaseOf);
    const { connection, pulls = [] } = record;
    if (connection) {
      addConnection.run({
        id,
        source: JSON.stringify(connection.source),
        sealed: Buffer.from(connection.sealed, 'base64'),
      });
      for (const { pull, dueAt } of pulls) addPull.run(id, pull.number, JSON.stringify(pull), dueAt);
    }
    for (const { id: alertId, alert, deliveries = [] } of record.alerts) {
      addAlert.run(alertId, id, JSON.stringify(alert));
      for (const { id, body, nextAt, state = null } of deliveries)
        addDelivery.run(id, alertId, body, nextAt, state);
    }
  };
  const removeRows = (id: string): void => {
    for (const statement of belongings) statement.run(id);
    notHeld.run(id);
    removeApp.run(id);
  };
  /** Removes the rows of a deleted preview, and makes the removal of its folder in the bucket due at once. */
  const dropPreview = (id: string): void => {
    for (const statement of belongings) statement.run(id);
    removeApp.run(id);
    addRemoval.run({ id, removeAt: new Date(0).toISOString() });
  };

  return {
    /** Returns the changed records that are not in the bucket yet, in the order of their apps' ids. */
    changed: (): ChangedRecord[] => changed.all(),
    /** Returns the change of an app's record; null when the bucket has the newest record. */
    changeOf: (appId: string): ChangedRecord | null => changeOf.get(appId) ?? null,
    /** Marks a record as written, unless it has changed since it was read. */
    written: ({ appId, revision }: ChangedRecord): void => {
      written.run(appId, revision);
    },
    /** Returns an app's record, or a `DeletedApp` while its folder has to be removed; null when nothing is in the bucket. */
    read: (id: string): AppRecord | DeletedApp | null => {
      const row = app.get(id);
      const wanted = row && (JSON.parse(row.wanted) as WantedApp);
      // The app was deleted, or keeps its data on this machine.
      if (row === undefined || wanted?.storage !== 'bucket') {
        const removeAt = removal.get(id);
        return removeAt === undefined ? null : { format: 1, deletedApp: id, removeAt };
      }
      return recordOf(row);
    },
    /**
     * Keeps the record of a deleted app for its undeletion. Does not replace a record that was kept before.
     * @param taken its record, if only the bucket has it
     */
    keep: (id: string, thrownAt: number, taken?: AppRecord): void => {
      const row = app.get(id);
      const record = taken ?? (row && recordOf(row));
      if (record === undefined) return;
      const ended = record.deploys.filter(({ fact }) => !['queued', 'building'].includes(fact.status));
      // After the undeletion, messages about the time before the deletion would come too late.
      const alerts = record.alerts.map((each) => ({ ...each, deliveries: [] }));
      keep.run(id, JSON.stringify({ ...record, alerts, deploys: ended, previews: [], pulls: [] }), thrownAt);
    },
    /** Returns a deleted app that can be undeleted, and when it was deleted, in ms since 1970; null for another. */
    kept: (id: string): { record: AppRecord; thrownAt: number } | null => {
      const row = kept.get(id);
      return row === undefined
        ? null
        : { record: JSON.parse(row.record) as AppRecord, thrownAt: row.thrownAt };
    },
    /** Forgets the apps that were deleted before a time, in ms since 1970. */
    forgetKept: (before: number): void => {
      forgetKept.run(before);
    },
    /**
     * Replaces rows of apps by records of another machine, and adds missing apps. Marks them as resting, without a process.
     * The caller must read the times of their alarms from the bucket afterwards.
     * @param cellar the id of the Cellar
     */
    take: (cellar: string, records: readonly (AppRecord | DeletedApp)[]): void => {
      setCellar.run(cellar);
      setAlarmsUnread.run();
      const previews: PreviewRow[] = [];
      for (const record of records) {
        if ('deletedApp' in record) {
          addRemoval.run({ id: record.deletedApp, removeAt: record.removeAt });
          continue;
        }
        if (record.preview !== null) previews.push(record.preview);
        putApp(record);
        addActivity.run(record.wanted.id);
      }
      // Newest first: an older preview of the same source was deleted, although its record is still in the bucket.
      for (const row of previews.sort((a, b) => b.createdAt - a.createdAt))
        if (isThere.get(row.parentId) === undefined || addPreview.run({ share: null, ...row }).changes === 0)
          dropPreview(row.id);
      forgetChanges.run();
      // A restored database may have apps that this bucket does not know.
      const taken = records.map((record) => ('deletedApp' in record ? record.deletedApp : record.wanted.id));
      markOthers.run({ taken: JSON.stringify(taken) });
    },
    /**
     * Adds an app that comes from another host, or is undeleted, with its previews. The bucket has these records, if the
     * app's data is there. Call it in a transaction.
     * @param records the app's record first, then those of its previews
     */
    takeOne: (records: readonly AppRecord[]): void => {
      for (const record of records) {
        putApp(record);
        if (record.preview !== null) addPreview.run({ share: null, ...record.preview });
        if (record.wanted.storage === 'bucket') noRemoval.run(record.wanted.id);
        notKept.run(record.wanted.id);
      }
      for (const { wanted } of records) unchange.run(wanted.id);
    },
    /**
     * Removes the rows of an app that is another host's now, and of its previews. Its record is left to that host. Call it
     * in a transaction.
     */
    forget: (id: string, previews: readonly string[]): void => {
      // Also removes the rows of deleted previews, which `previews` lacks. This host still removes their folders.
      for (const preview of allPreviewIds.all(id)) removeRows(preview);
      removeRows(id);
      for (const each of [id, ...previews]) unchange.run(each);
    },
    /** Records that this host, which is empty, joins the others of a Cellar. */
    join: (cellar: string): void => {
      setCellar.run(cellar);
      join.run();
    },
    /** Whether this host has joined others. Then it is the home only of apps for which the control plane says so. */
    hasJoined: (): boolean => hasJoined.get() === 1,
    /** Marks a record as changed, so that it is written again. */
    change: (appId: string): void => {
      change.run(appId);
    },
    /** Whether `take` added apps whose alarms have not been read yet. */
    areAlarmsUnread: (): boolean => areAlarmsUnread.get() === 1,
    alarmsAreRead: (): void => {
      alarmsAreRead.run();
    },
  };
}
export type AppRecordQueries = ReturnType<typeof appRecordQueries>;

function connectionOf(
  row: { source: string; sealed: Buffer } | undefined,
): { source: object; sealed: string } | null {
  return row ? { source: JSON.parse(row.source) as object, sealed: row.sealed.toString('base64') } : null;
}
