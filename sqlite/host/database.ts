// The host's database: its schema, and how it is opened and migrated.
import Database from 'better-sqlite3';

/** One entry for each schema version, in order. Never change a released one: add the next. */
const MIGRATIONS = [
  `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  INSERT INTO meta VALUES ('outbox', lower(hex(randomblob(16))));

  CREATE TABLE apps (
    id TEXT PRIMARY KEY,
    wanted TEXT NOT NULL,                 -- WantedApp as JSON, whole
    generation INTEGER NOT NULL,          -- of wanted; an older one is refused
    deleted_at TEXT,                      -- a tombstone keeps the generation, so that no late word revives the app
    live_deploy_id TEXT,                  -- the pointer: which release serves
    deployed_at TEXT,
    storage_names TEXT NOT NULL DEFAULT '{}'
  ) STRICT;

  CREATE TABLE deploys (
    id TEXT PRIMARY KEY,
    app_id TEXT NOT NULL REFERENCES apps (id),
    fact TEXT NOT NULL,                   -- DeployFact as JSON, whole
    status TEXT GENERATED ALWAYS AS (fact ->> 'status') STORED,
    log TEXT NOT NULL DEFAULT ''
  ) STRICT;
  CREATE INDEX deploys_by_app ON deploys (app_id, id);
  CREATE INDEX deploys_unfinished ON deploys (id) WHERE status IN ('queued', 'building');

  CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, also after the row has gone
    at TEXT NOT NULL,
    event TEXT NOT NULL
  ) STRICT;
  `,
  `
  CREATE TABLE build_users (
    app_id TEXT PRIMARY KEY,              -- kept after the app has gone, so that no other app gets what it left
    uid INTEGER NOT NULL UNIQUE
  ) STRICT;
  `,
  `
  CREATE TABLE activity (
    app_id TEXT PRIMARY KEY REFERENCES apps (id),
    last_request_at INTEGER,              -- the last minute with a request; times here are ms since 1970
    resting INTEGER NOT NULL DEFAULT 0,   -- 1: no process runs, because nobody needs it, and due_at is true
    due_at INTEGER                        -- when it has work to do by itself
  ) STRICT, WITHOUT ROWID;
  `,
  // Corrects older rows. Only one deploy of an app is live, so the others become replaced. Only the newest six live or
  // replaced deploys can be rolled back to: the releases of the others were removed.
  `
  UPDATE deploys SET fact = json_set(fact, '$.status', 'replaced') WHERE fact ->> 'status' = 'live'
    AND id IS NOT (SELECT live_deploy_id FROM apps WHERE apps.id = deploys.app_id);
  UPDATE deploys SET fact = json_set(fact, '$.can_roll_back', json(iif(id IN (
    SELECT id FROM (
      SELECT id, row_number() OVER (PARTITION BY app_id ORDER BY id DESC) AS n FROM deploys
      WHERE status IN ('live', 'replaced'))
    WHERE n <= 6), 'true', 'false')));
  `,
  `
  CREATE TABLE held (
    app_id TEXT PRIMARY KEY REFERENCES apps (id),
    cause TEXT NOT NULL,                  -- 'limit' or 'disk'
    why TEXT NOT NULL                     -- for the owner
  ) STRICT, WITHOUT ROWID;
  `,
  // Times are ms since 1970, except those in the alert itself.
  `
  CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    app_id TEXT NOT NULL REFERENCES apps (id),
    alert TEXT NOT NULL                   -- Alert as JSON, whole
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX alerts_by_app ON alerts (app_id);

  CREATE TABLE alert_topics (
    alert_id TEXT NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    topic TEXT NOT NULL,                  -- what it is about, such as 'crash'
    told_at INTEGER NOT NULL,             -- when something of it was last put among the deliveries
    untold INTEGER NOT NULL,              -- how often it happened since
    PRIMARY KEY (alert_id, topic)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX alert_topics_age ON alert_topics (told_at);

  CREATE TABLE alert_deliveries (
    id TEXT PRIMARY KEY,
    alert_id TEXT NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    body TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER NOT NULL              -- when it is sent next
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX alert_deliveries_next ON alert_deliveries (next_at);
  `,
  `
  CREATE TABLE secrets (
    app_id TEXT NOT NULL REFERENCES apps (id),
    name TEXT NOT NULL,
    sealed BLOB NOT NULL,                 -- the value, encrypted; the key lies in a file of its own
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (app_id, name)
  ) STRICT;
  `,
  // The deploy whose release a rollback starts again; NULL for a build.
  'ALTER TABLE deploys ADD COLUMN release_of TEXT;',
  // Times are ms since 1970.
  `
  CREATE TABLE previews (
    id TEXT PRIMARY KEY REFERENCES apps (id),
    parent_id TEXT NOT NULL REFERENCES apps (id),
    name TEXT NOT NULL,                   -- what its address begins with
    source TEXT NOT NULL,                 -- refs/heads/…, alias:… or version:…
    version_id TEXT,                      -- the uploaded version that it shows
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (parent_id, name),
    UNIQUE (parent_id, source)
  ) STRICT, WITHOUT ROWID;
  `,
  // The queues that the live release consumes: a JSON list of names.
  "ALTER TABLE apps ADD COLUMN consumes TEXT NOT NULL DEFAULT '[]';",
  // Queries of alerts run on the gateway's thread: each must use an index, however many deliveries are pending.
  `
  DROP INDEX alert_deliveries_next;
  CREATE INDEX alert_deliveries_of ON alert_deliveries (alert_id, next_at);
  CREATE INDEX alert_topics_told ON alert_topics (alert_id, told_at);
  `,
  // When an app fell asleep, and when it woke last. Before, only the control plane had these times.
  `
  ALTER TABLE apps ADD COLUMN asleep_since TEXT;
  ALTER TABLE apps ADD COLUMN woke_at TEXT;
  UPDATE apps SET asleep_since = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE wanted ->> 'asleep' = 1;
  `,
  // Deleted apps whose folder in the bucket is not removed yet.
  `
  CREATE TABLE folder_removals (
    app_id TEXT PRIMARY KEY,
    due_at TEXT NOT NULL                  -- ISO 8601
  ) STRICT, WITHOUT ROWID;
  `,
  // Apps in the bucket whose record there is older than this database. The revision grows with each change.
  `
  CREATE TABLE changed_records (
    app_id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  INSERT INTO changed_records SELECT id, 1 FROM apps WHERE wanted ->> 'storage' = 'bucket'
    UNION SELECT app_id, 1 FROM folder_removals;
  ${changesRecord('app_added', 'INSERT ON apps', 'NEW.id', "NEW.wanted ->> 'storage' = 'bucket'")}
  ${changesRecord(
    'app_changed',
    'UPDATE OF wanted, deleted_at, live_deploy_id, storage_names, consumes ON apps',
    'NEW.id',
    "OLD.wanted ->> 'storage' = 'bucket' OR NEW.wanted ->> 'storage' = 'bucket'",
  )}
  ${changesRecord('app_removed', 'DELETE ON apps', 'OLD.id', "OLD.wanted ->> 'storage' = 'bucket'")}
  ${changesRecord(
    'deploy_changed',
    'UPDATE OF fact ON deploys',
    'NEW.app_id',
    `NEW.fact ->> 'can_roll_back' IS NOT OLD.fact ->> 'can_roll_back' AND ${inBucket('NEW.app_id')}`,
  )}
  ${changesRecord('folder_to_remove', 'INSERT ON folder_removals', 'NEW.app_id', 'TRUE')}
  ${changesRecord('folder_removed', 'DELETE ON folder_removals', 'OLD.app_id', 'TRUE')}
  ${changesRecord('preview_renewed', 'UPDATE ON previews', 'NEW.id', inBucket('NEW.id'))}
  ${['secrets', 'alerts']
    .flatMap((table) => [
      changesRecord(`${table}_added`, `INSERT ON ${table}`, 'NEW.app_id', inBucket('NEW.app_id')),
      changesRecord(`${table}_changed`, `UPDATE ON ${table}`, 'NEW.app_id', inBucket('NEW.app_id')),
      changesRecord(`${table}_removed`, `DELETE ON ${table}`, 'OLD.app_id', inBucket('OLD.app_id')),
    ])
    .join('')}
  `,
  // The record of an app lists its previews.
  `
  ${changesRecord('preview_listed', 'INSERT ON previews', 'NEW.parent_id', inBucket('NEW.parent_id'))}
  ${changesRecord('preview_unlisted', 'DELETE ON previews', 'OLD.parent_id', inBucket('OLD.parent_id'))}
  INSERT OR IGNORE INTO changed_records SELECT DISTINCT parent_id, 1 FROM previews WHERE ${inBucket('parent_id')};
  `,
  // Repositories on Git hosts from which apps are deployed. Times are ms since 1970.
  `
  CREATE TABLE sources (
    app_id TEXT PRIMARY KEY REFERENCES apps (id),
    source TEXT NOT NULL,                 -- StoredSource as JSON, whole
    sealed BLOB NOT NULL,                 -- its keys, encrypted as secrets are
    due_at INTEGER,                       -- when it is fetched next; NULL for never
    attempts INTEGER NOT NULL DEFAULT 0,  -- failed fetches in a row
    last_fetch TEXT                       -- as JSON
  ) STRICT;
  CREATE INDEX sources_due ON sources (due_at) WHERE due_at IS NOT NULL;

  CREATE TABLE source_deliveries (
    id INTEGER PRIMARY KEY,
    app_id TEXT NOT NULL REFERENCES sources (app_id) ON DELETE CASCADE,
    digest TEXT NOT NULL,                 -- of the body, so that a repeated one is known
    delivery TEXT NOT NULL,
    event TEXT NOT NULL,
    result TEXT NOT NULL,
    at TEXT NOT NULL,                     -- ISO 8601
    UNIQUE (app_id, digest)
  ) STRICT;
  CREATE INDEX source_deliveries_newest ON source_deliveries (app_id, id);

  ${changesRecord('source_added', 'INSERT ON sources', 'NEW.app_id', inBucket('NEW.app_id'))}
  ${changesRecord('source_changed', 'UPDATE OF source, sealed ON sources', 'NEW.app_id', inBucket('NEW.app_id'))}
  ${changesRecord('source_removed', 'DELETE ON sources', 'OLD.app_id', inBucket('OLD.app_id'))}
  `,
  // The record of an app has the messages that wait for its webhooks, not how often they were tried.
  `
  ${changesRecord('delivery_added', 'INSERT ON alert_deliveries', appOf('NEW.alert_id'), inBucket(appOf('NEW.alert_id')))}
  ${changesRecord('delivery_removed', 'DELETE ON alert_deliveries', appOf('OLD.alert_id'), inBucket(appOf('OLD.alert_id')))}
  `,
  // Deleted apps, as long as they can be undeleted.
  `
  CREATE TABLE kept_apps (
    app_id TEXT PRIMARY KEY,
    record TEXT NOT NULL,                 -- AppRecord as JSON
    thrown_at INTEGER NOT NULL            -- ms since 1970, also in the name of their trash
  ) STRICT, WITHOUT ROWID;
  `,
  // Pull requests of the repositories in `sources`.
  `
  CREATE TABLE pulls (
    app_id TEXT NOT NULL REFERENCES sources (app_id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    pull TEXT NOT NULL,                   -- StoredPull as JSON, whole
    due_at INTEGER,                       -- ms since 1970, when there is work; NULL for none
    PRIMARY KEY (app_id, number)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX pulls_due ON pulls (due_at) WHERE due_at IS NOT NULL;
  `,
  // The percentage of its app's requests that a second version gets; NULL for none.
  'ALTER TABLE previews ADD COLUMN share REAL;',
  // The record of an app has the pull requests of its repository.
  `
  ${changesRecord('pull_added', 'INSERT ON pulls', 'NEW.app_id', inBucket('NEW.app_id'))}
  ${changesRecord('pull_changed', 'UPDATE ON pulls', 'NEW.app_id', `NEW.pull <> OLD.pull AND ${inBucket('NEW.app_id')}`)}
  ${changesRecord('pull_removed', 'DELETE ON pulls', 'OLD.app_id', inBucket('OLD.app_id'))}
  INSERT OR IGNORE INTO changed_records SELECT DISTINCT app_id, 1 FROM pulls WHERE ${inBucket('app_id')};
  `,
  // The slug of the app that gets the `fetch()` requests of a script in a dispatch namespace; NULL for none.
  `
  ALTER TABLE apps ADD COLUMN outbound TEXT;
  ${changesRecord('outbound_changed', 'UPDATE OF outbound ON apps', 'NEW.id', inBucket('NEW.id'))}
  `,
  // The state whose begin or end a message reports, such as 'memory'; NULL for other messages.
  // unsure: 1 when the result of an attempt is unknown, or the message replaced another one about the state.
  `
  ALTER TABLE alert_deliveries ADD COLUMN state TEXT;
  ALTER TABLE alert_deliveries ADD COLUMN unsure INTEGER NOT NULL DEFAULT 0;
  `,
];

function appOf(alertId: string): string {
  return `(SELECT app_id FROM alerts WHERE id = ${alertId})`;
}

function inBucket(appId: string): string {
  return `(SELECT wanted ->> 'storage' FROM apps WHERE id = ${appId}) = 'bucket'`;
}

/** Returns a trigger that marks the record of an app as changed. */
function changesRecord(name: string, event: string, appId: string, when: string): string {
  return `CREATE TRIGGER ${name} AFTER ${event} WHEN ${when} BEGIN
    INSERT INTO changed_records VALUES (${appId}, 1) ON CONFLICT (app_id) DO UPDATE SET revision = revision + 1;
  END;
  `;
}

/** A commit that makes the log this long (64 MiB) runs a checkpoint, however slow the disk is. */
const CHECKPOINT_PAGES = 16_384;
/** Maximum bytes of the log file after a checkpoint. */
const MAX_LOG_BYTES = 16 * 2 ** 20;

/** The schema version of a migrated database. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/**
 * Opens the host's database and migrates it. A commit does not wait for the disk: `WriteAheadLog` does. A crash of the
 * machine loses only the newest commits. Opening and reading need no disk space: SQLite needs no shared-memory file, because
 * only this process uses the database.
 * @throws {Error} when the file was written by a newer Cellar
 */
export function openHostDatabase(path: string): Database.Database {
  const database = new Database(path);
  database.pragma('locking_mode = EXCLUSIVE');
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = NORMAL');
  database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  database.pragma(`journal_size_limit = ${MAX_LOG_BYTES}`);
  database.pragma('foreign_keys = ON');
  const version = database.pragma('user_version', { simple: true }) as number;
  if (version > MIGRATIONS.length) {
    database.close();
    throw new Error(
      `${path} was written by a newer Cellar (schema ${version}; this Cellar knows ${MIGRATIONS.length}); start the newer version`,
    );
  }
  if (version === MIGRATIONS.length) return database;
  database.transaction(() => {
    for (const migration of MIGRATIONS.slice(version)) database.exec(migration);
    database.pragma(`user_version = ${MIGRATIONS.length}`);
  })();
  return database;
}
