// Writes facts of the host, unless newer ones are stored.
import type { HostEvents } from '../../../handlers/contract/host/host-calls.ts';
import { writeDeploy } from './deploys.ts';
import { writeObserved } from './transitions.ts';

/**
 * Applies facts in one transaction. A row with a newer fact stays. Facts about unknown apps are dropped: those apps were
 * deleted meanwhile. Log lines are not stored here.
 * @param host the id of the host that sends them; null for the only host
 * @returns the ids of the existing apps that the deploys and log lines are about
 */
export async function applyHostEvents(
  db: D1Database,
  { outbox, events }: HostEvents,
  host: string | null = null,
): Promise<string[]> {
  const writes = events.flatMap((event) => {
    const asOf = { outbox, seq: event.seq };
    if (event.type === 'deploy') return [writeDeploy(db, event.deploy, asOf, host)];
    return event.type === 'app' ? [writeObserved(db, event.app, asOf)] : [];
  });
  const ids = events.flatMap((event) => {
    if (event.type === 'app') return [];
    return [event.type === 'deploy' ? event.deploy.app_id : event.lines.app_id];
  });
  const existing = db
    .prepare('SELECT id FROM apps WHERE id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL')
    .bind(JSON.stringify(ids));
  const results = await db.batch<{ id: string }>([...writes, existing]);
  return results.at(-1)!.results.map(({ id }) => id);
}
