-- Links that were asked for at the sign-in and went to the address of the account: they leave its second factor as it is.
ALTER TABLE invites ADD COLUMN is_recovery INTEGER NOT NULL DEFAULT 0 CHECK (is_recovery IN (0, 1));
