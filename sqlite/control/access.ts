// Who may do what over git, and which names this Cellar answers to.

export type Role = 'view' | 'push' | 'admin';

/** What a key may do on a slug. `account_id` is null for an unknown key, `app_id` for an unknown slug. */
export interface Access {
  account_id: string | null;
  app_id: string | null;
  role: Role | null;
}

/** @param keyHash SHA-256 of the key, hexadecimal */
export async function findAccess(db: D1Database, keyHash: string, slug: string): Promise<Access> {
  const access = await db
    .prepare(
      `SELECT keys.account_id, apps.id AS app_id,
         CASE WHEN apps.owner_id = keys.account_id THEN 'admin' ELSE collaborators.role END AS role
       FROM (SELECT 1)
       LEFT JOIN keys ON keys.hash = ?1
       LEFT JOIN apps ON apps.slug = ?2 AND apps.deleted_at IS NULL
       LEFT JOIN collaborators ON collaborators.app_id = apps.id AND collaborators.account_id = keys.account_id`,
    )
    .bind(keyHash, slug)
    .first<Access>();
  return access!;
}

/** Whether a hostname is that of an app that is to run and has a release, asleep or not, or is a domain of any app. */
export async function mayHaveCertificate(
  db: D1Database,
  slug: string | null,
  hostname: string,
): Promise<boolean> {
  const found = await db
    .prepare(
      `SELECT 1 FROM apps WHERE deleted_at IS NULL
         AND (slug = ?1 AND desired_state = 'running' AND live_deploy_id IS NOT NULL
           OR id = (SELECT app_id FROM domains WHERE hostname = ?2))`,
    )
    .bind(slug, hostname)
    .first();
  return found !== null;
}

/** The id of the app that answers at a hostname: by its slug (null when the hostname is no such) or a domain. */
export async function findAppAt(
  db: D1Database,
  slug: string | null,
  hostname: string,
): Promise<string | null> {
  const found = await db
    .prepare(
      `SELECT id FROM apps WHERE deleted_at IS NULL
         AND (slug = ?1 OR id = (SELECT app_id FROM domains WHERE hostname = ?2))`,
    )
    .bind(slug, hostname)
    .first<{ id: string }>();
  return found?.id ?? null;
}
