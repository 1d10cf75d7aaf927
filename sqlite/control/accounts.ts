// Accounts and their API keys.

/**
 * Makes the first account when there is none, and its key when that is not stored yet.
 * @param key.hash SHA-256 of the key, hexadecimal
 */
export async function ensureFirstAccount(
  db: D1Database,
  account: { id: string; name: string; at: string },
  key: { id: string; name: string; hash: string },
): Promise<void> {
  await db.batch([
    db
      .prepare(
        `INSERT INTO accounts (id, name, role, created_at) VALUES (?, ?, 'owner', ?)
         ON CONFLICT (role) WHERE role = 'owner' DO NOTHING`,
      )
      .bind(account.id, account.name, account.at),
    db
      .prepare(
        `INSERT INTO keys (id, account_id, name, hash, created_at)
         SELECT ?, id, ?, ?, ? FROM accounts WHERE role = 'owner'
         ON CONFLICT (hash) DO NOTHING`,
      )
      .bind(key.id, key.name, key.hash, account.at),
  ]);
}
