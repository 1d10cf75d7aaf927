// Runs a SELECT over rows.
import { Budget } from './budget.ts';
import { Aliases, compile, GroupCompiler, isAggregate } from './compile.ts';
import type { Expression, Row } from './expression.ts';
import type { Node, Select, Selected } from './parser.ts';
import { SqlError } from './tokens.ts';
import type { Column, Value } from './types.ts';

export interface Table {
  columns: readonly Column[];
  rows: Iterable<Row>;
}

export interface Result {
  columns: Column[];
  rows: Value[][];
  /** Number of rows without LIMIT and OFFSET. It can be lower without ORDER BY, because reading stops at the limit. */
  beforeLimit: number;
}

/**
 * Runs a query and its subqueries.
 * @param dataset opens a dataset
 * @throws {SqlError} for an invalid query, or one that needs too much memory
 */
export function select(
  query: Select,
  dataset: (name: string, at: number) => Table,
  budget = new Budget(),
): Result {
  const source = tableOf(query, dataset, budget);
  const selected = query.selected.flatMap((each) => (each.node.kind === 'star' ? every(source) : [each]));
  const aliases = new Aliases(selected);
  // `SELECT max(timestamp) AS timestamp` must not change the meaning of WHERE.
  const rowAliases = new Aliases(selected.filter(({ node }) => !isAggregate(node)));
  const filter = query.where === null ? null : compile(rowAliases.replace(query.where), source.columns);
  const table = {
    columns: source.columns,
    rows: filter === null ? source.rows : filtered(source.rows, filter),
  };
  const nodes = {
    selected: selected.map((each) => aliases.selected(each)),
    keys: query.groupBy.map((node) => aliases.replace(positioned(node, selected))),
    order: query.orderBy.map(({ node }) => aliases.replace(positioned(node, selected))),
    having: query.having === null ? null : aliases.replace(query.having),
  };
  const isGrouped = nodes.keys.length > 0 || nodes.having !== null || nodes.selected.some(isAggregate);
  // A single group needs no order. So ORDER BY sorts its rows, which matters for functions such as `first_value()`.
  const isSingle = isGrouped && nodes.keys.length === 0;
  const rowOrder = isSingle ? query.orderBy.filter((_, i) => !isAggregate(nodes.order[i]!)) : [];
  if (isSingle) {
    const by = nodes.order.filter((node) => !isAggregate(node)).map((node) => compile(node, table.columns));
    if (by.length > 0 && nodes.selected.some(needsOrder))
      table.rows = sorted(table.rows, by, rowOrder, budget);
    nodes.order = nodes.order.filter(isAggregate);
  }
  const { rows, compiled } = isGrouped
    ? grouped(table, nodes.keys, budget)
    : { rows: table.rows, compiled: (node: Node) => compile(node, table.columns) };
  const columns = nodes.selected.map((node) => compiled(node));
  const having = nodes.having === null ? null : compiled(nodes.having);
  const order = nodes.order.map((node) => compiled(node));
  const wrong = columns.find(({ type }) => type.name === 'Interval');
  if (wrong) throw new SqlError('an INTERVAL cannot be selected', wrong.at);
  const kept = projected(having === null ? rows : filtered(rows, having), columns, order, query, budget);
  return {
    columns: columns.map(({ type }, i) => ({ name: selected[i]!.name, type })),
    ...kept,
  };
}

function tableOf({ from }: Select, dataset: (name: string, at: number) => Table, budget: Budget): Table {
  if (from === null) return { columns: [], rows: [[]] };
  return 'dataset' in from ? dataset(from.dataset, from.at) : select(from, dataset, budget);
}

function every({ columns }: Table): Selected[] {
  return columns.map(({ name }) => ({ node: { kind: 'name', name, at: 0 }, name, hasAlias: false }));
}

/** Whether an expression has an aggregate whose result depends on the order of rows. */
function needsOrder(node: Node): boolean {
  if (node.kind !== 'call') return false;
  return (
    /^(?:first_value|last_value|any|argmin|argmax)/.test(node.name) ||
    [...node.values, ...node.parameters].some(needsOrder)
  );
}

/** Replaces a whole number in GROUP BY or ORDER BY by the selected expression at that place, from 1. */
function positioned(node: Node, selected: readonly Selected[]): Node {
  if (node.kind !== 'number' || !node.isWhole) return node;
  const found = selected[node.value - 1];
  if (found === undefined)
    throw new SqlError(`${node.value} is not the place of a selected expression`, node.at);
  return found.node;
}

function* filtered(rows: Iterable<Row>, condition: Expression): Generator<Row> {
  for (const row of rows) if (condition.run(row)) yield row;
}

/** Sorts rows when the first is read. */
function* sorted(
  rows: Iterable<Row>,
  by: readonly Expression[],
  orderBy: Select['orderBy'],
  budget: Budget,
): Generator<Row> {
  const kept: { row: Row; by: Value[] }[] = [];
  for (const row of rows) {
    const values = by.map(({ run }) => run(row));
    for (const value of [...row, ...values]) budget.take(value);
    kept.push({ row, by: values });
  }
  for (const { row } of kept.sort((a, b) => compared(a.by, b.by, orderBy))) yield row;
}

/** Groups rows. The expressions must be compiled before the first group is read. */
function grouped(
  { columns, rows }: Table,
  keyNodes: readonly Node[],
  budget: Budget,
): { rows: Iterable<Row>; compiled: (node: Node) => Expression } {
  const keys = keyNodes.map((node) => ({ node, ...compile(node, columns) }));
  const compiler = new GroupCompiler(columns, keys, budget);
  const groups = function* (): Generator<Row> {
    const { aggregates } = compiler;
    const started = (values: Value[]) => ({ values, accumulators: aggregates.map(({ start }) => start()) });
    const found = new Map<string, ReturnType<typeof started>>();
    if (keys.length === 0) found.set('', started([]));
    for (const row of rows) {
      const values = keys.map(({ run }) => run(row));
      const key = keys.length === 0 ? '' : keyOf(values);
      let group = found.get(key);
      if (group === undefined) {
        group = started(values);
        found.set(key, group);
        budget.take(key);
        for (const _ of aggregates) budget.take(0);
      }
      for (const accumulator of group.accumulators) accumulator.add(row);
    }
    for (const { values, accumulators } of found.values())
      yield [...values, ...accumulators.map((each) => each.result())];
  };
  return { rows: groups(), compiled: (node) => compiler.compile(node) };
}

function keyOf(values: readonly Value[]): string {
  return JSON.stringify(values);
}

/** Computes the selected columns of the rows, sorts them, and applies LIMIT and OFFSET. */
function projected(
  rows: Iterable<Row>,
  columns: readonly Expression[],
  order: readonly Expression[],
  { isDistinct, orderBy, limit, offset }: Select,
  budget: Budget,
): Pick<Result, 'rows' | 'beforeLimit'> {
  const seen = new Set<string>();
  const kept: { values: Value[]; by: Value[] }[] = [];
  const end = limit === null ? Number.POSITIVE_INFINITY : limit + offset;
  for (const row of rows) {
    if (order.length === 0 && kept.length >= end) break;
    const values = columns.map(({ run }) => run(row));
    if (isDistinct) {
      const key = keyOf(values);
      if (seen.has(key)) continue;
      seen.add(key);
    }
    const by = order.map(({ run }) => run(row));
    for (const value of values) budget.take(value);
    for (const value of by) budget.take(value);
    kept.push({ values, by });
  }
  if (order.length > 0) kept.sort((a, b) => compared(a.by, b.by, orderBy));
  return { rows: kept.slice(offset, end).map(({ values }) => values), beforeLimit: kept.length };
}

function compared(a: Value[], b: Value[], orderBy: Select['orderBy']): number {
  for (let i = 0; i < a.length; i++) {
    if (a[i]! < b[i]!) return orderBy[i]!.descending ? 1 : -1;
    if (a[i]! > b[i]!) return orderBy[i]!.descending ? -1 : 1;
  }
  return 0;
}
