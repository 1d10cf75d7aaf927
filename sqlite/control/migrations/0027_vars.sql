-- Overrides of the Worker's variables: of an app, and of all its previews. Values are JSON.
CREATE TABLE vars (
  app_id TEXT NOT NULL REFERENCES apps (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (app_id, name)
) STRICT, WITHOUT ROWID;
ALTER TABLE apps ADD COLUMN previews_vars TEXT NOT NULL DEFAULT '{}';
