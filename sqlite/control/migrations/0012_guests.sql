-- The app's admin who made an invite; null for the machine's admins. Accounts created by such invites are guests: they
-- own no apps.
ALTER TABLE invites ADD COLUMN made_by TEXT REFERENCES accounts (id) ON DELETE CASCADE;
CREATE INDEX invites_made_by ON invites (made_by);
ALTER TABLE accounts ADD COLUMN is_guest INTEGER NOT NULL DEFAULT 0 CHECK (is_guest IN (0, 1));
