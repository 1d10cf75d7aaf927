// Facts of the host, applied once each.
import type { DeployFact, HostEvent, HostEvents } from '../../handlers/contract/host-calls.ts';
import { writeObserved } from './transitions.ts';

/**
 * Applies facts in one transaction with the watermark of their outbox. What was applied before is left alone.
 * Facts about unknown apps are dropped: the app was deleted meanwhile. Lines of logs are not kept here.
 * @returns the highest `seq` that is applied now, and which of the deploys' apps there are
 */
export async function applyHostEvents(
  db: D1Database,
  { outbox, events }: HostEvents,
): Promise<{ applied: number; apps: string[] }> {
  const last = events.reduce((seq, event) => Math.max(seq, event.seq), 0);
  const mark = db
    .prepare(
      `INSERT INTO outboxes (outbox, applied_seq) VALUES (?1, ?2)
       ON CONFLICT (outbox) DO UPDATE SET applied_seq = max(applied_seq, excluded.applied_seq)
       RETURNING applied_seq`,
    )
    .bind(outbox, last);
  const ids = events.flatMap((event) => {
    if (event.type === 'app') return [];
    return [event.type === 'deploy' ? event.deploy.app_id : event.lines.app_id];
  });
  const existing = db
    .prepare('SELECT id FROM apps WHERE id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL')
    .bind(JSON.stringify(ids));
  // Lines come often, and nothing here is written for them: the next fact's mark is theirs too.
  const kept = events.filter((event) => event.type !== 'lines');
  const marks = kept.length > 0 || events.length === 0 ? [mark] : [];
  const results = await db.batch<{ applied_seq: number; id: string }>([
    ...kept.map((event) => statementOf(db, outbox, event)),
    ...marks,
    existing,
  ]);
  const apps = results.pop()!.results.map(({ id }) => id);
  return { applied: marks.length > 0 ? results.pop()!.results[0]!.applied_seq : last, apps };
}

function statementOf(
  db: D1Database,
  outbox: string,
  event: Exclude<HostEvent, { type: 'lines' }>,
): D1PreparedStatement {
  if (event.type === 'deploy') return upsertDeploy(db, outbox, event.seq, event.deploy);
  return writeObserved(db, event.app, { outbox, seq: event.seq });
}

function upsertDeploy(db: D1Database, outbox: string, seq: number, deploy: DeployFact): D1PreparedStatement {
  return db
    .prepare(
      `INSERT INTO deploys (id, app_id, sha, ref, message, author, trigger, status, steps, error, created_at,
         started_at, finished_at)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
       WHERE EXISTS (SELECT 1 FROM apps WHERE id = ?2) AND ${isNew('?14', '?15')}
       ON CONFLICT (id) DO UPDATE SET status = excluded.status, steps = excluded.steps, error = excluded.error,
         message = excluded.message, author = excluded.author, sha = excluded.sha,
         started_at = excluded.started_at, finished_at = excluded.finished_at`,
    )
    .bind(
      deploy.id,
      deploy.app_id,
      deploy.sha,
      deploy.ref,
      deploy.message,
      deploy.author,
      deploy.trigger,
      deploy.status,
      JSON.stringify(deploy.steps),
      deploy.error,
      deploy.created_at,
      deploy.started_at,
      deploy.finished_at,
      outbox,
      seq,
    );
}

function isNew(outbox: string, seq: string): string {
  return `coalesce((SELECT applied_seq FROM outboxes WHERE outbox = ${outbox}), 0) < ${seq}`;
}
