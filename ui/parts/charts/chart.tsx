// A chart over time, drawn by uPlot. Null values are gaps. Screen readers get a table instead of the drawing.
import { useEffect, useRef, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { shownTheme } from '../../theme.ts';
import { clock, date, exactTime, NONE } from '../format.ts';
import { failed } from '../status/toast.tsx';
import { isolated } from './isolated.ts';

export interface Series {
  name: string;
  /** One value for each time in `times`; null: unknown or no data. */
  values: readonly (number | null)[];
  colour: 'accent' | 'danger' | 'warn' | 'sleep' | 'muted';
  /** Bars show counts per step, lines show continuous values. */
  kind?: 'line' | 'bars';
  /** Whether the area under the line is tinted. */
  filled?: boolean;
}

/** An event, drawn as a vertical line. */
export interface Mark {
  /** ms since 1970. */
  at: number;
  kind: 'deploy' | 'wake' | 'crash';
  text: string;
}

interface ChartProps {
  /** The caption of the table for screen readers. */
  title: string;
  /** ms since 1970, ascending. */
  times: readonly number[];
  series: readonly Series[];
  /** Whether values are counts: then the axis shows no fractions. */
  whole?: boolean;
  /** Formats a value with its unit. */
  format: (value: number | null) => string;
  marks?: readonly Mark[];
  height?: number;
  /** Called with the range that the person dragged over, in ms since 1970. Without it, dragging does nothing. */
  onZoom?: (from: number, to: number) => void;
}

/** Maximum rows in the table for screen readers. */
const TABLE_ROWS = 48;

/** A chart over time. */
export function Chart(props: ChartProps) {
  const { title, times, series, format, marks = [], height = 240 } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const [area, setArea] = useState({ left: 0, width: 0, height: 0, min: 0, max: 1 });
  const latest = useRef(props);
  latest.current = props;
  const theme = shownTheme.value;
  const shape = series.map(({ name, colour, kind, filled }) => `${name} ${colour} ${kind} ${filled}`).join();

  useEffect(() => {
    let gone = false;
    let watch: ResizeObserver | undefined;
    const begin = async () => {
      const { default: UPlot } = await import('uplot');
      if (gone || !box.current) return;
      const made = new UPlot(
        options(UPlot, latest, box.current.clientWidth, height, setAt, setArea),
        dataOf(latest.current),
        box.current,
      );
      plot.current = made;
      watch = new ResizeObserver(([entry]) => {
        const width = Math.round(entry!.contentRect.width);
        if (width > 0 && width !== made.width) made.setSize({ width, height });
      });
      watch.observe(box.current);
    };
    begin().catch(failed);
    return () => {
      gone = true;
      watch?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [theme, shape, height]);
  useEffect(() => plot.current?.setData(dataOf(props)), [times, series]);

  const x = (ms: number) => area.left + ((ms / 1e3 - area.min) / (area.max - area.min)) * area.width;
  const shown = marks.filter(({ at }) => at / 1e3 >= area.min && at / 1e3 <= area.max);
  return (
    <figure class="chart" style={{ minHeight: `${height}px` }}>
      <div ref={box} aria-hidden="true" />
      <div aria-hidden="true">
        {shown.map(({ at, kind, text }) => (
          <span
            key={`${at} ${kind} ${text}`}
            class={`mark ${kind}`}
            style={{ left: `${x(at)}px`, top: '8px', height: `${area.height + 4}px` }}
          />
        ))}
        {at !== null && times[at] !== undefined && (
          <Tip
            {...{ at, times, series, format }}
            marks={near(marks, times, at)}
            left={x(times[at])}
            room={area.left + area.width}
          />
        )}
      </div>
      <StandIn {...{ title, times, series, format, marks }} />
    </figure>
  );
}

/** Returns the marks between the time at index `i` and the next. */
function near(marks: readonly Mark[], times: readonly number[], i: number): Mark[] {
  const step = (times[1] ?? 0) - (times[0] ?? 0);
  return marks.filter(({ at }) => at >= times[i]! && at < times[i]! + step);
}

function Tip({
  at,
  times,
  series,
  format,
  marks,
  left,
  room,
}: Omit<ChartProps, 'title'> & {
  at: number;
  marks: Mark[];
  left: number;
  room: number;
}) {
  const style = left > room / 2 ? { right: `calc(100% - ${left - 12}px)` } : { left: `${left + 12}px` };
  return (
    <div class="tip" style={style}>
      <p class="muted">
        {date(times[at]!)}, {clock(times[at]!).slice(0, 5)}
      </p>
      <dl>
        {series.map(({ name, values }) => [
          <dt key={name}>{name}</dt>,
          <dd key={`${name} value`}>{format(values[at] ?? null)}</dd>,
        ])}
      </dl>
      {marks.slice(0, 4).map(({ at, text }) => (
        <p key={`${at} ${text}`}>{text}</p>
      ))}
    </div>
  );
}

/** The table for screen readers, with every nth time, so that it has at most `TABLE_ROWS` rows. Also lists the marks. */
function StandIn({ title, times, series, format, marks = [] }: ChartProps) {
  const each = Math.ceil(times.length / TABLE_ROWS);
  const rows = times.map((time, i) => ({ time, i })).filter(({ i }) => i % each === 0);
  return (
    <figcaption class="unseen">
      <table>
        <caption>{title}</caption>
        <thead>
          <tr>
            <th>Time</th>
            {series.map(({ name }) => (
              <th key={name}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ time, i }) => (
            <tr key={time}>
              <th>{exactTime(time)}</th>
              {series.map(({ name, values }) => (
                <td key={name}>{values[i] === null || values[i] === undefined ? NONE : format(values[i])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <ul>
        {marks.map(({ at, text }) => (
          <li key={`${at} ${text}`}>
            {exactTime(at)}: {text}
          </li>
        ))}
      </ul>
    </figcaption>
  );
}

function dataOf({ times, series }: ChartProps): uPlot.AlignedData {
  return [times.map((ms) => ms / 1e3), ...series.map(({ values }) => [...values])];
}

function options(
  UPlot: typeof uPlot,
  latest: { current: ChartProps },
  width: number,
  height: number,
  setAt: (at: number | null) => void,
  setArea: (area: { left: number; width: number; height: number; min: number; max: number }) => void,
): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const role = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const font = '12px system-ui, sans-serif';
  const axis = { font, stroke: role('muted'), ticks: { show: false }, gap: 6 };
  const measure = (plot: uPlot) => {
    const { left, width, height } = plot.bbox;
    const { min = 0, max = 1 } = plot.scales.x!;
    setArea({
      left: left / devicePixelRatio,
      width: width / devicePixelRatio,
      height: height / devicePixelRatio,
      min: min ?? 0,
      max: max ?? 1,
    });
  };
  return {
    width,
    height,
    padding: [12, 18, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: latest.current.onZoom !== undefined, y: false, setScale: false },
      points: {
        size: 8,
        width: 2,
        fill: () => role('raised'),
        stroke: (_, i) => role(latest.current.series[i - 1]!.colour),
      },
    },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [
      {
        ...axis,
        size: 28,
        grid: { show: false },
        values: (_, splits, __, ___, step) => splits.map((s) => tick(s * 1e3, step)),
      },
      {
        ...axis,
        size: (_, values) => 14 + 6.6 * Math.max(4, ...(values ?? []).map((value) => value.length)),
        grid: { stroke: role('line'), width: 1 },
        splits: (_, __, min, max) => ySplits(min, max, latest.current.whole ? 1 : 0),
        values: (_, splits) => splits.map((value) => latest.current.format(value)),
      },
    ],
    series: [
      {},
      ...latest.current.series.map(
        ({ name, colour, kind, filled }): uPlot.Series => ({
          label: name,
          stroke: role(colour),
          width: 1.5,
          spanGaps: false,
          points: {
            show: kind !== 'bars',
            size: 6,
            fill: role(colour),
            filter: (plot, series) => isolated(plot.data[series]!),
          },
          ...(filled && { fill: `${role(colour)}22` }),
          ...(kind === 'bars' && {
            paths: UPlot.paths.bars!({ size: [0.7, 24] }),
            fill: `${role(colour)}cc`,
            width: 0,
          }),
        }),
      ),
    ],
    hooks: {
      setCursor: [(plot) => setAt(plot.cursor.idx ?? null)],
      setScale: [measure],
      setSize: [measure],
      draw: [measure],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 6) return;
          const to = (x: number) => Math.round(plot.posToVal(x, 'x') * 1e3);
          latest.current.onZoom?.(to(left), to(left + width));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** Returns at most four round values for the axis, from 0. @param least minimum distance between them */
function ySplits(min: number, max: number, least: number): number[] {
  const rough = (max - min) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough)!);
  const splits: number[] = [];
  for (let value = 0; value <= max; value += step) splits.push(value);
  return splits;
}

function tick(ms: number, stepS: number): string {
  const at = new Date(ms);
  if (stepS >= 86_400 || (at.getHours() === 0 && at.getMinutes() === 0)) return date(ms);
  return clock(ms).slice(0, 5);
}
