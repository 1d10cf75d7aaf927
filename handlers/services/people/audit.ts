import { type AuditEntryRow, listAuditEntries, NOBODY } from '../../../sqlite/control/people/audit.ts';
import { requireOwnAccount, seesAppsOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import type { Params } from '../../contract/index.ts';
import type { AuditEntry } from '../../contract/people/audit.ts';
import { decodeNumbers } from '../cursor.ts';
import { listAnswer } from '../paging.ts';
import type { Service } from '../types.ts';

/** Number of audit entries that the export reads with one query. */
const EXPORT_PAGE = 500;

type Filter = Omit<Params<'audit.list'>, 'limit' | 'cursor'>;

const list: Service<'audit.list'> = async (context, { limit, cursor, ...filter }) => {
  const before = decodeNumbers('audit.list', cursor, 1)?.[0] ?? null;
  return listAnswer('audit.list', await entries(context, filter, before, limit), shown);
};

export const auditServices = { 'audit.list': list };

/**
 * Streams all audit entries that match the filter, newest first, as lines of JSON. Queries them as fast as the client reads.
 */
export function auditLines(context: Context, filter: Filter): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let before: number | null = null;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { rows, next } = await entries(context, filter, before, EXPORT_PAGE);
      if (rows.length > 0)
        controller.enqueue(encoder.encode(rows.map((row) => `${JSON.stringify(shown(row))}\n`).join('')));
      if (next === null) controller.close();
      before = Number(next?.[0]);
    },
  });
}

/**
 * Reads audit entries. A caller who is not an admin gets only the entries of the caller's own account.
 * @throws {Problem} `forbidden` when such a caller asks for the entries of another account
 */
function entries({ actor, reads }: Context, filter: Filter, before: number | null, limit: number) {
  const own = seesAppsOf(actor);
  if (own !== null && filter.account !== undefined) requireOwnAccount(actor, filter.account);
  return listAuditEntries(reads, {
    actor: own ?? filter.account ?? null,
    app: filter.app ?? null,
    operation: filter.operation ?? null,
    via: filter.via ?? null,
    outcome: filter.outcome ?? null,
    since: filter.since ?? null,
    until: filter.until ?? null,
    before,
    limit,
  });
}

function shown(row: AuditEntryRow): AuditEntry {
  const { seq, at, actor, actor_name, key_id, via, address, operation, app_id, app_slug, outcome } = row;
  return {
    id: String(seq),
    at,
    account: actor === 'runner' || actor === NOBODY ? null : actor,
    name: actor_name,
    key: key_id,
    via: via as AuditEntry['via'],
    address,
    operation,
    app: app_slug === null ? null : { id: app_id, slug: app_slug },
    details: JSON.parse(row.details),
    outcome,
  };
}
