-- Whether an invite creates a guest: an account that owns no apps. Existing invites by admins of apps create guests.
ALTER TABLE invites ADD COLUMN is_guest INTEGER NOT NULL DEFAULT 0 CHECK (is_guest IN (0, 1));
UPDATE invites SET is_guest = 1 WHERE made_by IS NOT NULL;
