-- Lists of all apps, and of each app's deploys and events, are ordered by `seq`, which clock changes do not affect.
ALTER TABLE apps ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE apps SET seq = older.n FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM apps) AS older
  WHERE older.id = apps.id;
CREATE INDEX apps_seq ON apps (seq);

-- A deploy is `live` while it serves and `replaced` afterwards. Its release is kept while `can_roll_back` is 1.
ALTER TABLE deploys ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deploys ADD COLUMN can_roll_back INTEGER NOT NULL DEFAULT 0;
UPDATE deploys SET seq = older.n
  FROM (SELECT id, row_number() OVER (PARTITION BY app_id ORDER BY created_at, id) AS n FROM deploys) AS older
  WHERE older.id = deploys.id;
UPDATE deploys SET can_roll_back = 1 FROM (
    SELECT id, row_number() OVER (PARTITION BY app_id ORDER BY seq DESC) AS n FROM deploys WHERE status = 'live'
  ) AS served
  WHERE served.id = deploys.id AND served.n <= 6;
UPDATE deploys SET status = 'replaced'
  WHERE status = 'live' AND id IS NOT (SELECT live_deploy_id FROM apps WHERE apps.id = deploys.app_id);
DROP INDEX deploys_app;
CREATE INDEX deploys_app ON deploys (app_id, seq);

-- `sort_at` is `at` if the caller gave one, else a time that never decreases.
ALTER TABLE events ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN sort_at TEXT NOT NULL DEFAULT '';
UPDATE events SET seq = older.n, sort_at = at
  FROM (SELECT id, row_number() OVER (PARTITION BY app_id ORDER BY at, id) AS n FROM events) AS older
  WHERE older.id = events.id;
DROP INDEX events_app;
DROP INDEX events_channel;
DROP INDEX events_user;
CREATE INDEX events_seq ON events (app_id, seq);
CREATE INDEX events_app ON events (app_id, sort_at, seq);
CREATE INDEX events_channel ON events (app_id, channel, sort_at, seq);
CREATE INDEX events_user ON events (app_id, user_id, sort_at, seq);
CREATE INDEX events_clock ON events (app_id, sort_at) WHERE at = created_at;
