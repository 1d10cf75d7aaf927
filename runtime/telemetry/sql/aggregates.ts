// Aggregate functions: https://developers.cloudflare.com/analytics/analytics-engine/sql-reference/aggregate-functions
import type { Budget } from './budget.ts';
import { type Called, check, type Expression, type Row } from './expression.ts';
import { SqlError } from './tokens.ts';
import { arrayOf, FLOAT64, type Type, UINT64, type Value, wide } from './types.ts';

/** Maximum entries of `topK`. */
const TOP_MOST = 1_000;

export interface Accumulator {
  add(row: Row): void;
  result(): Value;
}

export interface Aggregate {
  type: Type;
  /** Returns the accumulator of a new group. */
  start: () => Accumulator;
}

interface AggregateCall extends Called {
  parameters: Expression[];
  isDistinct: boolean;
  budget: Budget;
}

type AggregateDefinition = (called: AggregateCall) => Aggregate;

/**
 * Defines an aggregate by its accumulators. With DISTINCT, an accumulator gets only the first row with each value.
 * @param kinds the kinds of the arguments, as in `check`
 */
function folded(
  kinds: string,
  type: (values: Expression[]) => Type,
  make: (values: Expression[], budget: Budget) => Accumulator,
): AggregateDefinition {
  return (called) => {
    check(called, kinds);
    const { values, isDistinct, budget } = called;
    const start = () => make(values, budget);
    return {
      type: type(values),
      start: isDistinct ? () => distinct(values[0]!, start(), budget) : start,
    };
  };
}

/** Passes on only the first row with each value. */
function distinct(value: Expression, inner: Accumulator, budget: Budget): Accumulator {
  const seen = new Set<Value>();
  return {
    add: (row) => {
      const own = value.run(row);
      if (seen.has(own)) return;
      seen.add(own);
      budget.take(own);
      inner.add(row);
    },
    result: () => inner.result(),
  };
}

const run = (value: Expression, row: Row) => value.run(row) as number;

function counted(holds: (row: Row) => boolean): Accumulator {
  let count = 0;
  return { add: (row) => (count += holds(row) ? 1 : 0), result: () => count };
}

function summed(value: Expression, holds: (row: Row) => boolean = () => true): Accumulator {
  let sum = 0;
  return { add: (row) => (sum += holds(row) ? run(value, row) : 0), result: () => sum };
}

/** Returns the mean; NaN without rows. */
function averaged(value: Expression, holds: (row: Row) => boolean = () => true): Accumulator {
  let sum = 0;
  let count = 0;
  return {
    add: (row) => {
      if (!holds(row)) return;
      sum += run(value, row);
      count++;
    },
    result: () => sum / count,
  };
}

/** Keeps `value` of the first row. A later row replaces it if its `by` wins over that of the kept row. */
function best(value: Expression, by: Expression, wins: (a: Value, b: Value) => boolean): Accumulator {
  let kept: Value = value.type.item ? [] : value.type.name === 'String' ? '' : 0;
  let most: Value | null = null;
  return {
    add: (row) => {
      const own = by.run(row);
      if (most !== null && !wins(own, most)) return;
      most = own;
      kept = value.run(row);
    },
    result: () => kept,
  };
}

const first = ([value]: Expression[]) => value!.type;

function bestBy(wins: (a: Value, b: Value) => boolean): AggregateDefinition {
  return folded('aa', first, ([value, by]) => best(value!, by!, wins));
}

function bestOf(wins: (a: Value, b: Value) => boolean): AggregateDefinition {
  return folded('a', first, ([value]) => best(value!, value!, wins));
}

/** Returns the smallest value at which the cumulative weight reaches the share `level` of all weights. */
function quantile(level: number, value: Expression, weight: Expression, budget: Budget): Accumulator {
  const weights = new Map<number, number>();
  return {
    add: (row) => {
      const own = run(value, row);
      const before = weights.get(own);
      if (before === undefined) budget.take(own);
      weights.set(own, (before ?? 0) + run(weight, row));
    },
    result: () => {
      const sorted = [...weights].sort(([a], [b]) => a - b);
      const all = sorted.reduce((sum, [, own]) => sum + own, 0);
      let reached = 0;
      for (const [own, by] of sorted) {
        reached += by;
        if (reached >= level * all) return own;
      }
      return Number.NaN;
    },
  };
}

function levelOf(given: Expression | undefined, at: number): number {
  const level = given?.constant;
  if (typeof level === 'number' && level >= 0 && level <= 1) return level;
  throw new SqlError('the level of a quantile must be a number from 0 to 1', given?.at ?? at);
}

/** For calls such as `quantileExactWeighted(0.5)(double1, _sample_interval)`. */
const quantileOfParameter: AggregateDefinition = (called) => {
  check(called, 'nn');
  const level = levelOf(called.parameters[0], called.at);
  const [value, weight] = called.values;
  return { type: value!.type, start: () => quantile(level, value!, weight!, called.budget) };
};

/** For calls such as `quantileWeighted(0.5, double1, _sample_interval)`. */
const quantileOfValues: AggregateDefinition = (called) => {
  if (called.parameters.length > 0) return quantileOfParameter(called);
  check(called, 'nnn');
  const level = levelOf(called.values[0], called.at);
  const [, value, weight] = called.values;
  return { type: value!.type, start: () => quantile(level, value!, weight!, called.budget) };
};

function top(kinds: 'a' | 'an'): AggregateDefinition {
  return (called) => {
    check(called, kinds);
    const { values, parameters, budget, at } = called;
    const count = parameters[0]?.constant ?? 10;
    if (typeof count !== 'number' || !(count >= 1 && count <= TOP_MOST))
      throw new SqlError(`${called.name} keeps 1 to ${TOP_MOST} values`, parameters[0]?.at ?? at);
    const [value, weight] = values;
    const type = arrayOf(value!.type);
    if (type === null) throw new SqlError(`${called.name}() cannot count arrays`, value!.at);
    const start = () => {
      const weights = new Map<number | string, number>();
      return {
        add: (row: Row) => {
          const own = value!.run(row) as number | string;
          const before = weights.get(own);
          if (before === undefined) budget.take(own);
          weights.set(own, (before ?? 0) + (weight ? run(weight, row) : 1));
        },
        result: () =>
          [...weights]
            .sort(([, a], [, b]) => b - a)
            .slice(0, count)
            .map(([own]) => own),
      };
    };
    return { type, start };
  };
}

/** Aggregate functions, by their names in lower case. */
export const aggregates: Record<string, AggregateDefinition> = {
  count: folded(
    '|a',
    () => UINT64,
    () => counted(() => true),
  ),
  countif: folded(
    'n',
    () => UINT64,
    ([holds]) => counted((row) => holds!.run(row) !== 0),
  ),
  sum: folded(
    'n',
    ([value]) => wide(value!.type),
    ([value]) => summed(value!),
  ),
  sumif: folded(
    'nn',
    ([value]) => wide(value!.type),
    ([value, holds]) => summed(value!, (row) => holds!.run(row) !== 0),
  ),
  avg: folded(
    'n',
    () => FLOAT64,
    ([value]) => averaged(value!),
  ),
  avgif: folded(
    'nn',
    () => FLOAT64,
    ([value, holds]) => averaged(value!, (row) => holds!.run(row) !== 0),
  ),
  min: bestOf((a, b) => a < b),
  max: bestOf((a, b) => a > b),
  any: bestOf(() => false),
  argmin: bestBy((a, b) => a < b),
  argmax: bestBy((a, b) => a > b),
  first_value: bestOf(() => false),
  last_value: bestOf(() => true),
  uniq: (called) => {
    check(called, 'a');
    return aggregates.count!({ ...called, isDistinct: true });
  },
  quantileexactweighted: quantileOfParameter,
  quantileweighted: quantileOfValues,
  topk: top('a'),
  topkweighted: top('an'),
};
