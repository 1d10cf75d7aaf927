// Overview of an app: its figures over a range, newest deploys, open errors, newest log lines, and crons.
import { computed, effect, signal } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { live, resource } from '../../live.ts';
import { queryOf } from '../../router.ts';
import { oneApp } from '../apps.ts';
import { mergeDeploys } from '../deploys/deploys.ts';

type Steps = Result<'metrics.get'>;
type Step = Steps['items'][number];

const HOUR_MS = 3_600_000;
/** Selectable ranges, in hours. */
export const RANGES = { '1h': 1, '6h': 6, '24h': 24, '7d': 168, '30d': 720 } as const;
export type Range = keyof typeof RANGES;
const OF_ALL: Range = '24h';
/** Ranges for a young app: it gets the first one that is longer than its age. */
const YOUNG_RANGES = ['1h', '6h'] as const;
const LONG_RANGES = ['24h', '7d', '30d'] as const;
/** The API's longest range, in hours. */
const MOST_HOURS = 720;
/** Polling interval of the app's state and its newest log lines, in ms. */
const PRESENT_MS = 10_000;
/** Polling interval of the figures, errors and crons, in ms. */
const FIGURES_MS = 30_000;
const LINES = 8;
const DEPLOYS = 20;

/** The charts that can be shown. */
export type Drawn = 'requests' | 'errors' | 'latency' | 'wakes';

/** The time range shown: the last `hours`, or the selection from `from` to `to` (ms since 1970; null without one). */
export interface Span {
  hours: number;
  from: number | null;
  to: number | null;
}

/** Parses the time range in the query. */
export function spanOf(range: string, from: string, to: string, now: number): Span {
  const [begin, end] = [Number(from), Number(to)];
  if (from !== '' && to !== '' && begin < end && end - begin >= 60_000 && begin < now) {
    const hours = Math.min(MOST_HOURS, Math.max(1, Math.ceil((now - begin) / HOUR_MS)));
    return { hours, from: begin, to: end };
  }
  return { hours: RANGES[range as Range] ?? RANGES[OF_ALL], from: null, to: null };
}

/** Returns the shortest range of a day or more with requests; null when there are none. @param steps of the longest range */
export function rangeWithRequests({ items, step_s }: Steps, now: number): Range | null {
  const last = items.findLast(({ requests }) => requests > 0);
  if (last === undefined) return null;
  const hoursAgo = (now - Date.parse(last.at) - step_s * 1e3) / HOUR_MS;
  return LONG_RANGES.find((range) => RANGES[range] > hoursAgo) ?? null;
}

/** Returns the steps that overlap a time range. */
export function stepsIn({ items, step_s }: Steps, { from, to }: Span): Step[] {
  if (from === null || to === null) return items;
  return items.filter(({ at }) => Date.parse(at) + step_s * 1e3 > from && Date.parse(at) < to);
}

/** Returns totals of several steps. Latencies are means, weighted by requests. */
export function summary(steps: readonly Step[]) {
  const sum = (of: (step: Step) => number) => steps.reduce((all, step) => all + of(step), 0);
  const mean = (of: (step: Step) => number | null) => {
    const timed = steps.filter((step) => of(step) !== null);
    const weight = timed.reduce((all, { requests }) => all + requests, 0);
    if (weight === 0) return null;
    return timed.reduce((all, step) => all + of(step)! * step.requests, 0) / weight;
  };
  return {
    requests: sum(({ requests }) => requests),
    errors: sum(({ errors }) => errors),
    wakes: sum(({ wakes }) => wakes),
    p50: mean(({ duration_ms_p50 }) => duration_ms_p50),
    p99: mean(({ duration_ms_p99 }) => duration_ms_p99),
  };
}

export function overviewModel(slug: string) {
  /** The range shown when none is chosen; null until it is known. */
  const fitting = signal<Range | null>(null);
  const chosen = computed(() =>
    Object.hasOwn(RANGES, queryOf('range')) ? (queryOf('range') as Range) : null,
  );
  const range = computed(() => chosen.value ?? fitting.value ?? OF_ALL);
  const asked = computed(() => `${range.value} ${queryOf('from')} ${queryOf('to')}`);
  const span = computed(() => spanOf(range.value, queryOf('from'), queryOf('to'), Date.now()));

  const { app, isIdle, close } = oneApp(slug, PRESENT_MS);
  const deploys = resource(async (signal) => {
    const { items } = await api('deploys.list', { id: slug, limit: DEPLOYS }, { signal });
    return items;
  });
  const errors = resource((signal) => api('errors.list', { id: slug, limit: 5 }, { signal }), {
    everyMs: FIGURES_MS,
  });
  const lines = resource(
    async (signal) => (await api('logs.list', { id: slug, limit: LINES }, { signal })).items.toReversed(),
    { everyMs: PRESENT_MS },
  );
  const crons = resource(async (signal) => (await api('crons.list', { id: slug }, { signal })).items, {
    everyMs: FIGURES_MS,
  });
  const steps = (hours: number, signal: AbortSignal) => api('metrics.get', { id: slug, hours }, { signal });
  /** Chooses the range: by the age of a young app, else the shortest with requests, else `OF_ALL`. */
  const fit = async (signal: AbortSignal): Promise<Range> => {
    const { created_at } = await api('apps.get', { id: slug }, { signal });
    const hours = (Date.now() - Date.parse(created_at)) / HOUR_MS;
    const young = YOUNG_RANGES.find((range) => hours < RANGES[range]);
    return young ?? rangeWithRequests(await steps(MOST_HOURS, signal), Date.now()) ?? OF_ALL;
  };
  const metrics = resource(
    async (signal) => {
      if (chosen.peek() === null && fitting.peek() === null) fitting.value = await fit(signal);
      return steps(span.peek().hours, signal);
    },
    { everyMs: FIGURES_MS },
  );
  // The summary of the period before, of the same length; null for a selection, and for a period that is too long.
  const earlier = resource(async (signal) => {
    const { hours, from } = span.peek();
    if (from !== null || hours * 2 > MOST_HOURS) return null;
    const { items } = await api('metrics.get', { id: slug, hours: hours * 2 }, { signal });
    return summary(items.slice(0, items.length / 2));
  });
  let first = true;
  const again = effect(() => {
    asked.value;
    if (!first) for (const each of [metrics, earlier]) void each.refresh();
    first = false;
  });
  const stop = live(
    'deploys.stream',
    { id: slug },
    {
      onItems(items) {
        const received = items.filter((item) => 'status' in item);
        const before = deploys.data.peek();
        if (received.length === 0 || before === null) return;
        deploys.set(mergeDeploys(before, received).slice(0, DEPLOYS));
        void app.refresh();
      },
      onReset: () => void deploys.refresh(),
    },
  );
  const shownSteps = computed(() => metrics.data.value && stepsIn(metrics.data.value, span.value));
  return {
    app,
    isIdle,
    deploys,
    errors,
    lines,
    crons,
    metrics,
    range,
    span,
    steps: shownSteps,
    now: computed(() => shownSteps.value && summary(shownSteps.value)),
    before: earlier.data,
    async sleep() {
      app.set(await api('apps.sleep', { id: slug }));
    },
    async run(desired_state: 'running' | 'stopped') {
      app.set(await api('apps.update', { id: slug, desired_state }));
    },
    async runCron(cron: string) {
      const ran = await api('crons.run', { id: slug, cron });
      await crons.refresh();
      return ran;
    },
    /** Deploys the tip of main. @returns the deploy's id */
    async deploy(): Promise<string> {
      return (await api('deploys.create', { id: slug })).id;
    },
    close() {
      again();
      stop();
      close();
      for (const each of [deploys, errors, lines, crons, metrics, earlier]) each.close();
    },
  };
}

export type OverviewModel = ReturnType<typeof overviewModel>;
