-- The hosts of this Cellar, if there are several. An active host is neither draining nor silent.
CREATE TABLE hosts (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  address TEXT NOT NULL,
  version TEXT NOT NULL,
  protocol INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  joined_at TEXT NOT NULL,
  is_draining INTEGER NOT NULL DEFAULT 0 CHECK (is_draining IN (0, 1)),
  silent_since TEXT
) STRICT, WITHOUT ROWID;

-- The host that runs the app; null while there is only one. It has no foreign key: a host may be removed and come back.
ALTER TABLE apps ADD COLUMN home TEXT;
CREATE INDEX apps_home ON apps (home) WHERE home IS NOT NULL;
CREATE INDEX apps_generation ON apps (generation);

-- The newest deletions, for hosts that know routes of an earlier revision.
CREATE TABLE deleted_apps (
  id TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_apps_revision ON deleted_apps (revision);
CREATE TRIGGER apps_buried AFTER UPDATE OF deleted_at ON apps WHEN old.deleted_at IS NULL AND new.deleted_at IS NOT NULL AND new.home IS NOT NULL BEGIN INSERT OR REPLACE INTO deleted_apps (id, revision) VALUES (new.id, (SELECT revision FROM meta)); DELETE FROM deleted_apps WHERE revision < (SELECT revision FROM deleted_apps ORDER BY revision DESC LIMIT 1 OFFSET 999); END;
-- Records an app whose creation has failed.
CREATE TRIGGER apps_undone AFTER DELETE ON apps WHEN old.deleted_at IS NULL AND old.home IS NOT NULL BEGIN UPDATE meta SET revision = revision + 1; INSERT OR REPLACE INTO deleted_apps (id, revision) VALUES (old.id, (SELECT revision FROM meta)); END;
-- A host reports a move of an app between the machine and the bucket. The other hosts' routes have to change, too.
CREATE TRIGGER apps_stored AFTER UPDATE OF storage ON apps WHEN old.storage <> new.storage AND new.home IS NOT NULL BEGIN UPDATE meta SET revision = revision + 1; UPDATE apps SET generation = (SELECT revision FROM meta) WHERE id = new.id; END;
