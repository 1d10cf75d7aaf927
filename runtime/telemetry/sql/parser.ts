// Parses the SQL of Analytics Engine: https://developers.cloudflare.com/analytics/analytics-engine/sql-reference/statements
import { SqlError, type Token, tokens } from './tokens.ts';

/** An expression. An operator is a call of the function that ClickHouse has for it, such as `plus`. */
export type Node =
  | { kind: 'number'; value: number; isWhole: boolean; at: number }
  | { kind: 'text'; value: string; at: number }
  | { kind: 'name'; name: string; at: number }
  | { kind: 'interval'; count: number; unit: Unit; at: number }
  | { kind: 'star'; at: number }
  | Call;

export interface Call {
  kind: 'call';
  /** In lower case. */
  name: string;
  /** As in `quantileExactWeighted(0.5)(…)`. */
  parameters: Node[];
  values: Node[];
  isDistinct: boolean;
  at: number;
}

export interface Selected {
  node: Node;
  /** The alias, or the text of the expression. */
  name: string;
  hasAlias: boolean;
}

export interface Select {
  kind: 'select';
  isDistinct: boolean;
  selected: Selected[];
  /** A dataset or a subquery; null: one row without columns. */
  from: { dataset: string; at: number } | Select | null;
  where: Node | null;
  groupBy: Node[];
  having: Node | null;
  orderBy: { node: Node; descending: boolean }[];
  limit: number | null;
  offset: number;
}

export type Statement = Select | { kind: 'tables' | 'timezone' | 'timezones' };
export const FORMATS = ['JSON', 'JSONEachRow', 'TabSeparated'] as const;
export type Format = (typeof FORMATS)[number];

export const UNITS = ['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'] as const;
export type Unit = (typeof UNITS)[number];

/** Maximum depth of nested expressions and subqueries, and maximum operators in a chain such as `a + b + c`. */
const DEPTH = 100;

const COMPARISONS: Record<string, string> = {
  '=': 'equals',
  '==': 'equals',
  '!=': 'notequals',
  '<>': 'notequals',
  '<': 'less',
  '<=': 'lessorequals',
  '>': 'greater',
  '>=': 'greaterorequals',
};
const SUMS: Record<string, string> = { '+': 'plus', '-': 'minus', '||': 'concat' };
const PRODUCTS: Record<string, string> = { '*': 'multiply', '/': 'divide', '%': 'modulo' };

/** Parses a query. @throws {SqlError} for invalid SQL */
export function parse(sql: string): { statement: Statement; format: Format } {
  return new Parser(sql).statement();
}

class Parser {
  readonly #sql: string;
  readonly #tokens: Token[];
  #next = 0;
  #depth = 0;

  constructor(sql: string) {
    this.#sql = sql;
    this.#tokens = tokens(sql);
  }

  statement(): { statement: Statement; format: Format } {
    const statement = this.#takes('show') ? this.#shown() : this.#select();
    const format = this.#takes('format') ? this.#format() : 'JSON';
    this.#takesSymbol(';');
    if (this.#token.kind !== 'end') throw this.#unexpected('the end of the query');
    return { statement, format };
  }

  #shown(): Statement {
    for (const kind of ['tables', 'timezones', 'timezone'] as const) if (this.#takes(kind)) return { kind };
    throw this.#unexpected('TABLES, TIMEZONES or TIMEZONE');
  }

  #format(): Format {
    const { text } = this.#token;
    const known = FORMATS.find((each) => each.toLowerCase() === text.toLowerCase());
    if (known === undefined) throw this.#unexpected(`a format (${FORMATS.join(', ')})`);
    this.#next++;
    return known;
  }

  #select(): Select {
    this.#expects('select');
    const isDistinct = this.#takes('distinct');
    const selected = this.#list(() => this.#selected());
    const from = this.#takes('from') ? this.#from() : null;
    const where = this.#takes('where') ? this.#expression() : null;
    const groupBy = this.#by('group') ? this.#list(() => this.#expression()) : [];
    const having = this.#takes('having') ? this.#expression() : null;
    const orderBy = this.#by('order') ? this.#list(() => this.#ordered()) : [];
    const limit = this.#takes('limit') && !this.#takes('all') ? this.#count() : null;
    const offset = this.#takes('offset') ? this.#count() : 0;
    return { kind: 'select', isDistinct, selected, from, where, groupBy, having, orderBy, limit, offset };
  }

  #by(word: 'group' | 'order'): boolean {
    const isNext = this.#takes(word);
    if (isNext) this.#expects('by');
    return isNext;
  }

  #selected(): Selected {
    const { at } = this.#token;
    const node = this.#takesSymbol('*') ? ({ kind: 'star', at } as const) : this.#expression();
    if (this.#takes('as')) return { node, name: this.#name('an alias'), hasAlias: true };
    return { node, name: this.#sql.slice(at, this.#tokens[this.#next - 1]!.end), hasAlias: false };
  }

  #from(): Select['from'] {
    const { at } = this.#token;
    if (!this.#takesSymbol('(')) return { dataset: this.#name('the name of a dataset'), at };
    const query = this.#deeper(() => this.#select());
    this.#expectsSymbol(')');
    if (this.#takes('as')) this.#name('an alias');
    return query;
  }

  #ordered(): Select['orderBy'][number] {
    const node = this.#expression();
    const descending = this.#takes('desc');
    if (!descending) this.#takes('asc');
    return { node, descending };
  }

  #count(): number {
    const { kind, text } = this.#token;
    if (kind !== 'number' || !/^\d{1,15}$/.test(text)) throw this.#unexpected('a whole number');
    this.#next++;
    return Number(text);
  }

  #expression(): Node {
    return this.#deeper(() => this.#joined('or', () => this.#joined('and', () => this.#negated())));
  }

  #joined(word: 'or' | 'and', operand: () => Node): Node {
    const values = [operand()];
    const { at } = this.#token;
    while (this.#takes(word)) values.push(operand());
    return values.length === 1 ? values[0]! : call(word, values, at);
  }

  #negated(): Node {
    const { at } = this.#token;
    if (!this.#takes('not')) return this.#compared();
    return call('not', [this.#deeper(() => this.#negated())], at);
  }

  #compared(): Node {
    let left = this.#sum();
    for (;;) {
      const { at, kind, text } = this.#token;
      const comparison = kind === 'symbol' ? COMPARISONS[text] : undefined;
      if (comparison !== undefined) {
        this.#next++;
        left = call(comparison, [left, this.#sum()], at);
        continue;
      }
      const isNot =
        this.#isWord('not', 0) && ['in', 'between', 'like', 'ilike'].some((each) => this.#isWord(each, 1));
      if (isNot) this.#next++;
      const found = this.#matched(left, at);
      if (found === null) return left;
      left = isNot ? call('not', [found], at) : found;
    }
  }

  /** Parses IN, BETWEEN, LIKE or ILIKE with its right operands. @returns null for any other token */
  #matched(left: Node, at: number): Node | null {
    if (this.#takes('in')) {
      this.#expectsSymbol('(');
      const items = this.#list(() => this.#expression());
      this.#expectsSymbol(')');
      return call('in', [left, ...items], at);
    }
    if (this.#takes('between')) {
      const from = this.#sum();
      this.#expects('and');
      return call(
        'and',
        [call('greaterorequals', [left, from], at), call('lessorequals', [left, this.#sum()], at)],
        at,
      );
    }
    for (const word of ['like', 'ilike']) if (this.#takes(word)) return call(word, [left, this.#sum()], at);
    return null;
  }

  #sum(): Node {
    return this.#chain(SUMS, () => this.#chain(PRODUCTS, () => this.#signed()));
  }

  #chain(operators: Record<string, string>, operand: () => Node): Node {
    let left = operand();
    for (let links = 0; ; links++) {
      const { at, kind, text } = this.#token;
      const operator = kind === 'symbol' ? operators[text] : undefined;
      if (operator === undefined) return left;
      if (links === DEPTH) throw new SqlError(`an expression may chain at most ${DEPTH} operators`, at);
      this.#next++;
      left = call(operator, [left, operand()], at);
    }
  }

  #signed(): Node {
    const { at } = this.#token;
    if (!this.#takesSymbol('-')) return this.#value();
    const node = this.#deeper(() => this.#signed());
    return node.kind === 'number' ? { ...node, value: -node.value, at } : call('negate', [node], at);
  }

  #value(): Node {
    const { kind, text, at } = this.#token;
    if (kind === 'symbol' && text === '(') {
      this.#next++;
      const node = this.#expression();
      this.#expectsSymbol(')');
      return node;
    }
    if (kind === 'end' || kind === 'symbol') throw this.#unexpected('an expression');
    if (kind === 'name' && this.#isWord('interval', 0) && !this.#isSymbol('(', 1)) return this.#interval();
    if (kind === 'name' && RESERVED.has(text.toLowerCase()) && !this.#isSymbol('(', 1))
      throw this.#unexpected('an expression');
    this.#next++;
    if (kind === 'number') return { kind: 'number', value: Number(text), isWhole: /^\d+$/.test(text), at };
    if (kind === 'text') return { kind: 'text', value: text, at };
    if (kind === 'name' && this.#isSymbol('(', 0)) return this.#call(text.toLowerCase(), at);
    if (kind === 'name' && /^(true|false)$/i.test(text))
      return { kind: 'number', value: text.toLowerCase() === 'true' ? 1 : 0, isWhole: true, at };
    return { kind: 'name', name: text, at };
  }

  #call(name: string, at: number): Node {
    if (name === 'extract' && UNITS.some((unit) => this.#isWord(unit, 1))) return this.#extract(at);
    if (name === 'position') return this.#position(at);
    let { values, isDistinct } = this.#values();
    let parameters: Node[] = [];
    if (this.#isSymbol('(', 0)) {
      parameters = values;
      ({ values, isDistinct } = this.#values());
    }
    return { kind: 'call', name, parameters, values, isDistinct, at };
  }

  #values(): { values: Node[]; isDistinct: boolean } {
    this.#expectsSymbol('(');
    const isDistinct = this.#takes('distinct');
    const { at } = this.#token;
    if (this.#takesSymbol(')')) return { values: [], isDistinct };
    const values = this.#takesSymbol('*')
      ? [{ kind: 'star', at } as const]
      : this.#list(() => this.#expression());
    this.#expectsSymbol(')');
    return { values, isDistinct };
  }

  /** Parses `position('b' IN 'abc')`, or `position('abc', 'b')` as in ClickHouse. */
  #position(at: number): Node {
    this.#expectsSymbol('(');
    const first = this.#deeper(() => this.#sum());
    const isIn = this.#takes('in');
    if (!isIn) this.#expectsSymbol(',');
    const second = this.#deeper(() => this.#sum());
    this.#expectsSymbol(')');
    return call('position', isIn ? [second, first] : [first, second], at);
  }

  /** Parses `EXTRACT(MONTH FROM timestamp)` as the call `tomonth(timestamp)`. */
  #extract(at: number): Node {
    this.#expectsSymbol('(');
    const unit = this.#unit();
    this.#expects('from');
    const value = this.#expression();
    this.#expectsSymbol(')');
    return call(unit === 'day' ? 'todayofmonth' : `to${unit}`, [value], at);
  }

  #interval(): Node {
    const { at } = this.#token;
    this.#next++;
    const { kind, text } = this.#token;
    if ((kind !== 'number' && kind !== 'text') || !/^\d{1,9}$/.test(text))
      throw this.#unexpected("a whole number, as in INTERVAL '7' DAY");
    this.#next++;
    return { kind: 'interval', count: Number(text), unit: this.#unit(), at };
  }

  #unit(): Unit {
    const text = this.#token.text.toLowerCase();
    const unit = UNITS.find((each) => each === text || `${each}s` === text);
    if (unit === undefined) throw this.#unexpected(`a unit (${UNITS.join(', ').toUpperCase()})`);
    this.#next++;
    return unit;
  }

  #list<Item>(item: () => Item): Item[] {
    const items = [item()];
    while (this.#takesSymbol(',')) items.push(item());
    return items;
  }

  #name(what: string): string {
    const { kind, text } = this.#token;
    if (kind !== 'quoted' && (kind !== 'name' || RESERVED.has(text.toLowerCase())))
      throw this.#unexpected(what);
    this.#next++;
    return text;
  }

  #deeper<Result>(work: () => Result): Result {
    if (++this.#depth > DEPTH) throw new SqlError('the query nests too deeply', this.#token.at);
    const result = work();
    this.#depth--;
    return result;
  }

  get #token(): Token {
    return this.#tokens[this.#next]!;
  }

  #isWord(word: string, ahead: number): boolean {
    const token = this.#tokens[this.#next + ahead];
    return token?.kind === 'name' && token.text.toLowerCase() === word;
  }

  #isSymbol(symbol: string, ahead: number): boolean {
    const token = this.#tokens[this.#next + ahead];
    return token?.kind === 'symbol' && token.text === symbol;
  }

  #takes(word: string): boolean {
    const isNext = this.#isWord(word, 0);
    if (isNext) this.#next++;
    return isNext;
  }

  #takesSymbol(symbol: string): boolean {
    const isNext = this.#isSymbol(symbol, 0);
    if (isNext) this.#next++;
    return isNext;
  }

  #expects(word: string): void {
    if (!this.#takes(word)) throw this.#unexpected(word.toUpperCase());
  }

  #expectsSymbol(symbol: string): void {
    if (!this.#takesSymbol(symbol)) throw this.#unexpected(`"${symbol}"`);
  }

  #unexpected(wanted: string): SqlError {
    const { kind, at, end } = this.#token;
    const found = kind === 'end' ? 'the end of the query' : this.#sql.slice(at, Math.min(end, at + 50));
    return new SqlError(`${wanted} is expected, not ${found}`, at);
  }
}

/** Words that are not names unless they are quoted. */
const RESERVED = new Set(
  'select from where group order having limit offset format as and or not in between like ilike by distinct union join'.split(
    ' ',
  ),
);

function call(name: string, values: Node[], at: number): Call {
  return { kind: 'call', name, parameters: [], values, isDistinct: false, at };
}
