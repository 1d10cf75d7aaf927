// The counter of transitions.

/** Returns the statement that begins every transition: it raises the counter. */
export function raiseRevision(db: D1Database): D1PreparedStatement {
  return db.prepare('UPDATE meta SET revision = revision + 1');
}

/** Raises the counter to the highest that a host has seen, after this database was restored from an older copy. */
export async function liftRevision(db: D1Database, above: number): Promise<void> {
  await db.prepare('UPDATE meta SET revision = max(revision, ?)').bind(above).run();
}
