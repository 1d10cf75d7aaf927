// Functions of times: https://developers.cloudflare.com/analytics/analytics-engine/sql-reference/date-time-functions
import { type Called, check, type Definition, type Expression, literal, of } from './expression.ts';
import type { Unit } from './parser.ts';
import { formatTime, isZone, localDate, parseTime, showTime, startOf, UTC } from './times.ts';
import { SqlError } from './tokens.ts';
import { isTime, STRING, type Type, UINT8, UINT32 } from './types.ts';

const DATE: Type = { name: 'Date' };

/** Returns the zone that a call names, or else the zone of its time. */
function zoneOf({ values }: Called, place: number): string {
  const given = values[place];
  if (given === undefined) return values[0]?.type.zone ?? UTC;
  const zone = literal(given, 'the time zone');
  if (!isZone(zone)) throw new SqlError(`there is no time zone ${zone}`, given.at);
  return zone;
}

/** Converts a text or a number to a time. An invalid text gives 0. @throws {SqlError} for an invalid literal */
export function toTime({ type, run, constant, at }: Expression, zone: string): Expression {
  const own: Type = { name: 'DateTime', zone };
  const wrong = (text: string) =>
    new SqlError(`${JSON.stringify(text.slice(0, 50))} is not a time such as '2026-01-31 12:00:00'`, at);
  if (type.name !== 'String') return { type: own, at, run: (row) => Math.trunc(run(row) as number) };
  if (constant === undefined)
    return { type: own, at, run: (row) => parseTime(run(row) as string, zone) || 0 };
  const time = parseTime(constant as string, zone);
  if (Number.isNaN(time)) throw wrong(constant as string);
  return { type: own, at, constant: time, run: () => time };
}

function start(unit: Unit, count = 1): Definition {
  return (called) => {
    check(called, 't|s');
    const zone = zoneOf(called, 1);
    const time = called.values[0]!;
    const type: Type = { name: 'DateTime', zone };
    return { type, at: called.at, run: (row) => startOf(time.run(row) as number, count, unit, zone) };
  };
}

function field(read: (date: Date) => number, type = UINT8): Definition {
  return (called) => {
    check(called, 't|s');
    const zone = zoneOf(called, 1);
    const time = called.values[0]!;
    return { type, at: called.at, run: (row) => read(localDate(time.run(row) as number, zone)) };
  };
}

const toStartOfInterval: Definition = (called) => {
  check(called, 'ti|s');
  const zone = zoneOf(called, 2);
  const [time, by] = called.values;
  const { count, unit } = by!.interval!;
  if (count === 0) throw new SqlError('the interval is empty', by!.at);
  const type: Type = { name: 'DateTime', zone };
  return { type, at: called.at, run: (row) => startOf(time!.run(row) as number, count, unit, zone) };
};

const toDateTime: Definition = (called) => {
  check(called, 'a|s');
  return { ...toTime(called.values[0]!, zoneOf(called, 1)), at: called.at };
};

const toDate: Definition = (called) => {
  check(called, 'a|s');
  const zone = zoneOf(called, 1);
  const time = toTime(called.values[0]!, zone);
  return {
    type: DATE,
    at: called.at,
    run: (row) => Date.parse(showTime(time.run(row) as number, zone).slice(0, 10)) / 1_000,
  };
};

const formatDateTime: Definition = (called) => {
  check(called, 'ts|s');
  const zone = zoneOf(called, 2);
  const format = literal(called.values[1]!, 'the format');
  const time = called.values[0]!;
  return { type: STRING, at: called.at, run: (row) => formatTime(time.run(row) as number, format, zone) };
};

const toText: Definition = (called) => {
  check(called, 'a');
  const { type, run } = called.values[0]!;
  if (!isTime(type)) return { type: STRING, at: called.at, run: (row) => String(run(row)) };
  const length = type.name === 'Date' ? 10 : undefined;
  const zone = type.zone ?? UTC;
  return { type: STRING, at: called.at, run: (row) => showTime(run(row) as number, zone).slice(0, length) };
};

/** Defines a function of the time when the query begins. It returns the same time for all rows. */
function now(type: Type, unit: Unit): Definition {
  return (called) => {
    check(called, '|s');
    const zone = called.values[0] === undefined ? UTC : zoneOf(called, 0);
    const time = startOf(Math.floor(Date.now() / 1_000), 1, unit, zone);
    return { type: { ...type, zone }, at: called.at, constant: time, run: () => time };
  };
}

/** Functions of times, by their names in lower case. */
export const timeFunctions: Record<string, Definition> = {
  now: now({ name: 'DateTime' }, 'second'),
  today: now(DATE, 'day'),
  todatetime: toDateTime,
  todate: toDate,
  tostring: toText,
  formatdatetime: formatDateTime,
  tostartofinterval: toStartOfInterval,
  tounixtimestamp: of('t', UINT32, (time) => time),
  tostartofyear: start('year'),
  tostartofquarter: start('quarter'),
  tostartofmonth: start('month'),
  tostartofweek: start('week'),
  tomonday: start('week'),
  tostartofday: start('day'),
  tostartofhour: start('hour'),
  tostartoffifteenminutes: start('minute', 15),
  tostartoftenminutes: start('minute', 10),
  tostartoffiveminutes: start('minute', 5),
  tostartofminute: start('minute'),
  toyear: field((date) => date.getUTCFullYear(), UINT32),
  toquarter: field((date) => Math.floor(date.getUTCMonth() / 3) + 1),
  tomonth: field((date) => date.getUTCMonth() + 1),
  todayofmonth: field((date) => date.getUTCDate()),
  todayofweek: field((date) => date.getUTCDay() || 7),
  tohour: field((date) => date.getUTCHours()),
  tominute: field((date) => date.getUTCMinutes()),
  tosecond: field((date) => date.getUTCSeconds()),
  toyyyymm: field((date) => date.getUTCFullYear() * 100 + date.getUTCMonth() + 1, UINT32),
};
