// Error groups in the API's form.
import type { GroupedError } from '../../../handlers/contract/telemetry/grouped-errors.ts';
import type { ErrorQueries, GroupRow } from '../../../sqlite/telemetry/errors.ts';
import { HOURS } from './error-groups.ts';

const HOUR_MS = 3_600_000;

export function shownGroup(queries: ErrorQueries, row: GroupRow): GroupedError {
  const hour = Math.floor(Date.now() / HOUR_MS);
  const sparkline = Array.from({ length: HOURS }, () => 0);
  for (const { hour: of, count } of queries.hours(row.id, hour - HOURS)) {
    const index = of - (hour - HOURS) - 1;
    if (index < HOURS) sparkline[index] = count;
  }
  const { fingerprint, kind, message, place, mechanism, handler, method, path, trace_id } = row;
  return {
    fingerprint,
    kind,
    message,
    place,
    mechanism,
    handler,
    method,
    path,
    trace_id,
    count: row.count,
    status: row.status,
    regressed_at: row.regressed_at === null ? null : new Date(row.regressed_at).toISOString(),
    first_seen_at: new Date(row.first_seen_at).toISOString(),
    last_seen_at: new Date(row.last_seen_at).toISOString(),
    first_release: row.first_release,
    last_release: row.last_release,
    sparkline,
  };
}
