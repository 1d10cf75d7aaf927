// Facts of the host, written where nothing newer is.
import type { HostEvents } from '../../../handlers/contract/host/host-calls.ts';
import { writeDeploy } from './deploys.ts';
import { writeObserved } from './transitions.ts';

/**
 * Applies facts in one transaction. A row keeps what it has from a later fact. Facts about unknown apps are dropped: the
 * app was deleted meanwhile. Lines of logs are not kept here.
 * @returns which of the deploys' apps there are
 */
export async function applyHostEvents(db: D1Database, { outbox, events }: HostEvents): Promise<string[]> {
  const writes = events.flatMap((event) => {
    const asOf = { outbox, seq: event.seq };
    if (event.type === 'deploy') return [writeDeploy(db, event.deploy, asOf)];
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
