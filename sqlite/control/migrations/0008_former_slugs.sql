-- Slugs that apps had before a rename, for clients with an old remote. The trigger is on one line, because `applyMigrations`
-- splits at each `;` that ends a line.
CREATE TABLE former_slugs (
  slug TEXT PRIMARY KEY,
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX former_slugs_app ON former_slugs (app_id);
CREATE TRIGGER apps_renamed AFTER UPDATE OF slug ON apps WHEN old.slug <> new.slug BEGIN INSERT OR REPLACE INTO former_slugs (slug, app_id) VALUES (old.slug, old.id); END;
