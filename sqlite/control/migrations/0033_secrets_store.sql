-- Secrets Stores of accounts. The host encrypts the values; only its key can decrypt them.
CREATE TABLE secret_stores (
  id TEXT PRIMARY KEY,
  owner_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  UNIQUE (owner_id, name)
) STRICT;
CREATE TABLE store_secrets (
  id TEXT PRIMARY KEY,
  store_id TEXT NOT NULL REFERENCES secret_stores (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  sealed TEXT NOT NULL, -- base64
  comment TEXT NOT NULL,
  scopes TEXT NOT NULL, -- a JSON list
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (store_id, name)
) STRICT;
