-- When a hostname was proved (null before), and the result of the last lookup. Existing hostnames stay served.
ALTER TABLE domains ADD COLUMN proved_at TEXT;
ALTER TABLE domains ADD COLUMN checked_at TEXT;
ALTER TABLE domains ADD COLUMN reason TEXT;
UPDATE domains SET proved_at = created_at;
CREATE INDEX domains_pending ON domains (checked_at) WHERE proved_at IS NULL;

-- Removed hostnames that were served, with the account that they are reserved for.
CREATE TABLE removed_domains (
  hostname TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL,
  removed_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX removed_domains_age ON removed_domains (removed_at);
CREATE TRIGGER domains_removed AFTER DELETE ON domains WHEN old.proved_at IS NOT NULL BEGIN INSERT OR REPLACE INTO removed_domains (hostname, owner_id, removed_at) SELECT old.hostname, owner_id, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM apps WHERE id = old.app_id; END;
-- Needed besides `domains_removed`: when a deletion of an app cascades to its domains, the row of the app is already gone.
CREATE TRIGGER apps_removed BEFORE DELETE ON apps BEGIN INSERT OR REPLACE INTO removed_domains (hostname, owner_id, removed_at) SELECT hostname, old.owner_id, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM domains WHERE app_id = old.id AND proved_at IS NOT NULL; END;
