// Links that create an account, set the password of one, or give an existing one a role.
import { type Page, type Position, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';

export interface InviteRow {
  id: string;
  email: string | null;
  /** The account's role on this machine. */
  role: 'admin' | 'member' | 'guest';
  app_id: string | null;
  app_role: 'view' | 'push' | 'admin' | null;
  account_id: string | null;
  created_at: string;
  expires_at: string | null;
  used_at: string | null;
  /** Whether it was requested at sign-in and mailed. Then the account, except a guest, keeps its second factor. */
  is_recovery: 0 | 1;
  /** The admin of the app who created it; null for the machine's admins. */
  made_by: string | null;
}

/** An invite with the name of its app. */
export interface ListedInvite extends InviteRow {
  app_slug: string | null;
}

/** An invite whose link can still be used. */
export interface OpenInvite extends ListedInvite {
  /** Name of the account whose password the link sets; null when it creates an account. */
  account_name: string | null;
  /** E-mail address of that account; null when it has none. */
  account_email: string | null;
}

const COLUMNS =
  'id, email, app_id, app_role, account_id, created_at, expires_at, used_at, is_recovery, made_by';
/** The columns of `ListedInvite`. */
const LISTED = `${COLUMNS.replace(/\w+/g, 'invites.$&')},
  CASE WHEN invites.is_guest THEN 'guest' ELSE invites.role END AS role, apps.slug AS app_slug`;
/** Whether the invite is by the machine's admins, or by an account that is still an admin of the app. */
const BY_RIGHT = `(made_by IS NULL OR EXISTS (SELECT 1 FROM apps AS its WHERE its.id = invites.app_id AND its.deleted_at IS NULL
  AND (its.owner_id = made_by OR EXISTS (SELECT 1 FROM collaborators AS admins
    WHERE admins.app_id = its.id AND admins.account_id = made_by AND admins.role = 'admin'))))`;
/** `?1` is the hash of a link, `?2` the time. */
const IS_OPEN = `hash = ?1 AND used_at IS NULL AND (expires_at IS NULL OR expires_at > ?2) AND ${BY_RIGHT}`;
/** An open link that is not yet tied to an account: it creates one, or gives an existing one the invite's roles. */
const IS_FREE = `${IS_OPEN} AND account_id IS NULL`;
/** The last clause of an `INSERT` into `collaborators`: raises an existing role, and never lowers it. */
const RAISE_ROLE = `ON CONFLICT (app_id, account_id) DO UPDATE SET role = excluded.role
  WHERE instr('view push admin', excluded.role) > instr('view push admin', collaborators.role)`;

/** Maximum invites by apps' admins in a day: those for the app, and those by the inviter for any app, counted together. */
const APP_INVITES = 20;
const DAY_MS = 24 * 3_600_000;

/**
 * Adds an invite.
 * @param hash SHA-256 of the secret in the link, hexadecimal
 * @returns false when its app or account does not exist, or the inviter's quota is used up
 */
export async function insertInvite(
  db: D1Database,
  row: Omit<InviteRow, 'used_at' | 'is_recovery'>,
  hash: string,
): Promise<boolean> {
  const inserted = await db
    .prepare(
      `INSERT INTO invites (hash, id, email, role, app_id, app_role, account_id, created_at, expires_at, made_by, is_guest)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?13
       WHERE (?5 IS NULL OR EXISTS (SELECT 1 FROM apps WHERE id = ?5 AND deleted_at IS NULL))
         AND (?7 IS NULL OR EXISTS (SELECT 1 FROM accounts WHERE id = ?7))
         AND (?10 IS NULL OR ?12 > (SELECT count(*) FROM invites
           WHERE made_by IS NOT NULL AND created_at > ?11 AND (app_id = ?5 OR made_by = ?10)))
       RETURNING id`,
    )
    .bind(
      hash,
      row.id,
      row.email,
      row.role === 'admin' ? 'admin' : 'member',
      row.app_id,
      row.app_role,
      row.account_id,
      row.created_at,
      row.expires_at,
      row.made_by,
      new Date(Date.parse(row.created_at) - DAY_MS).toISOString(),
      APP_INVITES,
      row.role === 'guest' ? 1 : 0,
    )
    .first();
  return inserted !== null;
}

/** Maximum links for a new password of one account, counted from the time `since` of `insertRecovery`. */
const RECOVERIES = 3;

/**
 * Adds a link that sets a new password for an address's account, unless the account got `RECOVERIES` links since `since`.
 * @returns whether it was added; false also for an address without an account
 */
export async function insertRecovery(
  db: D1Database,
  email: string,
  link: { id: string; hash: string; created_at: string; expires_at: string },
  since: string,
): Promise<boolean> {
  const inserted = await db
    .prepare(
      `INSERT INTO invites (id, hash, role, account_id, created_at, expires_at, is_recovery)
       SELECT ?1, ?2, 'member', accounts.id, ?3, ?4, 1 FROM accounts WHERE email = ?5 AND ?6 >
         (SELECT count(*) FROM invites WHERE account_id = accounts.id AND is_recovery = 1 AND created_at > ?7)
       RETURNING id`,
    )
    .bind(link.id, link.hash, link.created_at, link.expires_at, email, RECOVERIES, since)
    .first();
  return inserted !== null;
}

/**
 * Adds the first start's link for the first account, unless the link exists or the account has an e-mail address.
 * @returns whether the link can still be used
 */
export async function ensureWelcome(
  db: D1Database,
  link: { id: string; hash: string; at: string },
): Promise<boolean> {
  const [, found] = await db.batch<{ used_at: string | null }>([
    db
      .prepare(
        `INSERT INTO invites (id, hash, role, account_id, created_at)
         SELECT ?, ?, 'admin', id, ? FROM accounts WHERE role = 'owner' AND email IS NULL ON CONFLICT (hash) DO NOTHING`,
      )
      .bind(link.id, link.hash, link.at),
    db.prepare('SELECT used_at FROM invites WHERE hash = ?').bind(link.hash),
  ]);
  return found!.results[0]?.used_at === null;
}

/**
 * Returns usable invites, oldest first, without the link of the first start and those requested at sign-in.
 * @param app the app on which they give a role; null for all
 */
export async function listInvites(
  db: Reader,
  at: string,
  app: string | null,
  { after, limit }: Position,
): Promise<Page<ListedInvite>> {
  const statement = db.prepare(
    `SELECT ${LISTED} FROM invites LEFT JOIN apps ON apps.id = app_id
     WHERE used_at IS NULL AND expires_at > ?1 AND is_recovery = 0 AND ${BY_RIGHT} AND (?2 IS NULL OR app_id = ?2)
       AND invites.id > ?3 ORDER BY invites.id LIMIT ?4`,
  );
  const [found] = await db.batch<ListedInvite>([statement.bind(at, app, after, limit + 1)]);
  return pageOf(found!.results, limit, ({ id }) => [id]);
}

export async function findInvite(db: D1Database, id: string): Promise<ListedInvite | null> {
  const sql = `SELECT ${LISTED} FROM invites LEFT JOIN apps ON apps.id = app_id WHERE invites.id = ?`;
  return db.prepare(sql).bind(id).first<ListedInvite>();
}

/**
 * Expires an invite. The row stays, because it counts for the quota of an app's admins.
 * @param app the app on which it must give a role; null for any
 * @returns false for an invite that does not exist, or has ended
 */
export async function revokeInvite(
  db: D1Database,
  id: string,
  app: string | null,
  at: string,
): Promise<boolean> {
  const statement = db.prepare(
    `UPDATE invites SET expires_at = ?3 WHERE id = ?1 AND used_at IS NULL AND expires_at > ?3
       AND (?2 IS NULL OR app_id = ?2) RETURNING id`,
  );
  return (await statement.bind(id, app, at).first()) !== null;
}

/** Returns the invite of a link; null when the link is invalid or has ended. */
export async function openInvite(db: D1Database, hash: string, at: string): Promise<OpenInvite | null> {
  return openInviteStatement(db, hash, at).first<OpenInvite>();
}

/**
 * Ties an invite to its account, and gives the account the invite's role on the app. A higher role there stays. If the
 * invite has no account yet, creates one with the invite's role and e-mail address: the link proves only that address.
 * If the invite has no address, the new account gets `account.email`. An invite's existing account without an address
 * gets the given name and address; one with an address keeps its own. The call is idempotent.
 * @param account.id id of a new account
 * @returns the invite; its `account_id` is null when another account has the address. Null when the link cannot be used
 */
export async function claimInvite(
  db: D1Database,
  hash: string,
  account: { id: string; name: string; email: string; at: string },
): Promise<OpenInvite | null> {
  const { id, name, email, at } = account;
  const results = await db.batch<OpenInvite>([
    db
      .prepare(
        `INSERT INTO accounts (id, name, email, role, is_admin, is_guest, email_proved, created_at)
         SELECT ?3, ?4, coalesce(email, ?5), 'member', role = 'admin', is_guest, email IS NOT NULL AND NOT is_guest, ?2
         FROM invites WHERE ${IS_FREE}
         ON CONFLICT (email) DO NOTHING`,
      )
      .bind(hash, at, id, name, email),
    db
      .prepare(
        `UPDATE invites SET account_id = ?3
         WHERE ${IS_FREE} AND EXISTS (SELECT 1 FROM accounts WHERE id = ?3)`,
      )
      .bind(hash, at, id),
    db
      .prepare(
        `UPDATE accounts SET name = ?3, email = ?4
         WHERE email IS NULL AND id = (SELECT account_id FROM invites WHERE ${IS_OPEN})
           AND NOT EXISTS (SELECT 1 FROM accounts WHERE email = ?4)`,
      )
      .bind(hash, at, name, email),
    db
      .prepare(
        `INSERT INTO collaborators (app_id, account_id, role, created_at)
         SELECT app_id, account_id, app_role, ?2 FROM invites JOIN apps ON apps.id = app_id
         WHERE ${IS_OPEN} AND apps.owner_id <> account_id
         ${RAISE_ROLE}`,
      )
      .bind(hash, at),
    openInviteStatement(db, hash, at),
  ]);
  return results.at(-1)!.results[0] ?? null;
}

/**
 * Gives an existing account the invite's roles on an app and on the machine, unless it has higher ones. Ends the invite.
 * @returns the app's slug; null for an invite without an app, undefined when the link cannot be used
 */
export async function joinByInvite(
  db: D1Database,
  hash: string,
  account: string,
  at: string,
): Promise<string | null | undefined> {
  const used = db
    .prepare(
      `UPDATE invites SET used_at = ?2, account_id = ?3 WHERE ${IS_FREE} AND EXISTS (SELECT 1 FROM accounts WHERE id = ?3)
       RETURNING (SELECT slug FROM apps WHERE id = app_id) AS slug`,
    )
    .bind(hash, at, account);
  const results = await db.batch<{ slug: string | null }>([
    db
      .prepare(
        `INSERT INTO collaborators (app_id, account_id, role, created_at)
         SELECT app_id, ?3, app_role, ?2 FROM invites JOIN apps ON apps.id = app_id
         WHERE ${IS_FREE} AND apps.owner_id <> ?3
         ${RAISE_ROLE}`,
      )
      .bind(hash, at, account),
    db
      .prepare(
        `UPDATE accounts SET is_guest = 0,
           is_admin = max(is_admin, (SELECT role = 'admin' FROM invites WHERE ${IS_FREE}))
         WHERE id = ?3 AND EXISTS (SELECT 1 FROM invites WHERE ${IS_FREE} AND is_guest = 0)`,
      )
      .bind(hash, at, account),
    used,
  ]);
  return results.at(-1)!.results[0]?.slug;
}

/**
 * Marks a link as used, and all links that its account requested for a new password.
 * @returns the link's invite; null when the link was invalid or had ended. Only one of concurrent calls gets the invite
 */
export async function closeInvite(db: D1Database, hash: string, at: string): Promise<OpenInvite | null> {
  // A batch is one transaction.
  const [found] = await db.batch<OpenInvite>([
    openInviteStatement(db, hash, at),
    db
      .prepare(
        `UPDATE invites SET used_at = ?1 WHERE used_at IS NULL AND (hash = ?2
           OR is_recovery = 1 AND account_id = (SELECT account_id FROM invites WHERE hash = ?2))`,
      )
      .bind(at, hash),
  ]);
  return found!.results[0] ?? null;
}

function openInviteStatement(db: D1Database, hash: string, at: string): D1PreparedStatement {
  return db
    .prepare(
      `SELECT ${LISTED}, accounts.name AS account_name, accounts.email AS account_email
       FROM invites LEFT JOIN apps ON apps.id = app_id LEFT JOIN accounts ON accounts.id = account_id
       WHERE ${IS_OPEN}`,
    )
    .bind(hash, at);
}
