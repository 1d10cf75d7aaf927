// The four figures of an app, and the chart of the selected one.
import type { Drawn, OverviewModel } from '../../models/telemetry/overview.ts';
import { RANGES } from '../../models/telemetry/overview.ts';
import { Chart, type Mark, type Series } from '../../parts/charts/chart.tsx';
import { Sparkline } from '../../parts/charts/sparkline.tsx';
import { Button } from '../../parts/controls/button.tsx';
import { Segments } from '../../parts/controls/tabs.tsx';
import { bytes, change, count, duration, exactTime, firstLine, percent } from '../../parts/format.ts';
import { Failed, Skeleton } from '../../parts/status/states.tsx';
import { queryOf, setQuery } from '../../router.ts';

type Step = NonNullable<OverviewModel['steps']['value']>[number];

/** Kinds of marks in the chart, and their names in the legend. */
const MARK_NAMES = [
  ['deploy', 'Deploy'],
  ['wake', 'Wake'],
  ['crash', 'Crash'],
] as const;

/** Maximum marks in a chart. */
const MARKS = 40;

export function Figures({ model }: { model: OverviewModel }) {
  const steps = model.steps.value;
  const failure = model.metrics.failure.value;
  if (steps === null) return failure ? <Failed failure={failure} retry={model.metrics.refresh} /> : <Shape />;
  const shown = queryOf('show', 'requests') as Drawn;
  const { from } = model.span.value;
  return (
    <section class={failure ? 'panel stale' : 'panel'} aria-label="Figures">
      <Tiles model={model} steps={steps} shown={shown} />
      <div class="range">
        <p class="muted small">{about[shown] ?? about.requests}</p>
        <div class="row">
          {from !== null && (
            <Button short onClick={() => setQuery({ from: null, to: null })}>
              Show all of {model.range.value}
            </Button>
          )}
          <Segments
            label="Range"
            value={from === null ? model.range.value : ('' as '24h')}
            onValue={(range) => setQuery({ range, from: null, to: null })}
            options={Object.keys(RANGES).map((range) => [range as keyof typeof RANGES, range] as const)}
          />
        </div>
      </div>
      <Drawing model={model} steps={steps} shown={shown} />
    </section>
  );
}

const about: Record<Drawn, string> = {
  requests: 'Requests in each time step, and how many of them were answered with 5xx.',
  errors: 'Responses with 5xx and 4xx in each time step.',
  latency:
    'Time from the head of a request to the end of its response: the median, and the time that 99 of 100 requests stay below.',
  wakes:
    'Memory of the process, with a gap where no process ran. A blue mark is a start after the app was idle or asleep.',
};

function Tiles({ model, steps, shown }: { model: OverviewModel; steps: Step[]; shown: Drawn }) {
  const now = model.now.value!;
  const before = model.before.value;
  const most = Math.max(0, ...steps.map(({ memory_bytes }) => memory_bytes ?? 0));
  const rate = now.requests === 0 ? null : now.errors / now.requests;
  const tiles = [
    {
      drawn: 'requests',
      name: 'Requests',
      value: count(now.requests),
      note: change(now.requests, before?.requests ?? null),
      values: thin(steps, ({ requests }) => requests),
      colour: 'accent',
    },
    {
      drawn: 'errors',
      name: 'Errors',
      value: count(now.errors),
      note: rate === null ? null : `${percent(rate)} of requests`,
      values: thin(steps, ({ errors }) => errors),
      colour: 'danger',
    },
    {
      drawn: 'latency',
      name: 'Latency, p50',
      value: duration(now.p50),
      note: now.p99 === null ? null : latencyNote(now.p99, before?.p99 ?? null),
      values: thin(steps, ({ duration_ms_p50 }) => duration_ms_p50),
      colour: 'muted',
    },
    {
      drawn: 'wakes',
      name: 'Wakes',
      value: count(now.wakes),
      note: most === 0 ? null : `memory up to ${bytes(most)}`,
      values: thin(steps, ({ wakes }) => wakes),
      colour: 'sleep',
    },
  ] as const;
  return (
    <div class="choices">
      {tiles.map(({ drawn, name, value, note, values, colour }) => (
        <button
          key={drawn}
          type="button"
          class="figure"
          aria-pressed={shown === drawn}
          onClick={() => setQuery({ show: drawn === 'requests' ? null : drawn })}
        >
          <span class="name">{name}</span>
          <span class="line">
            <span class="value">{value}</span>
            <Sparkline values={values} label="" colour={colour} width={72} height={22} />
          </span>
          <span class="note">{note ?? '\u00a0'}</span>
        </button>
      ))}
    </div>
  );
}

function latencyNote(p99: number, before: number | null): string {
  const changed = change(p99, before);
  return changed === null ? `p99 ${duration(p99)}` : `p99 ${duration(p99)}, ${changed}`;
}

/** Returns at most 36 values: each is the mean of neighbouring steps; null where none of them has a value. */
function thin(steps: readonly Step[], of: (step: Step) => number | null): (number | null)[] {
  const each = Math.ceil(steps.length / 36);
  return Array.from({ length: Math.ceil(steps.length / each) }, (_, i) => {
    const known = steps
      .slice(i * each, (i + 1) * each)
      .map(of)
      .filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
  });
}

function Drawing({ model, steps, shown }: { model: OverviewModel; steps: Step[]; shown: Drawn }) {
  const times = steps.map(({ at }) => Date.parse(at));
  const series = seriesOf(steps, shown);
  const format = shown === 'latency' ? duration : shown === 'wakes' ? bytes : count;
  const first = times[0] ?? 0;
  const last = (times.at(-1) ?? 0) + (model.metrics.data.value?.step_s ?? 60) * 1e3;
  const marks = marksOf(model, steps, first, last);
  return (
    <div class="drawing">
      <p class="legend" aria-hidden="true">
        {series.map(({ name, colour }) => (
          <span key={name}>
            <i style={{ color: `var(--${colour})` }} />
            {name}
          </span>
        ))}
        {MARK_NAMES.filter(([kind]) => marks.some((mark) => mark.kind === kind)).map(([kind, name]) => (
          <span key={kind}>
            <i class={`mark-key ${kind}`} />
            {name}
          </span>
        ))}
      </p>
      {series.every(({ values }) => values.every((value) => !value)) && (
        <p class="blank muted">
          {shown === 'wakes' ? 'No process ran in this time.' : 'No requests in this time.'}
        </p>
      )}
      <Chart
        title={`${series.map(({ name }) => name).join(' and ')} from ${exactTime(first)} to ${exactTime(last)}`}
        times={times}
        series={series}
        format={format}
        whole={shown === 'requests' || shown === 'errors'}
        marks={marks}
        height={220}
        onZoom={(from, to) => setQuery({ from, to }, { push: true })}
      />
    </div>
  );
}

function seriesOf(steps: readonly Step[], shown: Drawn): Series[] {
  if (shown === 'errors')
    return [
      { name: '5xx', values: steps.map(({ errors }) => errors), colour: 'danger', filled: true },
      { name: '4xx', values: steps.map(({ client_errors }) => client_errors), colour: 'muted' },
    ];
  if (shown === 'latency')
    return [
      { name: 'p50', values: steps.map(({ duration_ms_p50 }) => duration_ms_p50), colour: 'accent' },
      { name: 'p99', values: steps.map(({ duration_ms_p99 }) => duration_ms_p99), colour: 'warn' },
    ];
  if (shown === 'wakes')
    return [
      {
        name: 'Memory',
        values: steps.map(({ memory_bytes }) => memory_bytes),
        colour: 'sleep',
        filled: true,
      },
    ];
  return [
    { name: 'Requests', values: steps.map(({ requests }) => requests), colour: 'accent', filled: true },
    { name: 'Errors', values: steps.map(({ errors }) => errors), colour: 'danger' },
  ];
}

function marksOf(model: OverviewModel, steps: readonly Step[], from: number, to: number): Mark[] {
  const deploys = (model.deploys.data.value ?? [])
    .filter(({ status, finished_at }) => (status === 'live' || status === 'replaced') && finished_at !== null)
    .map(({ message, finished_at }) => ({
      at: Date.parse(finished_at!),
      kind: 'deploy' as const,
      text: `Deploy: ${firstLine(message)}`,
    }));
  const crashes = (model.errors.data.value?.items ?? [])
    .filter(({ mechanism }) => mechanism === 'crash')
    .map(({ last_seen_at, message }) => ({
      at: Date.parse(last_seen_at),
      kind: 'crash' as const,
      text: `Crash: ${firstLine(message)}`,
    }));
  const wakes = steps
    .filter((step) => step.wakes > 0)
    .map((step) => ({
      at: Date.parse(step.at),
      kind: 'wake' as const,
      text: step.wakes === 1 ? 'Wake' : `${step.wakes} wakes`,
    }));
  const marks: Mark[] = [...deploys, ...crashes, ...(wakes.length <= MARKS ? wakes : [])];
  return marks.filter(({ at }) => at >= from && at <= to);
}

function Shape() {
  return (
    <div class="stack">
      <Skeleton height={92} />
      <Skeleton height={240} />
    </div>
  );
}
