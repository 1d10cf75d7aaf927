-- Control state. Times are ISO 8601 UTC with milliseconds; ids are 16 characters that sort by age.

-- `revision` counts every transition of every app. An app's `generation` is the revision of its last transition. If a
-- host has seen a generation above `revision`, this database is an older copy.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  revision INTEGER NOT NULL
) STRICT;
INSERT INTO meta (id, revision) VALUES (1, 0);

-- The number of the newest applied fact of each host's outbox.
CREATE TABLE outboxes (
  outbox TEXT PRIMARY KEY,
  applied_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE accounts (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT UNIQUE,
  role TEXT NOT NULL CHECK (role IN ('owner', 'member')),
  created_at TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX accounts_owner ON accounts (role) WHERE role = 'owner';

-- API keys, each as its SHA-256 in hexadecimal.
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX keys_account ON keys (account_id, id);

-- A row with `deleted_at` is a tombstone: it keeps the slug until the host has confirmed the deletion.
-- `process_state` to `last_error` are a copy of the host's facts, as of `observed_generation`.
CREATE TABLE apps (
  id TEXT PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  owner_id TEXT NOT NULL REFERENCES accounts (id),
  desired_state TEXT NOT NULL CHECK (desired_state IN ('running', 'stopped')),
  asleep_since TEXT,
  woke_at TEXT,
  generation INTEGER NOT NULL,
  observed_generation INTEGER NOT NULL DEFAULT 0,
  process_state TEXT NOT NULL DEFAULT 'none',
  live_deploy_id TEXT,
  deployed_at TEXT,
  last_error TEXT,
  client_rpm INTEGER,
  app_rpm INTEGER,
  created_at TEXT NOT NULL,
  deleted_at TEXT
) STRICT;
CREATE INDEX apps_owner ON apps (owner_id, id);

-- Apps that a host had but an older copy of this database did not know. Reconcile never moves them to the trash.
CREATE TABLE spared_apps (
  id TEXT PRIMARY KEY
) STRICT;

CREATE TABLE collaborators (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('view', 'push', 'admin')),
  created_at TEXT NOT NULL,
  PRIMARY KEY (app_id, account_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX collaborators_account ON collaborators (account_id);

CREATE TABLE env (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (app_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE domains (
  hostname TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX domains_app ON domains (app_id, hostname);

-- A copy of the host's rows. `steps` is JSON.
CREATE TABLE deploys (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  sha TEXT NOT NULL,
  ref TEXT NOT NULL,
  message TEXT NOT NULL,
  author TEXT NOT NULL,
  trigger TEXT NOT NULL,
  status TEXT NOT NULL,
  steps TEXT NOT NULL,
  error TEXT,
  created_at TEXT NOT NULL,
  started_at TEXT,
  finished_at TEXT
) STRICT;
CREATE INDEX deploys_app ON deploys (app_id, created_at, id);
CREATE INDEX deploys_unfinished ON deploys (app_id) WHERE status IN ('queued', 'building');

-- Product events. `tags` is JSON.
CREATE TABLE events (
  id TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  channel TEXT NOT NULL,
  event TEXT NOT NULL,
  description TEXT,
  icon TEXT,
  tags TEXT NOT NULL,
  user_id TEXT,
  at TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX events_app ON events (app_id, at, id);
CREATE INDEX events_channel ON events (app_id, channel, at, id);
CREATE INDEX events_user ON events (app_id, user_id, at, id);

-- `properties` is JSON.
CREATE TABLE users (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL,
  properties TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (app_id, user_id)
) STRICT, WITHOUT ROWID;

-- `value` is a number or a text.
CREATE TABLE insights (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  title TEXT NOT NULL,
  value ANY NOT NULL,
  icon TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (app_id, title)
) STRICT, WITHOUT ROWID;

-- Stored answers for `Idempotency-Key`. `answer` is null while the first request runs.
CREATE TABLE idempotency (
  key TEXT PRIMARY KEY,
  operation TEXT NOT NULL,
  input_hash TEXT NOT NULL,
  answer TEXT,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX idempotency_age ON idempotency (created_at);
