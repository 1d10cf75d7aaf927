-- An admin account has the rights of the runner token in the control UI. The first account is always an admin.
ALTER TABLE accounts ADD COLUMN is_admin INTEGER NOT NULL DEFAULT 0 CHECK (is_admin IN (0, 1));
UPDATE accounts SET is_admin = 1 WHERE role = 'owner';

-- Links to set the password of an account, which exists or is created by the link. `hash` is the SHA-256 of the
-- link's secret in hexadecimal. `expires_at` is null for the link of the first start.
CREATE TABLE invites (
  id TEXT PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  email TEXT,
  role TEXT NOT NULL CHECK (role IN ('admin', 'member')),
  app_id TEXT REFERENCES apps (id) ON DELETE CASCADE,
  app_role TEXT CHECK (app_role IN ('view', 'push', 'admin')),
  account_id TEXT REFERENCES accounts (id) ON DELETE CASCADE,
  created_at TEXT NOT NULL,
  expires_at TEXT,
  used_at TEXT,
  CHECK ((app_id IS NULL) = (app_role IS NULL))
) STRICT;
CREATE INDEX invites_app ON invites (app_id);
CREATE INDEX invites_account ON invites (account_id);
CREATE INDEX invites_age ON invites (created_at);
