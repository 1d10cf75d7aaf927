// Queries for people who sign in, besides those of better-auth.

/** An account of the control plane. */
export interface Person {
  id: string;
  name: string;
  email: string;
}

/**
 * Sets a password by a link, which works once. Ends all sessions. If the second factor stays, each browser must pass it
 * again.
 * @param link SHA-256 of the link's secret, hexadecimal
 * @param password.id a new id for its row
 * @param keepsFactors whether passkeys and the second factor stay
 * @returns false when the link was used before; then nothing is changed
 */
export async function setPassword(
  db: D1Database,
  link: string,
  { id, name, email }: Person,
  password: { id: string; hash: string },
  at: string,
  keepsFactors: boolean,
): Promise<boolean> {
  const statements = [
    db.prepare('INSERT INTO used_links (hash) VALUES (?)').bind(link),
    // Removes the person of a deleted account, whose address this person has now.
    db.prepare('DELETE FROM user WHERE email = ?1 AND id <> ?2').bind(email, id),
    db
      .prepare(
        `INSERT INTO user (id, name, email, emailVerified, createdAt, updatedAt) VALUES (?1, ?2, ?3, 1, ?4, ?4)
         ON CONFLICT (id) DO UPDATE SET name = ?2, email = ?3, updatedAt = ?4,
           twoFactorEnabled = CASE WHEN ?5 THEN twoFactorEnabled ELSE 0 END`,
      )
      .bind(id, name, email, at, keepsFactors ? 1 : 0),
    db.prepare("DELETE FROM account WHERE userId = ? AND providerId = 'credential'").bind(id),
    db
      .prepare(
        `INSERT INTO account (id, accountId, providerId, userId, password, createdAt, updatedAt)
         VALUES (?1, ?2, 'credential', ?2, ?3, ?4, ?4)`,
      )
      .bind(password.id, id, password.hash, at),
    ...(keepsFactors ? ['session'] : ['session', 'twoFactor', 'passkey']).map((table) =>
      db.prepare(`DELETE FROM ${table} WHERE userId = ?`).bind(id),
    ),
    // Removes trusted browsers, and sign-ins that wait for a second factor.
    db.prepare('DELETE FROM verification WHERE value = ?').bind(id),
  ];
  try {
    await db.batch(statements);
    return true;
  } catch (error) {
    const used = await db.prepare('SELECT 1 FROM used_links WHERE hash = ?').bind(link).first();
    if (used === null) throw error;
    return false;
  }
}

/** Returns the id of the person whom a provider knows by `subject`; null for an unknown one. */
export async function personOf(db: D1Database, provider: string, subject: string): Promise<string | null> {
  const found = await db
    .prepare('SELECT userId FROM account WHERE providerId = ? AND accountId = ?')
    .bind(provider, subject)
    .first<{ userId: string }>();
  return found?.userId ?? null;
}

/**
 * Ends a session, by its id.
 * @param provider ends the session only if its person has an identity at this provider; null: in any case
 * @returns whether it was ended
 */
export async function endSessionBy(
  db: D1Database,
  provider: string | null,
  session: string,
): Promise<boolean> {
  const ended = await db
    .prepare(
      `DELETE FROM session WHERE id = ?1 AND (?2 IS NULL OR EXISTS (
         SELECT 1 FROM account WHERE account.userId = session.userId AND providerId = ?2)) RETURNING id`,
    )
    .bind(session, provider)
    .first();
  return ended !== null;
}

/** Adds a person, or updates name and e-mail address. The caller has proved the address. */
export async function keepPerson(db: D1Database, { id, name, email }: Person, at: string): Promise<void> {
  await db.batch([
    db.prepare('DELETE FROM user WHERE email = ?1 AND id <> ?2').bind(email, id),
    db
      .prepare(
        `INSERT INTO user (id, name, email, emailVerified, createdAt, updatedAt) VALUES (?1, ?2, ?3, 1, ?4, ?4)
         ON CONFLICT (id) DO UPDATE SET name = ?2, email = ?3, emailVerified = 1, updatedAt = ?4`,
      )
      .bind(id, name, email, at),
  ]);
}

/** Removes a person, with sessions, passkeys and all other rows. */
export async function forgetPerson(db: D1Database, id: string): Promise<void> {
  await db.prepare('DELETE FROM user WHERE id = ?').bind(id).run();
}

/** Removes sessions and challenges that have expired. */
export async function removeExpired(db: D1Database, at: string): Promise<void> {
  await db.batch([
    db.prepare('DELETE FROM session WHERE expiresAt < ?').bind(at),
    db.prepare('DELETE FROM verification WHERE expiresAt < ?').bind(at),
  ]);
}
