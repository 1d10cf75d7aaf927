// The revision: a counter of all transitions of apps.

/** Returns the statement that begins every transition: it raises the counter. */
export function raiseRevision(db: D1Database): D1PreparedStatement {
  return db.prepare('UPDATE meta SET revision = revision + 1');
}

/**
 * Raises the counter to at least `above`, the highest generation (revision of an app's change) that a host has seen. Otherwise
 * hosts would refuse the next transitions of a database that was restored from an older copy.
 */
export async function liftRevision(db: D1Database, above: number): Promise<void> {
  await db.prepare('UPDATE meta SET revision = max(revision, ?)').bind(above).run();
}
