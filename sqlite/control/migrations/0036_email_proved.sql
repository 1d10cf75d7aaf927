-- Whether an admin of the machine chose the account's e-mail address, or the sign-in provider verified it. Otherwise the
-- account's password, passkeys and API keys may belong to a person who does not have the address. Existing accounts count as
-- proved, except guests, and accounts with a stored invite which shows that the invited person entered the address.
ALTER TABLE accounts ADD COLUMN email_proved INTEGER NOT NULL DEFAULT 0 CHECK (email_proved IN (0, 1));
UPDATE accounts SET email_proved = 1 WHERE email IS NOT NULL AND is_guest = 0 AND NOT EXISTS (
  SELECT 1 FROM invites WHERE account_id = accounts.id AND invites.email IS NULL
    AND invites.created_at <= accounts.created_at);
