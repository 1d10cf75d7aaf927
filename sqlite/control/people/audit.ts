// The audit log: what accounts and the runner token changed.
import { type Page, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';

export interface AuditRow {
  at: string;
  /** An account's id, `runner`, or `nobody` (see `NOBODY`). */
  actor: string;
  /** Id of the API key; null if none was used. */
  key_id: string | null;
  via: string;
  address: string;
  operation: string;
  app_id: string | null;
  app_slug: string | null;
  /** JSON. */
  details: string;
  /** `ok`, or the code of the error. */
  outcome: string;
}

/** An entry as it is stored. */
export interface AuditEntryRow extends AuditRow {
  seq: number;
  /** The account's name at that time. */
  actor_name: string | null;
}

/** Maximum entries of one actor, so that nobody pushes out the entries of others. */
const ENTRIES_LIMIT = 20_000;
/**
 * Maximum entries about refused sign-ins of an actor in a day. In the retention of 90 days these are 9,000, so they use less
 * than half of `ENTRIES_LIMIT`.
 */
const REFUSED_SIGN_INS = 100;
const DAY_MS = 24 * 3_600_000;
/** The actor of refused sign-ins that lead to no account. */
export const NOBODY = 'nobody';
/** Maximum rows that one insert removes. */
const PUSHED_OUT = 100;

/** Adds an entry. Above the limit of entries, it removes the actor's oldest. */
export async function insertAuditEntry(db: D1Database, row: AuditRow): Promise<void> {
  await db.batch([
    db
      .prepare(
        `INSERT INTO audit (at, actor, actor_name, key_id, via, address, operation, app_id, app_slug, details, outcome, nth)
         SELECT ?1, ?2, (SELECT name FROM accounts WHERE id = ?2), ?3, ?4, ?5, ?6,
           coalesce(?7, (SELECT id FROM apps WHERE slug = ?8 OR id = ?8)),
           coalesce((SELECT coalesce(deleted_slug, slug) FROM apps WHERE id IN (?7, ?8)), ?8), ?9, ?10,
           (SELECT coalesce(max(nth), 0) + 1 FROM audit WHERE actor = ?2)`,
      )
      .bind(
        row.at,
        row.actor,
        row.key_id,
        row.via,
        row.address,
        row.operation,
        row.app_id,
        row.app_slug,
        row.details,
        row.outcome,
      ),
    db
      .prepare(
        `DELETE FROM audit WHERE seq IN (SELECT seq FROM audit
           WHERE actor = ?1 AND nth <= (SELECT max(nth) FROM audit WHERE actor = ?1) - ?2 LIMIT ?3)`,
      )
      .bind(row.actor, ENTRIES_LIMIT, PUSHED_OUT),
  ]);
}

/** A sign-in that was refused. */
export interface RefusedSignIn {
  at: string;
  account: string | null;
  /** Finds the account when `account` does not. */
  email: string | null;
  address: string;
  /** JSON. */
  details: string;
  outcome: string;
}

/** Adds an entry about a refused sign-in, up to a limit for each day and account. All without an account share one limit. */
export async function insertRefusedSignIn(db: D1Database, row: RefusedSignIn): Promise<void> {
  const since = new Date(Date.parse(row.at) - DAY_MS).toISOString();
  await db
    .prepare(
      `WITH who AS (SELECT coalesce(
         (SELECT id FROM accounts WHERE id = ?2), (SELECT id FROM accounts WHERE email = ?3), '${NOBODY}') AS id)
       INSERT INTO audit (at, actor, actor_name, via, address, operation, details, outcome, nth)
       SELECT ?1, id, (SELECT name FROM accounts WHERE accounts.id = who.id), 'ui', ?4, 'sign_in', ?5, ?6,
         (SELECT coalesce(max(nth), 0) + 1 FROM audit WHERE actor = who.id)
       FROM who WHERE ?8 > (SELECT count(*) FROM audit INDEXED BY audit_age
         WHERE at > ?7 AND actor = who.id AND operation = 'sign_in' AND outcome <> 'ok')`,
    )
    .bind(row.at, row.account, row.email, row.address, row.details, row.outcome, since, REFUSED_SIGN_INS)
    .run();
}

export interface AuditFilter {
  /** An account's id, `runner` or `nobody`; null for all. */
  actor: string | null;
  /** Id of the app, or its slug at that time. */
  app: string | null;
  operation: string | null;
  via: string | null;
  /** `ok`: only operations that succeeded; `refused`: only those that failed; null for all. */
  outcome: 'ok' | 'refused' | null;
  since: string | null;
  until: string | null;
  /** The `seq` to continue from. */
  before: number | null;
  limit: number;
}

/**
 * Returns entries, newest first. Finds those of one actor by the index, so that no account's request reads all entries.
 */
export async function listAuditEntries(db: Reader, filter: AuditFilter): Promise<Page<AuditEntryRow>> {
  const byActor = filter.actor === null ? '?1 IS NULL' : 'actor = ?1';
  const statement = db
    .prepare(
      `SELECT seq, at, actor, actor_name, key_id, via, address, operation, app_id, app_slug, details, outcome FROM audit
       WHERE ${byActor} AND (?2 IS NULL OR app_id = ?2 OR app_slug = ?2) AND (?3 IS NULL OR operation = ?3)
         AND (?4 IS NULL OR via = ?4) AND (?5 IS NULL OR (outcome = 'ok') = (?5 = 'ok'))
         AND (?6 IS NULL OR at >= ?6) AND (?7 IS NULL OR at < ?7) AND (?8 IS NULL OR seq < ?8)
       ORDER BY seq DESC LIMIT ?9`,
    )
    .bind(
      filter.actor,
      filter.app,
      filter.operation,
      filter.via,
      filter.outcome,
      filter.since,
      filter.until,
      filter.before,
      filter.limit + 1,
    );
  const [found] = await db.batch<AuditEntryRow>([statement]);
  return pageOf(found!.results, filter.limit, ({ seq }) => [String(seq)]);
}
