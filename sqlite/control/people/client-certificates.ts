// Client certificates of accounts, and the apps that use them.
import { type Reader, rowsOf } from '../reads.ts';

/** A certificate without its key. */
export interface ClientCertificate {
  id: string;
  name: string;
  /** PEM. */
  certificates: string;
  issuer: string;
  serial_number: string;
  key_type: string;
  expires_at: string;
  created_at: string;
}

const COLUMNS = 'id, name, certificates, issuer, serial_number, key_type, expires_at, created_at';

/** Returns the certificates of an account, oldest first. */
export function listCertificates(db: Reader, owner: string): Promise<ClientCertificate[]> {
  const query = `SELECT ${COLUMNS} FROM client_certificates WHERE owner_id = ? ORDER BY created_at, id`;
  return rowsOf<ClientCertificate>(db, query, owner);
}

/** Adds a certificate with its encrypted key. @returns false when the account has `limit` certificates already */
export async function addCertificate(
  db: D1Database,
  owner: string,
  added: ClientCertificate & { sealed_key: string },
  limit: number,
): Promise<boolean> {
  const { id, name, certificates, issuer, serial_number, key_type, expires_at, created_at, sealed_key } =
    added;
  const { meta } = await db
    .prepare(
      `INSERT INTO client_certificates (owner_id, ${COLUMNS}, sealed_key)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
       WHERE (SELECT count(*) FROM client_certificates WHERE owner_id = ?1) < ?11`,
    )
    .bind(
      owner,
      id,
      name,
      certificates,
      issuer,
      serial_number,
      key_type,
      expires_at,
      created_at,
      sealed_key,
      limit,
    )
    .run();
  return meta.changes > 0;
}

export async function deleteCertificate(db: D1Database, id: string): Promise<void> {
  await db.prepare('DELETE FROM client_certificates WHERE id = ?').bind(id).run();
}

/** Returns a certificate of an account, and records the app that uses it; null when the account has no such certificate. */
export async function takeCertificate(
  db: D1Database,
  { owner, app, certificate }: { owner: string; app: string; certificate: string },
): Promise<{ certificates: string; sealed_key: string } | null> {
  const [, found] = await db.batch<{ certificates: string; sealed_key: string }>([
    db
      .prepare(
        `INSERT INTO client_certificate_apps (certificate_id, app_id)
         SELECT client_certificates.id, apps.id FROM client_certificates, apps
         WHERE client_certificates.id = ?1 AND client_certificates.owner_id = ?2 AND apps.id = ?3
         ON CONFLICT DO NOTHING`,
      )
      .bind(certificate, owner, app),
    db
      .prepare('SELECT certificates, sealed_key FROM client_certificates WHERE id = ? AND owner_id = ?')
      .bind(certificate, owner),
  ]);
  return found!.results[0] ?? null;
}

/** Returns the apps that have deployed a release with a certificate, without deleted ones. */
export function appsWithCertificate(db: Reader, id: string): Promise<{ id: string; slug: string }[]> {
  const query = `SELECT id, slug FROM apps WHERE deleted_at IS NULL
    AND id IN (SELECT app_id FROM client_certificate_apps WHERE certificate_id = ?) ORDER BY slug`;
  return rowsOf<{ id: string; slug: string }>(db, query, id);
}
