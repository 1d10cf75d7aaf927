// Accounts of people who sign in with an identity provider (OpenID Connect).
import { ACCOUNT, type AccountRow } from './accounts.ts';

/** A person whom the identity provider has signed in. */
export interface Arrival {
  /** The account that the person had before; null when the person is new. */
  account: string | null;
  email: string;
  /** Whether the provider has verified the address. An unverified address neither finds nor creates an account. */
  verified: boolean;
  name: string;
  /** The role on this machine; null: a new account is a member, and another keeps its role. */
  role: 'admin' | 'member' | 'guest' | null;
  /** Id of a new account. */
  newId: string;
  at: string;
}

/**
 * Returns a person's account: the known one, else the one with the verified address, else a new one. Sets its role if `role`
 * is given, except the first account's. If the account is found by an address that was not proved before, ends the
 * account's open invite links.
 * @returns the account. `dropsCredentials`: whether it is such an account, whose credentials the caller must remove. Null if
 *   there is no account and the address is not verified
 */
export async function arriveAccount(
  db: D1Database,
  arrival: Arrival,
): Promise<{ row: AccountRow; dropsCredentials: boolean } | null> {
  const { account, email, verified, name, role, newId, at } = arrival;
  const proved = verified ? email : null;
  const found = `coalesce((SELECT id FROM accounts WHERE id = ?1), (SELECT id FROM accounts WHERE email = ?2))`;
  const unproved = `SELECT id FROM accounts
    WHERE id = ${found} AND id IS NOT ?1 AND email_proved = 0 AND role <> 'owner'`;
  const results = await db.batch<AccountRow>([
    db.prepare(unproved).bind(account, proved),
    // An open link could still set the account's password.
    db
      .prepare(`UPDATE invites SET used_at = ?3 WHERE used_at IS NULL AND account_id = (${unproved})`)
      .bind(account, proved, at),
    // Only an account that is known already: an interrupted arrival is repeated, and must drop the credentials again.
    db.prepare('UPDATE accounts SET email_proved = 1 WHERE id = ?1 AND email = ?2').bind(account, proved),
    db
      .prepare(
        `INSERT INTO accounts (id, name, email, role, email_proved, created_at)
         SELECT ?3, ?4, ?2, 'member', 1, ?5 WHERE ?2 IS NOT NULL AND ${found} IS NULL`,
      )
      .bind(account, proved, newId, name, at),
    db
      .prepare(
        `UPDATE accounts SET is_admin = ?3 = 'admin', is_guest = ?3 = 'guest'
         WHERE id = ${found} AND role <> 'owner' AND ?3 IS NOT NULL`,
      )
      .bind(account, proved, role),
    db.prepare(`SELECT ${ACCOUNT} FROM accounts WHERE id = ${found}`).bind(account, proved),
  ]);
  const row = results.at(-1)!.results[0];
  return row === undefined ? null : { row, dropsCredentials: results[0]!.results.length > 0 };
}
