// Calculates with points in time, in whole seconds since 1970, in any time zone.
import type { Unit } from './parser.ts';

const DAY_S = 86_400;
const SECONDS: Partial<Record<Unit, number>> = {
  second: 1,
  minute: 60,
  hour: 3_600,
  day: DAY_S,
  week: 7 * DAY_S,
};
const MONTHS: Partial<Record<Unit, number>> = { month: 1, quarter: 3, year: 12 };
/** 1970-01-05, a Monday. */
const FIRST_MONDAY_S = 4 * DAY_S;
/** Length of the intervals for which offsets are cached, in s. Zones now change their offsets only at multiples of it. */
const OFFSET_S = 900;
const MOST_OFFSETS = 100_000;
/** Limit of times, before and after 1970, that a `Date` can have in every zone, in s. */
const LAST_S = 8.64e12 - 2 * DAY_S;

export const UTC = 'Etc/UTC';

interface Zone {
  format: Intl.DateTimeFormat;
  offsets: Map<number, number>;
}
const zones = new Map<string, Zone>();

export function isZone(name: string): boolean {
  try {
    zoneOf(name);
    return true;
  } catch {
    return false;
  }
}

function zoneOf(name: string): Zone {
  let zone = zones.get(name);
  if (zone === undefined) {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    zone = { format, offsets: new Map() };
    zones.set(name, zone);
  }
  return zone;
}

/** Returns the seconds that a zone is ahead of UTC at a time. */
function offsetAt(seconds: number, zone: string): number {
  if (zone === UTC || !(Math.abs(seconds) < LAST_S)) return 0;
  const { format, offsets } = zoneOf(zone);
  const start = Math.floor(seconds / OFFSET_S) * OFFSET_S;
  const known = offsets.get(start);
  if (known !== undefined) return known;
  const part = Object.fromEntries(
    format.formatToParts(start * 1_000).map(({ type, value }) => [type, Number(value)]),
  );
  const local =
    Date.UTC(part.year!, part.month! - 1, part.day!, part.hour!, part.minute!, part.second!) / 1_000;
  if (offsets.size >= MOST_OFFSETS) offsets.clear();
  offsets.set(start, local - start);
  return local - start;
}

/** Returns a time as a `Date` whose UTC fields are those of the zone. */
export function localDate(seconds: number, zone: string): Date {
  return new Date((seconds + offsetAt(seconds, zone)) * 1_000);
}

/**
 * Converts a local time. If it occurs twice, as when daylight saving time ends, returns the first. If the zone skips
 * it, uses the offset before the skip.
 */
function fromLocal(local: number, zone: string): number {
  // Uses the offset before any change near the local time: no zone is a day ahead of UTC.
  const before = local - offsetAt(local - DAY_S, zone);
  const after = local - offsetAt(before, zone);
  return offsetAt(after, zone) === local - after ? after : before;
}

/** Returns the start of the interval that contains a time. A week starts on Monday. */
export function startOf(seconds: number, count: number, unit: Unit, zone: string): number {
  const local = seconds + offsetAt(seconds, zone);
  const months = MONTHS[unit];
  if (months === undefined) {
    const step = SECONDS[unit]! * count;
    const first = unit === 'week' ? FIRST_MONDAY_S : 0;
    const start = Math.floor((local - first) / step) * step + first;
    const offset = local - seconds;
    // An hour that occurs twice counts as two intervals. The day that contains it is still one interval.
    if (SECONDS[unit]! < DAY_S && offsetAt(start - offset, zone) === offset) return start - offset;
    return fromLocal(start, zone);
  }
  const date = new Date(local * 1_000);
  const step = months * count;
  const month = Math.floor((date.getUTCFullYear() * 12 + date.getUTCMonth()) / step) * step;
  return fromLocal(Date.UTC(Math.floor(month / 12), month % 12) / 1_000, zone);
}

/**
 * Adds an interval. From a day on, an interval keeps the local time. A day that the month does not have becomes the month's
 * last day.
 */
export function add(seconds: number, count: number, unit: Unit, zone: string): number {
  const months = MONTHS[unit];
  if (months === undefined) {
    const moved = seconds + SECONDS[unit]! * count;
    return SECONDS[unit]! < DAY_S ? moved : fromLocal(moved + offsetAt(seconds, zone), zone);
  }
  const date = localDate(seconds, zone);
  const day = date.getUTCDate();
  date.setUTCMonth(date.getUTCMonth() + months * count, 1);
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, last));
  return fromLocal(date.getTime() / 1_000, zone);
}

/** Parses `YYYY-MM-DD`, with or without a time, or seconds since 1970. NaN for another text, or for four digits (a year). */
export function parseTime(text: string, zone: string): number {
  if (/^\d{1,12}$/.test(text) && text.length !== 4) return Number(text);
  const found = /^(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.\d{1,9})?Z?)?$/.exec(text);
  if (found === null) return Number.NaN;
  return fromLocal(Date.parse(`${found[1]}T${found[2] ?? '00:00:00'}Z`) / 1_000, zone);
}

/** Returns a time as `YYYY-MM-DD hh:mm:ss`. */
export function showTime(seconds: number, zone: string): string {
  if (!(Math.abs(seconds) < LAST_S)) return '1970-01-01 00:00:00';
  return localDate(seconds, zone).toISOString().slice(0, 19).replace('T', ' ');
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const NAMES = 'January February March April May June July August September October November December'.split(
  ' ',
);
const two = (number: number) => String(number).padStart(2, '0');
/** https://clickhouse.com/docs/en/sql-reference/functions/date-time-functions#formatdatetime */
const SPECIFIERS: Record<string, (date: Date) => string> = {
  Y: (date) => String(date.getUTCFullYear()),
  y: (date) => two(date.getUTCFullYear() % 100),
  m: (date) => two(date.getUTCMonth() + 1),
  d: (date) => two(date.getUTCDate()),
  e: (date) => String(date.getUTCDate()).padStart(2),
  j: (date) =>
    String(Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0)) / 86_400_000) + 1).padStart(
      3,
      '0',
    ),
  H: (date) => two(date.getUTCHours()),
  h: (date) => two(date.getUTCHours() % 12 || 12),
  I: (date) => two(date.getUTCHours() % 12 || 12),
  i: (date) => two(date.getUTCMinutes()),
  M: (date) => NAMES[date.getUTCMonth()]!,
  b: (date) => NAMES[date.getUTCMonth()]!.slice(0, 3),
  S: (date) => two(date.getUTCSeconds()),
  s: (date) => two(date.getUTCSeconds()),
  p: (date) => (date.getUTCHours() < 12 ? 'AM' : 'PM'),
  u: (date) => String(date.getUTCDay() || 7),
  w: (date) => String(date.getUTCDay()),
  W: (date) => DAYS[date.getUTCDay()]!,
  a: (date) => DAYS[date.getUTCDay()]!.slice(0, 3),
  F: (date) => date.toISOString().slice(0, 10),
  T: (date) => date.toISOString().slice(11, 19),
  R: (date) => date.toISOString().slice(11, 16),
  n: () => '\n',
  t: () => '\t',
  '%': () => '%',
};

/** Formats a time as ClickHouse's `formatDateTime`. An unknown specifier stays as it is. */
export function formatTime(seconds: number, format: string, zone: string): string {
  if (!(Math.abs(seconds) < LAST_S)) return '';
  const date = localDate(seconds, zone);
  return format.replace(/%(.)/gs, (all, specifier: string) => SPECIFIERS[specifier]?.(date) ?? all);
}
