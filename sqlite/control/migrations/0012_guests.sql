-- Invites by an app's own admin, and the accounts created by them, which own no apps.
ALTER TABLE invites ADD COLUMN made_by TEXT REFERENCES accounts (id) ON DELETE CASCADE;
CREATE INDEX invites_made_by ON invites (made_by);
ALTER TABLE accounts ADD COLUMN is_guest INTEGER NOT NULL DEFAULT 0 CHECK (is_guest IN (0, 1));
