// The kinds of events that alerts report.

/**
 * `disk` is about this machine's disk, `certificate` about the app's domains, `snapshot` about damaged snapshots, `bucket` about
 * the bucket of this Cellar, `host` about its other hosts.
 */
export const ALERT_KINDS = [
  'error',
  'error_rate',
  'crash',
  'deploy',
  'disk',
  'certificate',
  'snapshot',
  'bucket',
  'host',
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];
