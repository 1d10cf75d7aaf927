-- Deleted apps keep their rows until the host removes their data. `trashed_at`: when the host confirmed the deletion.
-- Then the slug and the hostnames are free, and `deleted_slug` and `deleted_domains`, a JSON list, remember them.
-- `undeleted`: the revision of the last undeletion.
ALTER TABLE apps ADD COLUMN trashed_at TEXT;
ALTER TABLE apps ADD COLUMN deleted_slug TEXT;
ALTER TABLE apps ADD COLUMN deleted_domains TEXT;
ALTER TABLE apps ADD COLUMN undeleted INTEGER;
CREATE INDEX apps_trashed ON apps (deleted_at) WHERE trashed_at IS NOT NULL;
DROP TRIGGER apps_renamed;
CREATE TRIGGER apps_renamed AFTER UPDATE OF slug ON apps WHEN old.slug <> new.slug AND old.deleted_at IS NULL AND new.deleted_at IS NULL BEGIN INSERT OR REPLACE INTO former_slugs (slug, app_id) VALUES (old.slug, old.id); END;
