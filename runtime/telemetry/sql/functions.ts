// Functions and operators of single rows.
import { check, type Definition, type Expression, literal, of } from './expression.ts';
import { timeFunctions, toTime } from './time-functions.ts';
import { add, UTC } from './times.ts';
import { SqlError } from './tokens.ts';
import {
  commonType,
  FLOAT64,
  INT64,
  isNumber,
  isTime,
  STRING,
  type Type,
  UINT8,
  UINT32,
  UINT64,
  type Value,
  wide,
} from './types.ts';

/** Longest text that a function makes, in characters. */
const TEXT_LENGTH = 1024 * 1024;

const truth = (holds: boolean) => (holds ? 1 : 0);
const number = (run: (...values: number[]) => number, kinds = 'n') => of(kinds, FLOAT64, run);
const whole = ([a, b]: Type[]) => wide(commonType(a!, b ?? a!)!);
const same = ([a]: Type[]) => a!;

/** Joins texts. Checks the length first, because the parts together may be many times longer than the limit. */
function joined(parts: readonly string[]): string {
  let length = 0;
  for (const part of parts) {
    length += part.length;
    checkLength(length);
  }
  return parts.join('');
}

/** @throws {SqlError} if a text would have more characters than `TEXT_LENGTH` */
function checkLength(length: number): void {
  if (length > TEXT_LENGTH) throw new SqlError('a text gets longer than 1 MiB', null);
}

/** Makes both sides of a comparison comparable: a text compared with a time becomes a time. */
function comparable([a, b]: Expression[], name: string, at: number): [Expression, Expression] {
  if (isTime(a!.type) && b!.type.name === 'String') return [a!, toTime(b!, a!.type.zone ?? UTC)];
  if (isTime(b!.type) && a!.type.name === 'String') return [toTime(a!, b!.type.zone ?? UTC), b!];
  const isFine =
    a!.type.name === b!.type.name || [a!, b!].every(({ type }) => isNumber(type) || isTime(type));
  if (isFine) return [a!, b!];
  throw new SqlError(`${name}() cannot compare ${a!.type.name} with ${b!.type.name}`, at);
}

function comparison(holds: (a: Value, b: Value) => boolean): Definition {
  return (called) => {
    check(called, 'aa');
    const [a, b] = comparable(called.values, called.name, called.at);
    return { type: UINT8, at: called.at, run: (row) => truth(holds(a.run(row), b.run(row))) };
  };
}

/** Defines a sum or difference, also of a time and an interval. */
function moved(sign: 1 | -1, plain: Definition): Definition {
  return (called) => {
    const { values, at } = called;
    const [time, by] = values[1]?.interval ? values : [values[1], values[0]];
    const interval = by?.interval;
    if (interval === undefined || (sign === -1 && by === values[0])) return plain(called);
    check({ ...called, values: [time!] }, 't');
    const { zone = UTC } = time!.type;
    const count = sign * interval.count;
    const type: Type = { name: 'DateTime', zone };
    return { type, at, run: (row) => add(time!.run(row) as number, count, interval.unit, zone) };
  };
}

const minus = of(
  'aa',
  ([a, b]) => (isNumber(a!) && isNumber(b!) ? signed(a!, b!) : INT64),
  (a, b) => a - b,
);
const signed = (a: Type, b: Type): Type => (commonType(a, b)!.name === 'Float64' ? FLOAT64 : INT64);

/** Adds a check to `+` or `-`: all arguments must be numbers or times. */
function ofNumbers(plain: Definition): Definition {
  return (called) => {
    const wrong = called.values.find(({ type }) => !isNumber(type) && !isTime(type));
    if (wrong) throw new SqlError(`${called.name}() needs numbers, not ${wrong.type.name}`, wrong.at);
    return plain(called);
  };
}

const conditional: Definition = (called) => {
  check(called, 'naa');
  const [condition, yes, no] = called.values as [Expression, Expression, Expression];
  const type = commonType(yes.type, no.type);
  if (type === null)
    throw new SqlError(`if() has values of the types ${yes.type.name} and ${no.type.name}`, called.at);
  return { type, at: called.at, run: (row) => (condition.run(row) ? yes : no).run(row) };
};

const within: Definition = (called) => {
  check(called, 'aa*');
  const [value, ...others] = called.values;
  const pairs = others.map((other) => comparable([value!, other], called.name, called.at)[1]);
  if (pairs.every(({ constant }) => constant !== undefined)) {
    const set = new Set(pairs.map(({ constant }) => constant));
    return { type: UINT8, at: called.at, run: (row) => truth(set.has(value!.run(row))) };
  }
  return {
    type: UINT8,
    at: called.at,
    run: (row) => {
      const own = value!.run(row);
      return truth(pairs.some((each) => each.run(row) === own));
    },
  };
};

function all(holds: (values: Expression[], row: readonly Value[]) => boolean): Definition {
  return (called) => {
    check(called, 'n*');
    return { type: UINT8, at: called.at, run: (row) => truth(holds(called.values, row)) };
  };
}

function like(isCaseless: boolean): Definition {
  return (called) => {
    check(called, 'ss');
    const [value, pattern] = called.values as [Expression, Expression];
    const text = literal(pattern, 'the pattern');
    const parts = patternOf(isCaseless ? text.toLowerCase() : text);
    return {
      type: UINT8,
      at: called.at,
      run: (row) => {
        const own = value.run(row) as string;
        return truth(matches(isCaseless ? own.toLowerCase() : own, parts));
      },
    };
  };
}

const ANY_TEXT = Symbol('%');
const ANY_CHARACTER = Symbol('_');
type Part = string | typeof ANY_TEXT | typeof ANY_CHARACTER;

function patternOf(text: string): Part[] {
  return [...text.matchAll(/\\(.)|(.)/gsu)].map(([, escaped, plain]) =>
    escaped !== undefined ? escaped : plain === '%' ? ANY_TEXT : plain === '_' ? ANY_CHARACTER : plain!,
  );
}

/** Matches without recursion: at a mismatch, only the last `%` takes one more character. */
function matches(text: string, parts: Part[]): boolean {
  const chars = [...text];
  let at = 0;
  let part = 0;
  let retryPart = -1;
  let retryAt = 0;
  while (at < chars.length) {
    const wanted = parts[part];
    if (wanted === ANY_TEXT) {
      retryPart = ++part;
      retryAt = at;
    } else if (wanted === ANY_CHARACTER || wanted === chars[at]) {
      part++;
      at++;
    } else if (retryPart !== -1) {
      part = retryPart;
      at = ++retryAt;
    } else return false;
  }
  while (parts[part] === ANY_TEXT) part++;
  return part === parts.length;
}

function text(value: Value): string {
  return Array.isArray(value) ? JSON.stringify(value) : String(value);
}

const toWhole = (type: Type) => of('a', type, (value) => Math.trunc(Number(value)) || 0);
const concat = of('aa*', STRING, (...values) => joined(values.map(text)));
/** Returns the length of a text in code points. */
function lengthOf(value: string): number {
  let length = 0;
  for (const _ of value) length++;
  return length;
}

const substring = of('sn|n', STRING, (value: string, from: number, length?: number) => {
  const points = [...value];
  const start = from > 0 ? from - 1 : Math.max(0, points.length + from);
  return points.slice(start, length === undefined ? undefined : start + length).join('');
});
const lowerUtf8 = of('s', STRING, (value) => value.toLowerCase());
const upperUtf8 = of('s', STRING, (value) => value.toUpperCase());

/** Returns the bytes of a text or number for `hex` and `bin`: a whole number has no leading zeros, as in ClickHouse. */
function bytesOf(value: number | string, { name }: Type): Buffer {
  if (typeof value === 'string') return Buffer.from(value);
  if (name === 'Float64') {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return bytes;
  }
  const digits = BigInt.asUintN(64, BigInt(Number.isFinite(value) ? Math.trunc(value) : 0)).toString(16);
  return Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex');
}

/** Defines a function that writes the bytes of its argument as digits. @param width digits of a byte */
function encoded(radix: number, width: number): Definition {
  return (called) => {
    check(called, 'a');
    const { at, name } = called;
    const [value] = called.values;
    const { type } = value!;
    if (!isNumber(type) && type.name !== 'String')
      throw new SqlError(`${name}() needs a number or a text, not ${type.name}`, value!.at);
    const digits = (byte: number) => byte.toString(radix).toUpperCase().padStart(width, '0');
    const run = (row: readonly Value[]) => {
      const bytes = bytesOf(value!.run(row) as number | string, type);
      checkLength(bytes.length * width);
      return Array.from(bytes, digits).join('');
    };
    return { type: STRING, at, run };
  };
}

const digits = (places = 0) => 10 ** places;
const rounded = (round: (value: number) => number) =>
  of('n|n', same, (value: number, places?: number) => round(value * digits(places)) / digits(places));

/** Functions and operators, by their names in lower case. */
export const functions: Record<string, Definition> = {
  ...timeFunctions,
  plus: moved(1, ofNumbers(of('aa', whole, (a, b) => a + b))),
  minus: moved(-1, ofNumbers(minus)),
  multiply: of('nn', whole, (a, b) => a * b),
  divide: number((a, b) => a! / b!, 'nn'),
  modulo: of('nn', whole, (a, b) => a % b),
  negate: of(
    'n',
    ([a]) => signed(a!, a!),
    (a) => -a,
  ),
  intdiv: of('nn', same, (a, b) => {
    if (b === 0) throw new SqlError('intDiv() divides by zero', null);
    return Math.trunc(a / b);
  }),
  intdivorzero: of('nn', same, (a, b) => (b === 0 ? 0 : Math.trunc(a / b))),
  equals: comparison((a, b) => a === b),
  notequals: comparison((a, b) => a !== b),
  less: comparison((a, b) => a < b),
  lessorequals: comparison((a, b) => a <= b),
  greater: comparison((a, b) => a > b),
  greaterorequals: comparison((a, b) => a >= b),
  and: all((values, row) => values.every((each) => each.run(row))),
  or: all((values, row) => values.some((each) => each.run(row))),
  not: of('n', UINT8, (value) => truth(!value)),
  in: within,
  like: like(false),
  ilike: like(true),
  if: conditional,
  abs: of('n', same, Math.abs),
  ceil: rounded(Math.ceil),
  ceiling: rounded(Math.ceil),
  floor: rounded(Math.floor),
  round: rounded(Math.round),
  trunc: rounded(Math.trunc),
  sqrt: number(Math.sqrt as (...values: number[]) => number),
  exp: number(Math.exp as (...values: number[]) => number),
  ln: number(Math.log as (...values: number[]) => number),
  log: number(Math.log as (...values: number[]) => number),
  log2: number(Math.log2 as (...values: number[]) => number),
  log10: number(Math.log10 as (...values: number[]) => number),
  pow: number((a, b) => a! ** b!, 'nn'),
  power: number((a, b) => a! ** b!, 'nn'),
  least: of('nn*', whole, Math.min),
  greatest: of('nn*', whole, Math.max),
  length: of('s', UINT64, lengthOf),
  empty: of('s', UINT8, (value) => truth(value === '')),
  notempty: of('s', UINT8, (value) => truth(value !== '')),
  // As on Cloudflare, these two change ASCII letters only.
  lower: of('s', STRING, (value) => value.replace(/[A-Z]+/g, (letters: string) => letters.toLowerCase())),
  upper: of('s', STRING, (value) => value.replace(/[a-z]+/g, (letters: string) => letters.toUpperCase())),
  lowerutf8: lowerUtf8,
  upperutf8: upperUtf8,
  tolower: lowerUtf8,
  toupper: upperUtf8,
  hex: encoded(16, 2),
  bin: encoded(2, 8),
  trim: of('s', STRING, (value) => value.trim()),
  startswith: of('ss', UINT8, (value, start) => truth(value.startsWith(start))),
  endswith: of('ss', UINT8, (value, end) => truth(value.endsWith(end))),
  position: of('ss', UINT64, (value, part) => {
    const found = value.indexOf(part);
    return found === -1 ? 0 : lengthOf(value.slice(0, found)) + 1;
  }),
  substring,
  substr: substring,
  concat,
  format: of('sa*', STRING, (format: string, ...values: Value[]) => {
    let next = 0;
    // Every second part is the text between braces.
    const parts = format.split(/\{(\d*)\}/);
    const texts = values.map(text);
    return joined(
      parts.map((part, i) => (i % 2 === 0 ? part : (texts[part === '' ? next++ : Number(part)] ?? ''))),
    );
  }),
  toint64: toWhole(INT64),
  toint32: toWhole(INT64),
  touint8: toWhole(UINT8),
  touint16: toWhole(UINT32),
  touint32: toWhole(UINT32),
  touint64: toWhole(UINT64),
  tofloat64: of('a', FLOAT64, Number),
  tofloat32: of('a', FLOAT64, Number),
};
