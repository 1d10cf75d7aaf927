// Slow or failed requests, and a single request with its log.
import { computed } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { pages } from '../pages.ts';

export type Span = Result<'spans.list'>['items'][number];

const PAGE = 50;
/** Polling interval of the list. */
const EVERY_MS = 10_000;
/** Pages of 200 that are searched for a span. */
const PAGES = 5;
export const ranges = [
  ['1', '1 h'],
  ['24', '24 h'],
  ['168', '7 days'],
  ['720', '30 days'],
] as const;
export type Range = (typeof ranges)[number][0];

/** Returns the range in the query. */
export function rangeOf(hours: string): Range {
  return ranges.find(([range]) => range === hours)?.[0] ?? '24';
}

/** The requests in a range, newest first. */
export function tracesModel(app: string, range: Range) {
  const asked = { id: app, hours: Number(range), limit: PAGE };
  const list = pages(
    (cursor, signal) => api('spans.list', { ...asked, cursor }, { signal }),
    ({ span_id }: Span) => span_id,
    { everyMs: EVERY_MS, grows: true },
  );
  return {
    list,
    longest: computed(() => Math.max(1, ...list.items.value.map(({ duration_ms }) => duration_ms))),
    close: list.close,
  };
}

/** A stage of a request, in ms from its start. */
export interface Stage {
  name: string;
  kind: 'wait' | 'wake' | 'app';
  from: number;
  ms: number;
}

/** Returns the stages of a request, in order. */
export function stagesOf({ duration_ms, held_ms, wake_ms, refused }: Span): Stage[] {
  const wake = Math.min(wake_ms, held_ms);
  const stages: Stage[] = [
    { name: 'held by the gateway', kind: 'wait', from: 0, ms: held_ms - wake },
    { name: 'start of the process', kind: 'wake', from: held_ms - wake, ms: wake },
    {
      name: refused === null ? 'the app' : 'the gateway',
      kind: 'app',
      from: held_ms,
      ms: Math.max(0, duration_ms - held_ms),
    },
  ];
  return stages.filter(({ ms, kind }) => ms > 0 || kind === 'app');
}

/** One request: its spans, if any are kept, and its log lines. */
export function traceModel(app: string, trace: string) {
  return resource(async (signal) => {
    const [spans, lines] = await Promise.all([
      findSpans(app, trace, signal),
      api('logs.list', { id: app, trace_id: trace, limit: 200 }, { signal }),
    ]);
    return { spans, lines: lines.items.toReversed() };
  });
}

async function findSpans(app: string, trace: string, signal: AbortSignal): Promise<Span[]> {
  let cursor: string | null = null;
  const found: Span[] = [];
  for (let page = 0; page < PAGES; page++) {
    const asked = { id: app, hours: 720, limit: 200, ...(cursor !== null && { cursor }) };
    const read: Result<'spans.list'> = await api('spans.list', asked, { signal });
    found.push(...read.items.filter(({ trace_id }) => trace_id === trace));
    cursor = read.next_cursor;
    if (found.length > 0 || cursor === null) break;
  }
  return found.sort((a, b) => a.started_at.localeCompare(b.started_at));
}
