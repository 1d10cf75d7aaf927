// The kinds of events that alerts report, and the thresholds of some.

/**
 * `disk` is about this machine's disk, `certificate` about the app's domains, `snapshot` about damaged and failed snapshots,
 * `bucket` about the bucket of this Cellar, `host` about its other hosts.
 */
export const ALERT_KINDS = [
  'error',
  'error_rate',
  'crash',
  'deploy',
  'memory',
  'cpu',
  'latency',
  'no_traffic',
  'queue_backlog',
  'disk',
  'certificate',
  'snapshot',
  'bucket',
  'host',
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** Default kinds of an alert. Without `no_traffic`, because a quiet app is seldom faulty. */
export const DEFAULT_KINDS: readonly AlertKind[] = ALERT_KINDS.filter((kind) => kind !== 'no_traffic');

/** A whole number with which an alert compares a figure. */
export interface Threshold {
  kinds: readonly AlertKind[];
  least: number;
  most: number;
  initial: number;
  /** A description of the threshold for people. */
  meaning: string;
}

/** The thresholds of an alert, by their fields. */
export const ALERT_THRESHOLDS = {
  error_rate: {
    kinds: ['error_rate'],
    least: 1,
    most: 100,
    initial: 5,
    meaning: 'Percentage of requests that failed in the last five minutes',
  },
  memory_percent: {
    kinds: ['memory'],
    least: 1,
    most: 100,
    initial: 90,
    meaning: 'Memory of the app, in percent of its memory limit',
  },
  cpu_percent: {
    kinds: ['cpu'],
    least: 1,
    most: 6_400,
    initial: 80,
    meaning: 'Processor time of the app, in percent of one processor',
  },
  latency_ms: {
    kinds: ['latency'],
    least: 1,
    most: 600_000,
    initial: 1_000,
    meaning: 'Latency that 95 % of the requests stay below, in milliseconds',
  },
  for_minutes: {
    kinds: ['memory', 'cpu', 'latency'],
    least: 1,
    most: 30,
    initial: 5,
    meaning: 'Minutes for which memory, processor time or latency has to stay above its threshold',
  },
  no_traffic_minutes: {
    kinds: ['no_traffic'],
    least: 5,
    most: 10_080,
    initial: 60,
    meaning: 'Minutes without any request',
  },
  queue_backlog: {
    kinds: ['queue_backlog'],
    least: 1,
    most: 10_000_000,
    initial: 1_000,
    meaning: 'Number of messages that wait in one queue',
  },
} as const satisfies Record<string, Threshold>;
export type ThresholdName = keyof typeof ALERT_THRESHOLDS;
export const THRESHOLD_NAMES = Object.keys(ALERT_THRESHOLDS) as ThresholdName[];

/** Default thresholds of an alert. */
export const INITIAL_THRESHOLDS = Object.fromEntries(
  THRESHOLD_NAMES.map((name) => [name, ALERT_THRESHOLDS[name].initial]),
) as Record<ThresholdName, number>;
