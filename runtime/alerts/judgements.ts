// Decides from figures whether an alert begins or ends.
import type { Result } from '../../handlers/contract/index.ts';
import type { Alert } from '../../handlers/contract/telemetry/alerts.ts';
import type { Alerts } from './alerts.ts';

export type Minutes = Result<'metrics.get'>['items'];
type Minute = Minutes[number];

/** Length of the window of the error rate, in minutes. It includes the current, incomplete minute. */
const RATE_MINUTES = 5;
/** With fewer requests in the window, the error rate is not judged. */
const ENOUGH = 20;
const MINUTE_MS = 60_000;
const MIB = 2 ** 20;

/** Reports too many failed requests. @param minutes oldest first */
export function reportErrorRate(alerts: Alerts, appId: string, minutes: Minutes): void {
  const window = minutes.slice(-RATE_MINUTES);
  const requests = window.reduce((sum, minute) => sum + minute.requests, 0);
  const errors = window.reduce((sum, minute) => sum + minute.errors, 0);
  if (requests < ENOUGH) return;
  const percent = (100 * errors) / requests;
  alerts.report(
    appId,
    {
      kind: 'error_rate',
      type: 'error_rate.high',
      topic: 'error_rate',
      message: `${errors} of ${requests} requests of the last ${RATE_MINUTES} minutes failed (${percent.toFixed(0)} %).`,
      details: { requests, errors },
    },
    ({ error_rate }) => percent >= error_rate,
  );
}

/** One figure that each alert compares with its threshold. */
interface Watched {
  kind: 'memory' | 'cpu' | 'latency';
  /** Null where nothing was measured. */
  figure: (minute: Minute) => number | null;
  threshold: (alert: Alert) => number;
  high: (value: number, threshold: number) => string;
  normal: string;
}

/**
 * Judges memory, processor time and latency by the last complete minutes, as many as the alert's `for_minutes`. An alert
 * begins when the value was above its threshold in all these minutes, and ends when it was above in none of them.
 * @param minutes oldest first, the last one incomplete
 * @param memoryMb returns the memory that the app's processes could use together in the minute that began at `at`, in MiB
 */
export function judgeMinutes(
  alerts: Alerts,
  appId: string,
  minutes: Minutes,
  memoryMb: (at: string) => number,
): void {
  for (const watched of watchedFigures(memoryMb)) {
    const { kind, figure, threshold, high, normal } = watched;
    for (const alert of alerts.list(appId)) {
      const most = threshold(alert);
      const window = minutes.slice(-1 - alert.for_minutes, -1);
      const figures = window.map((minute) => figure(minute) ?? Number.NEGATIVE_INFINITY);
      const above = figures.filter((each) => each > most).length;
      if (above === 0) alerts.end(alert, kind, `${kind}.normal`, normal);
      else if (above === alert.for_minutes) {
        const value = Math.round(figures.at(-1)!);
        const message = `${high(value, most)} for ${alert.for_minutes} min.`;
        alerts.begin(alert, { kind, type: `${kind}.high`, message, details: { value, threshold: most } });
      }
    }
  }
}

function watchedFigures(memoryMb: (at: string) => number): Watched[] {
  return [
    {
      kind: 'memory',
      figure: ({ at, memory_bytes }) => memory_bytes && (100 * memory_bytes) / (memoryMb(at) * MIB),
      threshold: ({ memory_percent }) => memory_percent,
      high: (value, most) => `The app uses ${value} % of its memory, more than ${most} %,`,
      normal: 'The app uses less memory again.',
    },
    {
      kind: 'cpu',
      figure: ({ cpu_ms }) => (100 * cpu_ms) / MINUTE_MS,
      threshold: ({ cpu_percent }) => cpu_percent,
      high: (value, most) => `The app uses ${value} % of a processor, more than ${most} %,`,
      normal: 'The app uses less processor time again.',
    },
    {
      kind: 'latency',
      figure: ({ duration_ms_p95 }) => duration_ms_p95,
      threshold: ({ latency_ms }) => latency_ms,
      high: (value, most) => `5 % of the requests take ${value} ms or longer, more than ${most} ms,`,
      normal: 'The app answers faster again.',
    },
  ];
}

/**
 * Begins an alert when an app has had no request for too long, and ends it after the next request.
 * @param last time of the last request, in ms since 1970; null: never, or the app is stopped. Then nothing is reported
 * @param runsMs how long this host has run, in ms. While it was down, the app could not get requests
 */
export function judgeTraffic(alerts: Alerts, appId: string, last: number | null, runsMs: number): void {
  if (last === null) return;
  const quietMs = Date.now() - last;
  for (const alert of alerts.list(appId)) {
    const limitMs = alert.no_traffic_minutes * MINUTE_MS;
    if (quietMs < limitMs) alerts.end(alert, 'no_traffic', 'traffic.back', 'The app gets requests again.');
    else if (runsMs >= limitMs) {
      const message = `The app has had no request for ${Math.floor(quietMs / MINUTE_MS)} min.`;
      const details = { last_request_at: new Date(last).toISOString() };
      alerts.begin(alert, { kind: 'no_traffic', type: 'traffic.none', message, details });
    }
  }
}

/** Judges the longest queue. An alert ends at half of its threshold, so that it does not begin again at once. */
export function judgeQueues(
  alerts: Alerts,
  appId: string,
  queues: { queue: string; messages: number }[],
): void {
  const longest = queues.reduce((one, other) => (other.messages > one.messages ? other : one), {
    queue: '',
    messages: 0,
  });
  for (const alert of alerts.list(appId)) {
    const { messages } = longest;
    if (messages <= alert.queue_backlog / 2)
      alerts.end(alert, 'queue_backlog', 'queue.normal', 'The queues of the app are short again.');
    else if (messages > alert.queue_backlog) {
      const message = `${messages} messages wait in the queue ${longest.queue}, more than ${alert.queue_backlog}.`;
      alerts.begin(alert, { kind: 'queue_backlog', type: 'queue.backlog', message, details: longest });
    }
  }
}
