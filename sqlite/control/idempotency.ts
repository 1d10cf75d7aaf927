// Stores the answer to the first request with an idempotency key, for requests that repeat it.

/** Retention of an answer, in ms. */
const RETENTION_MS = 24 * 3_600_000;
/** Lease of a key, in ms. A request that does not renew it has crashed: the next request may run. */
const LEASE_MS = 60_000;

/** A key that one request holds. `holder` identifies the request. */
export interface HeldKey {
  caller: string;
  key: string;
  holder: string;
}

/** The stored row of a key. `answer` is null while the first request runs. */
export interface KeptAnswer {
  operation: string;
  input_hash: string;
  answer: string | null;
}

const iso = (ms: number) => new Date(ms).toISOString();

/**
 * Leases a key to a request.
 * @param now ms since 1970
 * @returns null when the key was free, else its row
 */
export async function takeKey(
  db: D1Database,
  { caller, key, holder }: HeldKey,
  request: { operation: string; inputHash: string },
  now: number,
): Promise<KeptAnswer | null> {
  const [, taken, found] = await db.batch<KeptAnswer>([
    db.prepare('DELETE FROM kept_answers WHERE expires_at < ?').bind(iso(now)),
    db
      .prepare(
        `INSERT INTO kept_answers (caller, key, operation, input_hash, holder, expires_at) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (caller, key) DO NOTHING RETURNING key`,
      )
      .bind(caller, key, request.operation, request.inputHash, holder, iso(now + LEASE_MS)),
    db
      .prepare('SELECT operation, input_hash, answer FROM kept_answers WHERE caller = ? AND key = ?')
      .bind(caller, key),
  ]);
  return taken!.results.length > 0 ? null : found!.results[0]!;
}

/** Returns the row of a key; null without one. @param now ms since 1970 */
export function findAnswer(
  db: D1Database,
  { caller, key }: Pick<HeldKey, 'caller' | 'key'>,
  now: number,
): Promise<KeptAnswer | null> {
  return db
    .prepare(
      'SELECT operation, input_hash, answer FROM kept_answers WHERE caller = ? AND key = ? AND expires_at >= ?',
    )
    .bind(caller, key, iso(now))
    .first<KeptAnswer>();
}

/** Renews the lease of a running request. Call it more often than once a minute. */
export async function renewKey(db: D1Database, { caller, key, holder }: HeldKey, now: number): Promise<void> {
  await db
    .prepare(
      'UPDATE kept_answers SET expires_at = ? WHERE caller = ? AND key = ? AND holder = ? AND answer IS NULL',
    )
    .bind(iso(now + LEASE_MS), caller, key, holder)
    .run();
}

/** Stores the answer of the request that holds the key. Does nothing if the key was deleted or leased to another request. */
export async function keepAnswer(
  db: D1Database,
  { caller, key, holder }: HeldKey,
  answer: string,
  now: number,
): Promise<void> {
  await db
    .prepare('UPDATE kept_answers SET answer = ?, expires_at = ? WHERE caller = ? AND key = ? AND holder = ?')
    .bind(answer, iso(now + RETENTION_MS), caller, key, holder)
    .run();
}

/** Releases a key whose request failed without a change, so that it can be retried. */
export async function freeKey(db: D1Database, { caller, key, holder }: HeldKey): Promise<void> {
  await db
    .prepare('DELETE FROM kept_answers WHERE caller = ? AND key = ? AND holder = ?')
    .bind(caller, key, holder)
    .run();
}
