// Splits a query of Analytics Engine into tokens.

/** A query that cannot be run. */
export class SqlError extends Error {
  /** The offset of the error in the query; null when the error has no place. */
  readonly at: number | null;
  constructor(message: string, at: number | null) {
    super(message);
    this.at = at;
  }
}

export interface Token {
  /** `name` is a bare word, which may be a keyword; `quoted` is a name in quotes. */
  kind: 'number' | 'text' | 'name' | 'quoted' | 'symbol' | 'end';
  /** Without quotes and escapes. */
  text: string;
  at: number;
  end: number;
}

const SPACE = /(?:\s+|--[^\n]*|\/\*[\s\S]*?\*\/)+/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*/y;
const NUMBER = /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const SYMBOL = /==|!=|<>|<=|>=|\|\||[-+*/%(),=<>;[\].]/y;
const ESCAPES: Record<string, string> = { n: '\n', t: '\t', r: '\r', '0': '\0', b: '\b', f: '\f' };

/** Returns the tokens of a query. @throws {SqlError} for a character that begins no token, and for an unclosed quote */
export function tokens(sql: string): Token[] {
  const found: Token[] = [];
  let at = 0;
  const match = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    return pattern.exec(sql)?.[0] ?? null;
  };
  for (;;) {
    at += match(SPACE)?.length ?? 0;
    const first = sql[at];
    if (first === undefined) break;
    if (first === "'" || first === '"' || first === '`') {
      const { text, end } = quoted(sql, at);
      found.push({ kind: first === "'" ? 'text' : 'quoted', text, at, end });
      at = end;
      continue;
    }
    const kind = (['name', 'number', 'symbol'] as const).find((each) => match(PATTERNS[each]) !== null);
    if (kind === undefined) throw new SqlError(`the character ${JSON.stringify(first)} is not expected`, at);
    const text = match(PATTERNS[kind])!;
    found.push({ kind, text, at, end: at + text.length });
    at += text.length;
  }
  found.push({ kind: 'end', text: '', at, end: at });
  return found;
}

const PATTERNS = { name: NAME, number: NUMBER, symbol: SYMBOL };

/** Reads a quoted text. A doubled quote, or a backslash, escapes a quote. */
function quoted(sql: string, at: number): { text: string; end: number } {
  const quote = sql[at];
  let text = '';
  for (let i = at + 1; i < sql.length; i++) {
    const char = sql[i]!;
    if (char === '\\') {
      const next = sql[++i] ?? '';
      // A pattern of LIKE needs the backslash before its wildcards.
      text += ESCAPES[next] ?? (next === '%' || next === '_' ? `\\${next}` : next);
    } else if (char !== quote) text += char;
    else if (sql[i + 1] === quote) {
      text += quote;
      i++;
    } else return { text, end: i + 1 };
  }
  throw new SqlError('the quote is not closed', at);
}
