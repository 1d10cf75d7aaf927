// Requests that were slow or failed, and one request with what was said during it.
import { computed, effect, signal } from '@preact/signals';
import { api, type Result } from '../api.ts';
import { resource } from '../live.ts';
import { queryOf } from '../router.ts';

export type Span = Result<'spans.list'>['items'][number];

const PAGE = 50;
/** How often the list is read again while it is shown. */
const EVERY_MS = 10_000;
/** Where a span is looked for: so many pages of 200. */
const PAGES = 5;
export const ranges = [
  ['1', '1 h'],
  ['24', '24 h'],
  ['168', '7 days'],
  ['720', '30 days'],
] as const;
export type Range = (typeof ranges)[number][0];

/** The requests of the range that the query names (`hours`), newest first. */
export function tracesModel(app: string) {
  const range = computed<Range>(() => ranges.find(([hours]) => hours === queryOf('hours'))?.[0] ?? '24');
  const older = signal<Span[]>([]);
  const cursor = signal<string | null>(null);
  const list = resource(
    async (signal) => {
      const read = await api('spans.list', { id: app, hours: Number(range.peek()), limit: PAGE }, { signal });
      if (older.peek().length === 0) cursor.value = read.next_cursor;
      return read.items;
    },
    { everyMs: EVERY_MS },
  );
  let before: Range | null = null;
  const watch = effect(() => {
    const asked = range.value;
    if (before !== null && before !== asked) {
      older.value = [];
      void list.refresh();
    }
    before = asked;
  });
  const rows = computed(() => {
    const first = list.data.value ?? [];
    const known = new Set(first.map(({ span_id }) => span_id));
    return [...first, ...older.value.filter(({ span_id }) => !known.has(span_id))];
  });
  return {
    range,
    list,
    rows,
    longest: computed(() => Math.max(1, ...rows.value.map(({ duration_ms }) => duration_ms))),
    hasOlder: computed(() => cursor.value !== null),
    async readOlder() {
      const asked = { id: app, hours: Number(range.peek()), limit: PAGE, cursor: cursor.peek()! };
      const read = await api('spans.list', asked);
      older.value = [...older.peek(), ...read.items];
      cursor.value = read.next_cursor;
    },
    close() {
      watch();
      list.close();
    },
  };
}

/** A part of a request's time, in ms from its beginning. */
export interface Stage {
  name: string;
  kind: 'wait' | 'wake' | 'app';
  from: number;
  ms: number;
}

/** What the time of a request went to, in order. */
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

/** One request: its spans, if any are kept, and its lines of the log. */
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
