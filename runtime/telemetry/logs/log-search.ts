// Searches an app's log.
import { setImmediate } from 'node:timers/promises';
import type { LogLine } from '../../../handlers/contract/telemetry/logs.ts';
import type { LogQueries } from '../../../sqlite/telemetry/logs.ts';
import type { Asks } from '../protocol.ts';
import { LEVELS } from './log-lines.ts';
import { matcher } from './log-listener.ts';
import { idAt, lineOf } from './log-rows.ts';

/** Lines searched before other work gets a turn. */
const SEARCHED_LINES = 4_000;
/** Time after which a search returns a partial result, in ms. */
const SEARCH_MS = 1_000;

/** Returns matching lines, newest first. A slow search returns the lines found so far, and a cursor. */
export async function searchLogs(
  queries: LogQueries,
  params: Asks['logs']['params'],
): Promise<Asks['logs']['answer']> {
  const { appId, limit, search, level, since, until, traceId } = params;
  const filter = { level: level && LEVELS.indexOf(level), since, until, traceId };
  const matches = matcher(search);
  const deadline = performance.now() + SEARCH_MS;
  const items: LogLine[] = [];
  let before = params.before ?? Number.MAX_SAFE_INTEGER;
  for (;;) {
    const from = queries.further(appId, before, SEARCHED_LINES);
    for (const row of queries.between(appId, from ?? 0, before, filter)) {
      if (!matches(row)) continue;
      if (items.length === limit) return { items, next: Number(items.at(-1)!.id) };
      items.push(lineOf(row));
    }
    // All older lines arrived before `since`.
    if (from === null || (since !== undefined && from < idAt(since))) return { items, next: null };
    before = from;
    if (performance.now() > deadline) return { items, next: before };
    await setImmediate();
  }
}
