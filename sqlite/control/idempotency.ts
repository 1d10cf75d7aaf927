// First answers, kept for requests that come again with the same key.

/** Milliseconds that an answer is kept. */
const KEPT_MS = 24 * 3_600_000;
/** Milliseconds after which a request that has not renewed its hold was cut by a crash: the next one may run. */
const HELD_MS = 60_000;

/** A key, held by one request. `holder` is that request's alone. */
export interface HeldKey {
  caller: string;
  key: string;
  holder: string;
}

/** What is known of a key. `answer` is null while the first request runs. */
export interface KeptAnswer {
  operation: string;
  input_hash: string;
  answer: string | null;
}

const iso = (ms: number) => new Date(ms).toISOString();

/**
 * Takes a key for a request.
 * @param now milliseconds since the epoch
 * @returns null when the key was free and is held now, else what is known of it
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
      .bind(caller, key, request.operation, request.inputHash, holder, iso(now + HELD_MS)),
    db
      .prepare('SELECT operation, input_hash, answer FROM kept_answers WHERE caller = ? AND key = ?')
      .bind(caller, key),
  ]);
  return taken!.results.length > 0 ? null : found!.results[0]!;
}

/** Holds a key longer, for a request that still runs. To be called more often than once a minute. */
export async function renewKey(db: D1Database, { caller, key, holder }: HeldKey, now: number): Promise<void> {
  await db
    .prepare(
      'UPDATE kept_answers SET expires_at = ? WHERE caller = ? AND key = ? AND holder = ? AND answer IS NULL',
    )
    .bind(iso(now + HELD_MS), caller, key, holder)
    .run();
}

/** Keeps the answer of the request that holds the key. A request that has lost the key changes nothing. */
export async function keepAnswer(
  db: D1Database,
  { caller, key, holder }: HeldKey,
  answer: string,
  now: number,
): Promise<void> {
  await db
    .prepare('UPDATE kept_answers SET answer = ?, expires_at = ? WHERE caller = ? AND key = ? AND holder = ?')
    .bind(answer, iso(now + KEPT_MS), caller, key, holder)
    .run();
}

/** Frees a key whose request failed and changed nothing, so that it can be tried again. */
export async function freeKey(db: D1Database, { caller, key, holder }: HeldKey): Promise<void> {
  await db
    .prepare('DELETE FROM kept_answers WHERE caller = ? AND key = ? AND holder = ?')
    .bind(caller, key, holder)
    .run();
}
