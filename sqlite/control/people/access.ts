// Access of accounts to apps, and the hostnames that this Cellar serves.
import { type Reader, withRetries } from '../reads.ts';
import { type FoundKey, findKeyStatement } from './keys.ts';

export type Role = 'view' | 'push' | 'admin';

/**
 * The role of a key's account on the app with a slug. `key` is null for an unknown key, `app_id` for an unknown slug, `role`
 * for an account without a role.
 */
export interface Access {
  key: FoundKey | null;
  app_id: string | null;
  role: Role | null;
}

/** @param keyHash SHA-256 of the key, hexadecimal */
export async function findAccess(db: D1Database, keyHash: string, slug: string): Promise<Access> {
  const [keys, access] = await db.batch<FoundKey | Omit<Access, 'key'>>([
    findKeyStatement(db, keyHash),
    db
      .prepare(
        `SELECT apps.id AS app_id,
         CASE WHEN apps.owner_id = keys.account_id THEN 'admin' ELSE collaborators.role END AS role
       FROM (SELECT 1)
       LEFT JOIN keys ON keys.hash = ?1
       LEFT JOIN apps ON apps.slug = ?2 AND apps.deleted_at IS NULL
       LEFT JOIN collaborators ON collaborators.app_id = apps.id AND collaborators.account_id = keys.account_id`,
      )
      .bind(keyHash, slug),
  ]);
  return {
    key: (keys!.results[0] ?? null) as FoundKey | null,
    ...(access!.results[0] as Omit<Access, 'key'>),
  };
}

/** Returns the present slug of the app that had `slug` before; null unless the account owns it or has a role on it. */
export async function slugSince(db: D1Database, slug: string, accountId: string): Promise<string | null> {
  const found = await db
    .prepare(
      `SELECT apps.slug FROM former_slugs JOIN apps ON apps.id = former_slugs.app_id
       WHERE former_slugs.slug = ?1 AND apps.deleted_at IS NULL AND (apps.owner_id = ?2
         OR EXISTS (SELECT 1 FROM collaborators WHERE collaborators.app_id = apps.id AND account_id = ?2))`,
    )
    .bind(slug, accountId)
    .first<{ slug: string }>();
  return found?.slug ?? null;
}

/** Whether an account is an admin of the machine; null for an unknown account. */
export async function isAdmin(db: D1Database, accountId: string): Promise<boolean | null> {
  const statement = db.prepare('SELECT is_admin FROM accounts WHERE id = ?').bind(accountId);
  const found = await withRetries(() => statement.first<{ is_admin: 0 | 1 }>());
  return found === null ? null : found.is_admin === 1;
}

/** Returns an account's role on an app; null for an unknown app, role null for an account without one. */
export async function appAccess(
  db: Reader,
  accountId: string,
  app: { id: string } | { slug: string },
): Promise<{ id: string; role: Role | null } | null> {
  const [column, value] = 'id' in app ? ['id', app.id] : ['slug', app.slug];
  const statement = db
    .prepare(
      `SELECT apps.id, CASE WHEN apps.owner_id = ?1 THEN 'admin' ELSE collaborators.role END AS role
       FROM apps LEFT JOIN collaborators ON app_id = apps.id AND account_id = ?1
       WHERE apps.${column} = ?2 AND apps.deleted_at IS NULL`,
    )
    .bind(accountId, value);
  const [found] = await db.batch<{ id: string; role: Role | null }>([statement]);
  return found!.results[0] ?? null;
}

/**
 * Returns whether a hostname may have a certificate: it is a proved domain, or its app should run and has a live release.
 */
export async function mayHaveCertificate(
  db: D1Database,
  slug: string | null,
  hostname: string,
): Promise<boolean> {
  const found = await db
    .prepare(
      `SELECT 1 FROM apps WHERE deleted_at IS NULL
         AND (slug = ?1 AND desired_state = 'running' AND live_deploy_id IS NOT NULL
           OR id = (SELECT app_id FROM domains WHERE hostname = ?2 AND proved_at IS NOT NULL))`,
    )
    .bind(slug, hostname)
    .first();
  return found !== null;
}
