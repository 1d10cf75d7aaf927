-- Dispatch namespaces, and the apps that are scripts of one. A script's slug is a hash of its account, namespace and name.
CREATE TABLE dispatch_namespaces (
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (owner_id, name)
) STRICT;
ALTER TABLE apps ADD COLUMN dispatch_namespace TEXT;
ALTER TABLE apps ADD COLUMN dispatch_script TEXT;
CREATE INDEX apps_dispatch ON apps (owner_id, dispatch_namespace, dispatch_script) WHERE dispatch_namespace IS NOT NULL;
