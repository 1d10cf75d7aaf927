// Formats numbers, sizes, durations and times, in English. The rest of `ui` uses only these functions.

/** Placeholder for a missing value. */
export const NONE = '–';

/** Rounds a number below 999.5 to at most three digits: `0.12`, `1.2`, `12`, `123`. */
function threeDigits(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

/** Formats a count: `7`, `950`, `1.2 k`, `3.4 M`. */
export function count(value: number | null): string {
  if (value === null) return NONE;
  for (const [unit, of] of [
    ['', 1],
    ['\u00a0k', 1e3],
    ['\u00a0M', 1e6],
  ] as const) {
    if (Math.abs(value) < of * 999.5) return threeDigits(value / of) + unit;
  }
  return `${threeDigits(value / 1e9)}\u00a0G`;
}

/** Formats a count with all of its digits: `12 345`. */
export function exactCount(value: number): string {
  return value.toLocaleString('en').replaceAll(',', '\u202f');
}

/** Formats a number with its noun: `1 app`, `3 apps`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${exactCount(value)} ${value === 1 ? one : many}`;
}

/** Formats an amount of US dollars: `$0.04`, `$1,234.50`. */
export function dollars(value: number | null): string {
  return value === null ? NONE : value.toLocaleString('en', { style: 'currency', currency: 'USD' });
}

/** Formats a size in bytes: `512 B`, `1.5 KiB`, `64 MiB`. Units are multiples of 1,024, as in Cellar's settings. */
export function bytes(value: number | null): string {
  if (value === null) return NONE;
  let size = value;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (Math.abs(size) < 999.5) return `${threeDigits(size)}\u00a0${unit}`;
    size /= 1024;
  }
  return `${threeDigits(size)}\u00a0TiB`;
}

/** Formats a duration in ms: `0.4 ms`, `120 ms`, `1.5 s`, `2 min 5 s`, `3 h 20 min`, `4 days`. */
export function duration(ms: number | null): string {
  if (ms === null) return NONE;
  if (ms < 999.5) return `${threeDigits(ms)}\u00a0ms`;
  if (ms < 59_950) return `${threeDigits(ms / 1e3)}\u00a0s`;
  const s = Math.round(ms / 1e3);
  if (s < 3_600) return two(Math.floor(s / 60), 'min', s % 60, 's');
  const min = Math.round(s / 60);
  if (min < 48 * 60) return two(Math.floor(min / 60), 'h', min % 60, 'min');
  return `${Math.round(min / 1440)}\u00a0days`;
}

function two(large: number, unit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}\u00a0${unit}` : `${large}\u00a0${unit} ${small}\u00a0${smallUnit}`;
}

/** Formats a fraction of one: `0 %`, `0.3 %`, `12 %`. */
export function percent(share: number | null): string {
  if (share === null || Number.isNaN(share)) return NONE;
  const value = share * 100;
  if (value > 0 && value < 0.1) return '<\u20090.1\u00a0%';
  return `${Number(value.toFixed(value < 10 ? 1 : 0))}\u00a0%`;
}

/** Formats a change: `+12 %`, `−3 %`, `±0 %`, and `×12` from eleven times on; null without a value to compare with. */
export function change(now: number | null, before: number | null): string | null {
  if (now === null || before === null || before === 0) return null;
  const share = Math.round((now / before - 1) * 100);
  if (share === 0) return '±0\u00a0%';
  if (share > 999) return `×${threeDigits(now / before)}`;
  return `${share > 0 ? '+' : '−'}${Math.abs(share)}\u00a0%`;
}

const SHORT = { hour12: false, hour: '2-digit', minute: '2-digit' } as const;

/** Formats a relative time: `just now`, `3 min ago`, `in 2 h`, `5 days ago`; the date after two weeks. */
export function ago(time: string | number, now = Date.now()): string {
  const at = new Date(time).getTime();
  const ms = Math.abs(now - at);
  if (ms < 9_500) return 'just now';
  if (ms >= 13.5 * DAY_MS) return date(at, now);
  return at <= now ? `${length(ms)} ago` : `in ${length(ms)}`;
}

/** Formats the time since a start: `a moment`, `14 s`, `3 min`, `5 days`. */
export function age(time: string | number, now = Date.now()): string {
  const ms = Math.max(0, now - new Date(time).getTime());
  return ms < 9_500 ? 'a moment' : length(ms);
}

const DAY_MS = 86_400_000;

/** Formats a duration in one unit. */
function length(ms: number): string {
  const s = Math.round(ms / 1e3);
  if (s < 60) return `${s} s`;
  if (s < 3_570) return `${Math.round(s / 60)} min`;
  if (s < 84_600) return `${Math.round(s / 3_600)} h`;
  const days = Math.round(s / 86_400);
  return days === 1 ? '1 day' : `${days} days`;
}

/** Formats a date: `12 Nov`, with the year when it is not this year. */
export function date(time: string | number, now = Date.now()): string {
  const at = new Date(time);
  const isThisYear = at.getFullYear() === new Date(now).getFullYear();
  const year = isThisYear ? {} : ({ year: 'numeric' } as const);
  return at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', ...year });
}

/** Formats a time to the second, with the time zone: `Sun 22 Nov 2026, 07:03:21 CET`. */
export function exactTime(time: string | number): string {
  return new Date(time).toLocaleString('en-GB', {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    ...SHORT,
    second: '2-digit',
    timeZoneName: 'short',
  });
}

/** Created once, on first use: a log has many times, and creating a formatter is slower than using it. */
let clockFormat: Intl.DateTimeFormat | null = null;

/** Formats the time of day: `07:03:21`, optionally with milliseconds. */
export function clock(time: string | number, { ms = false } = {}): string {
  const at = new Date(time);
  clockFormat ??= new Intl.DateTimeFormat('en-GB', { ...SHORT, second: '2-digit' });
  const said = clockFormat.format(at);
  return ms ? `${said}.${String(at.getMilliseconds()).padStart(3, '0')}` : said;
}

let dayFormat: Intl.DateTimeFormat | null = null;

/** Formats the day and the time of day: `27 Nov 07:03:21`, optionally with milliseconds. For lines of a log. */
export function dayAndClock(time: string | number, options: { ms?: boolean } = {}): string {
  dayFormat ??= new Intl.DateTimeFormat('en-GB', { day: '2-digit', month: 'short' });
  return `${dayFormat.format(new Date(time))} ${clock(time, options)}`;
}

export function shortSha(sha: string): string {
  return sha.slice(0, 7);
}

export function firstLine(text: string): string {
  return text.split('\n', 1)[0]!.trim();
}

/** Returns the name of a git author: `Ada Lovelace` for `Ada Lovelace <ada@example.com>`. */
export function person(author: string): string {
  return author.replace(/\s*<[^<>]*>$/, '') || author;
}
