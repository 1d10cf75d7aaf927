// Compiles the expressions of a query to functions of a row.
import { type Aggregate, aggregates } from './aggregates.ts';
import type { Budget } from './budget.ts';
import type { Expression } from './expression.ts';
import { functions } from './functions.ts';
import type { Call, Node, Selected } from './parser.ts';
import { SqlError } from './tokens.ts';
import { type Column, FLOAT64, INT64, STRING, type Type, UINT8, UINT32, UINT64 } from './types.ts';

/** Maximum nodes that one `Aliases` visits. Nested aliases can multiply the nodes of a query. */
const NODES = 10_000;

/** Replaces aliases by their expressions. An alias hides a column of its name, but not in its own expression. */
export class Aliases {
  readonly #nodes: Map<string, Node>;
  readonly #open = new Set<string>();
  #left = NODES;

  constructor(selected: readonly Selected[]) {
    this.#nodes = new Map(selected.filter(({ hasAlias }) => hasAlias).map(({ name, node }) => [name, node]));
  }

  /** Replaces the aliases in a selected expression, except its own alias. @throws {SqlError} as `replace` */
  selected({ node, name, hasAlias }: Selected): Node {
    if (!hasAlias) return this.replace(node);
    this.#open.add(name);
    const replaced = this.replace(node);
    this.#open.delete(name);
    return replaced;
  }

  /** @throws {SqlError} when the expressions get too large */
  replace(node: Node): Node {
    if (--this.#left < 0) throw new SqlError('the query is too large once its aliases are replaced', node.at);
    if (node.kind === 'call') {
      const replaced = (each: Node) => this.replace(each);
      return { ...node, parameters: node.parameters.map(replaced), values: node.values.map(replaced) };
    }
    if (node.kind !== 'name') return node;
    const aliased = this.#nodes.get(node.name);
    if (aliased === undefined || this.#open.has(node.name)) return node;
    this.#open.add(node.name);
    const replaced = this.replace(aliased);
    this.#open.delete(node.name);
    return replaced;
  }
}

export function isAggregate(node: Node): boolean {
  return (
    node.kind === 'call' &&
    (Object.hasOwn(aggregates, node.name) || [...node.values, ...node.parameters].some(isAggregate))
  );
}

/** Returns a text that is equal for nodes that differ only in their positions in the query. */
export function identity(node: Node): string {
  return JSON.stringify(node, (key, value) => (key === 'at' ? undefined : value));
}

/** Compiles an expression of a row of `columns`. @throws {SqlError} for an invalid expression */
export function compile(node: Node, columns: readonly Column[]): Expression {
  if (node.kind === 'name') return column(node, columns);
  if (node.kind !== 'call') return constant(node);
  if (Object.hasOwn(aggregates, node.name))
    throw new SqlError(`${node.name}() is an aggregate, which cannot be used here`, node.at);
  return ordinary(node, (each) => compile(each, columns));
}

function ordinary(node: Call, compiled: (node: Node) => Expression): Expression {
  const { name, at, parameters, isDistinct } = node;
  const definition = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (definition === undefined) throw new SqlError(`there is no function ${name}()`, at);
  if (parameters.length > 0 || isDistinct)
    throw new SqlError(`${name}() takes one list of arguments, without DISTINCT`, at);
  return definition({ name, values: node.values.map(compiled), at });
}

function column({ name, at }: Extract<Node, { kind: 'name' }>, columns: readonly Column[]): Expression {
  const i = columns.findIndex((each) => each.name === name);
  if (i === -1) throw new SqlError(`there is no column ${name}`, at);
  return { type: columns[i]!.type, at, run: (row) => row[i]! };
}

function constant(node: Exclude<Node, Call | { kind: 'name' }>): Expression {
  const { at } = node;
  if (node.kind === 'star') throw new SqlError('* cannot be used here', at);
  if (node.kind === 'interval') {
    const fail = () => {
      throw new SqlError(
        'an INTERVAL can only be added to a time, or be the argument of toStartOfInterval()',
        at,
      );
    };
    return { type: { name: 'Interval' }, at, interval: node, run: fail };
  }
  const { value } = node;
  const type = node.kind === 'text' ? STRING : node.isWhole ? wholeType(node.value) : FLOAT64;
  return { type, at, constant: value, run: () => value };
}

function wholeType(value: number): Type {
  if (value < 0) return INT64;
  return value < 2 ** 8 ? UINT8 : value < 2 ** 32 ? UINT32 : UINT64;
}

/** Compiles expressions of groups, and collects their aggregates. A group's row has the keys, then the aggregates. */
export class GroupCompiler {
  readonly #columns: readonly Column[];
  readonly #keys: { identity: string; type: Type }[];
  readonly #budget: Budget;
  readonly aggregates: Aggregate[] = [];

  constructor(columns: readonly Column[], keys: readonly { node: Node; type: Type }[], budget: Budget) {
    this.#columns = columns;
    this.#keys = keys.map(({ node, type }) => ({ identity: identity(node), type }));
    this.#budget = budget;
  }

  /** @throws {SqlError} also for a column that is neither a key nor in an aggregate */
  compile(node: Node): Expression {
    const { at } = node;
    const own = this.#keys.length === 0 ? null : identity(node);
    const key = this.#keys.findIndex((each) => each.identity === own);
    if (key !== -1) return { type: this.#keys[key]!.type, at, run: (row) => row[key]! };
    if (node.kind === 'name') {
      const { name } = node;
      column(node, this.#columns);
      throw new SqlError(
        `the column ${name} must be in GROUP BY, or in an aggregate such as max(${name})`,
        at,
      );
    }
    if (node.kind !== 'call') return constant(node);
    if (!Object.hasOwn(aggregates, node.name)) return ordinary(node, (each) => this.compile(each));
    const isAll = node.name === 'count' && node.values[0]?.kind === 'star';
    const values = isAll ? [] : node.values.map((each) => compile(each, this.#columns));
    const parameters = node.parameters.map((each) => compile(each, []));
    if (node.isDistinct && values.length !== 1) throw new SqlError('DISTINCT needs one argument', at);
    const { name, isDistinct } = node;
    const aggregate = aggregates[name]!({ name, values, parameters, isDistinct, at, budget: this.#budget });
    const place = this.#keys.length + this.aggregates.push(aggregate) - 1;
    return { type: aggregate.type, at, run: (row) => row[place]! };
  }
}
