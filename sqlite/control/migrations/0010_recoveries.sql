-- Links requested at sign-in and sent to the account's address: they keep its second factor.
ALTER TABLE invites ADD COLUMN is_recovery INTEGER NOT NULL DEFAULT 0 CHECK (is_recovery IN (0, 1));
