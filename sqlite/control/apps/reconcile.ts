// The control plane's state, which reconcile compares with the host's apps.
import { liftRevision } from '../meta.ts';

export interface ControlState {
  revision: number;
  /** Every app, also deleted ones whose deletion no host has confirmed. */
  apps: { id: string; generation: number; home: string | null; deleted: boolean }[];
  /** Ids of apps that reconcile must never move to the trash. */
  spared: Set<string>;
}

export async function readControlState(db: D1Database): Promise<ControlState> {
  const [meta, apps, spared] = await db.batch<Record<string, unknown>>([
    db.prepare('SELECT revision FROM meta'),
    db.prepare(
      'SELECT id, generation, home, deleted_at IS NOT NULL AS deleted FROM apps WHERE trashed_at IS NULL ORDER BY id',
    ),
    db.prepare('SELECT id FROM spared_apps'),
  ]);
  return {
    revision: meta!.results[0]!.revision as number,
    apps: apps!.results.map((row) => ({
      id: row.id as string,
      generation: row.generation as number,
      home: row.home as string | null,
      deleted: row.deleted === 1,
    })),
    spared: new Set(spared!.results.map((row) => row.id as string)),
  };
}

/** Records that this database is an older copy: raises the counter to `highest`, and adds `ids` to the spared apps. */
export async function acceptOlder(db: D1Database, highest: number, ids: string[]): Promise<void> {
  if (ids.length > 0) {
    const statement = db.prepare('INSERT INTO spared_apps (id) VALUES (?) ON CONFLICT DO NOTHING');
    await db.batch(ids.map((id) => statement.bind(id)));
  }
  await liftRevision(db, highest);
}
