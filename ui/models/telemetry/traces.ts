// Slow or failed requests, and a single request with its log.
import { computed } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { pages } from '../pages.ts';

export type Span = Result<'spans.list'>['items'][number];

const PAGE = 50;
/** Polling interval of the list, in ms. */
const EVERY_MS = 10_000;
export const ranges = [
  ['1', '1 h'],
  ['24', '24 h'],
  ['168', '7 days'],
  ['720', '30 days'],
] as const;
export type Range = (typeof ranges)[number][0];

/** Returns the range of a number of hours in the query; 24 h for an unknown one. */
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

/** A stage of a request. `from` is in ms from the request's start, `ms` is the stage's duration. */
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

export type Call = Result<'traces.get'>['calls'][number];

/** One request: its spans and calls, if they are kept, and its log lines. */
export function traceModel(app: string, trace: string) {
  return resource(async (signal) => {
    const [{ spans, calls }, lines] = await Promise.all([
      api('traces.get', { id: app, trace_id: trace }, { signal }),
      api('logs.list', { id: app, trace_id: trace, limit: 200 }, { signal }),
    ]);
    return { spans, calls, lines: lines.items.toReversed() };
  });
}

/** The names of the kinds of calls, as people see them. */
export const callKinds: Record<Call['kind'], string> = {
  d1: 'D1',
  kv: 'KV',
  r2: 'R2',
  object: 'Durable Object',
  queue: 'Queue',
  workflow: 'Workflow',
  service: 'Service',
  ai: 'AI',
  fetch: 'Outgoing fetch',
};

/** Returns where a call's bar begins and its width, as fractions (0 to 1) of the time shown. */
export function barOf(
  call: Call,
  { from, to }: { from: number; to: number },
): { left: number; width: number } {
  const whole = Math.max(1, to - from);
  const left = Math.min(1, Math.max(0, (Date.parse(call.started_at) - from) / whole));
  return { left, width: Math.min(1 - left, call.duration_ms / whole) };
}

/** Returns the first start and the last end, in ms since 1970. */
export function timesOf(spans: readonly Span[], calls: readonly Call[]): { from: number; to: number } {
  const all = [...spans, ...calls];
  const starts = all.map(({ started_at }) => Date.parse(started_at));
  const ends = all.map(({ started_at, duration_ms }) => Date.parse(started_at) + duration_ms);
  return { from: Math.min(...starts), to: Math.max(...ends) };
}
