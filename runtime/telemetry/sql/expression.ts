// Compiled expressions of a query, and the check of a function's arguments.
import type { Unit } from './parser.ts';
import { SqlError } from './tokens.ts';
import { isNumber, isTime, type Type, type Value } from './types.ts';

/** One row: of a dataset or subquery, or of a group (its keys, then its aggregates). */
export type Row = readonly Value[];

export interface Expression {
  type: Type;
  run: (row: Row) => Value;
  /** Set when the value is the same for all rows, as for a literal or `now()`. */
  constant?: Value;
  interval?: { count: number; unit: Unit };
  at: number;
}

/** A call of a function. */
export interface Called {
  name: string;
  values: Expression[];
  at: number;
}

export type Definition = (called: Called) => Expression;

const KINDS: Record<string, { is: (type: Type) => boolean; name: string }> = {
  n: { is: isNumber, name: 'a number' },
  s: { is: ({ name }) => name === 'String', name: 'a text' },
  t: { is: isTime, name: 'a date or time' },
  i: { is: ({ name }) => name === 'Interval', name: 'an INTERVAL' },
  a: { is: ({ name }) => name !== 'Interval', name: 'a value' },
};

/** Returns the numbers of arguments that a function takes, for an error: "2", "1 to 3" or "at least 1". */
function countText(least: number, most: number): string {
  if (most === least) return `${least}`;
  return most === Number.POSITIVE_INFINITY ? `at least ${least}` : `${least} to ${most}`;
}

/**
 * Checks the arguments of a function.
 * @param kinds a letter of `KINDS` for each argument. Arguments after `|` are optional. A `*` at the end: the last argument
 *   may be repeated
 * @throws {SqlError} for a wrong number of arguments, or one of another kind
 */
export function check({ name, values, at }: Called, kinds: string): void {
  const [needed = '', optional = ''] = kinds.replace('*', '').split('|');
  const all = needed + optional;
  const most = kinds.endsWith('*') ? Number.POSITIVE_INFINITY : all.length;
  if (values.length < needed.length || values.length > most) {
    const count = countText(needed.length, most);
    throw new SqlError(`${name}() takes ${count} arguments, not ${values.length}`, at);
  }
  values.forEach((value, i) => {
    const kind = KINDS[all[Math.min(i, all.length - 1)]!]!;
    if (!kind.is(value.type))
      throw new SqlError(
        `${name}() needs ${kind.name} as argument ${i + 1}, not ${value.type.name}`,
        value.at,
      );
  });
}

/** Defines a function by its arguments and result. @param run called for each row with the values of the arguments */
export function of(
  kinds: string,
  type: Type | ((types: Type[]) => Type),
  // biome-ignore lint/suspicious/noExplicitAny: `kinds` gives the types of its arguments
  run: (...values: any[]) => Value,
): Definition {
  return (called) => {
    check(called, kinds);
    const { values, at } = called;
    const own = typeof type === 'function' ? type(values.map((value) => value.type)) : type;
    const [a, b] = values;
    if (values.length === 1) return { type: own, at, run: (row) => run(a!.run(row)) };
    if (values.length === 2) return { type: own, at, run: (row) => run(a!.run(row), b!.run(row)) };
    return { type: own, at, run: (row) => run(...values.map((value) => value.run(row))) };
  };
}

/** Returns the text of a literal. @throws {SqlError} for another expression */
export function literal({ constant, at }: Expression, what: string): string {
  if (typeof constant === 'string') return constant;
  throw new SqlError(`${what} must be a literal text`, at);
}
