// First answers, kept for requests that come again with the same key.

/** Milliseconds that an answer is kept. */
const KEPT_MS = 24 * 3_600_000;
/** A request still without an answer after this long was cut by a crash: the next one may run. */
const ABANDONED_MS = 120_000;

/** What is known of a key. `answer` is null while the first request runs. */
export interface KeptAnswer {
  operation: string;
  input_hash: string;
  answer: string | null;
}

/**
 * Takes a key for a request.
 * @param request.now milliseconds since the epoch
 * @returns null when the key was free and is taken now, else what is known of it
 */
export async function takeKey(
  db: D1Database,
  request: { key: string; operation: string; inputHash: string; now: number },
): Promise<KeptAnswer | null> {
  const iso = (ms: number) => new Date(ms).toISOString();
  const [, taken, found] = await db.batch<KeptAnswer>([
    db
      .prepare('DELETE FROM idempotency WHERE created_at < ?1 OR (answer IS NULL AND created_at < ?2)')
      .bind(iso(request.now - KEPT_MS), iso(request.now - ABANDONED_MS)),
    db
      .prepare(
        `INSERT INTO idempotency (key, operation, input_hash, created_at) VALUES (?, ?, ?, ?)
         ON CONFLICT (key) DO NOTHING RETURNING key`,
      )
      .bind(request.key, request.operation, request.inputHash, iso(request.now)),
    db.prepare('SELECT operation, input_hash, answer FROM idempotency WHERE key = ?').bind(request.key),
  ]);
  return taken!.results.length > 0 ? null : found!.results[0]!;
}

export async function keepAnswer(db: D1Database, key: string, answer: string): Promise<void> {
  await db.prepare('UPDATE idempotency SET answer = ? WHERE key = ?').bind(answer, key).run();
}

/** Frees a key whose request failed through a fault of ours, so that it can be tried again. */
export async function freeKey(db: D1Database, key: string): Promise<void> {
  await db.prepare('DELETE FROM idempotency WHERE key = ? AND answer IS NULL').bind(key).run();
}
