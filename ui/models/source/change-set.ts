// Collects changes to a table's rows, to write them in one transaction.
import { computed, signal } from '@preact/signals';
import { keptInPage } from '../../unsaved.ts';
import { isSame, type SqlParameter, type SqlValue } from '../storage/values.ts';

export interface TableColumn {
  name: string;
  type: string;
  not_null: boolean;
  default: string | null;
  primary_key: number;
  generated: boolean;
}

export interface Statement {
  sql: string;
  params: SqlParameter[];
}

/** Maximum changed rows in one transaction. */
export const MOST_CHANGES = 100;

type Row = readonly SqlValue[];

/** Changed cells of rows, by the row's key. */
type Updates = ReadonlyMap<string, { row: Row; values: ReadonlyMap<string, SqlValue> }>;

/** Collects changes to a table. Rows are identified by their primary key. */
export function changeSet(table: string, columns: readonly TableColumn[]) {
  const keys = columns
    .filter(({ primary_key }) => primary_key > 0)
    .sort((a, b) => a.primary_key - b.primary_key);
  const places = new Map(columns.map(({ name }, i) => [name, i]));
  const updates = signal<Updates>(new Map());
  const deletes = signal<ReadonlyMap<string, Row>>(new Map());
  const inserts = signal<readonly { id: number; values: ReadonlyMap<string, SqlValue> }[]>([]);
  let made = 0;
  /** The updates that are being written; null when no write runs. */
  let sent: Updates | null = null;

  const keyOf = (row: Row) => JSON.stringify(keys.map(({ name }) => row[places.get(name)!]));
  const count = computed(() => updates.value.size + deletes.value.size + inserts.value.length);
  const where = (row: Row): Statement => {
    const parts = keys.map(({ name }) => equal(name, row[places.get(name)!]!));
    return { sql: parts.map(({ sql }) => sql).join(' AND '), params: parts.flatMap(({ params }) => params) };
  };

  return {
    updates,
    deletes,
    inserts,
    count,
    /** Whether a row can be changed: a row without a primary key, or with NULL in it, cannot be identified. */
    canChange: (row: Row) => keys.length > 0 && keys.every(({ name }) => row[places.get(name)!] !== null),
    keyOf,
    /** Returns a cell's value with the changes applied. */
    valueOf(row: Row, column: string): SqlValue {
      const changed = updates.value.get(keyOf(row))?.values;
      return changed?.has(column) ? changed.get(column)! : row[places.get(column)!]!;
    },
    isChanged: (row: Row, column: string) => updates.value.get(keyOf(row))?.values.has(column) ?? false,
    isDeleted: (row: Row) => deletes.value.has(keyOf(row)),
    /** Changes a cell. Setting the original value removes the change, unless the change is being written. */
    update(row: Row, column: string, value: SqlValue) {
      const key = keyOf(row);
      const values = new Map(updates.peek().get(key)?.values);
      const isSent = sent?.get(key)?.values.has(column);
      if (!isSent && isSame(value, row[places.get(column)!]!)) values.delete(column);
      else values.set(column, value);
      const all = new Map(updates.peek());
      if (values.size === 0) all.delete(key);
      else all.set(key, { row, values });
      updates.value = all;
    },
    /** Marks a row for deletion, or unmarks it. */
    toggleDelete(row: Row) {
      const key = keyOf(row);
      const all = new Map(deletes.peek());
      if (!all.delete(key)) all.set(key, row);
      deletes.value = all;
    },
    /** Adds a row. Columns without a value get the table's default. */
    insert(values: ReadonlyMap<string, SqlValue>) {
      inserts.value = [...inserts.peek(), { id: ++made, values }];
    },
    dropInsert(id: number) {
      inserts.value = inserts.peek().filter((each) => each.id !== id);
    },
    clear() {
      updates.value = new Map();
      deletes.value = new Map();
      inserts.value = [];
    },
    /**
     * Runs `write`, which must send `statements()` at once. Then drops the written changes; changes made meanwhile stay.
     * @throws when another write runs, and when `write` fails: then all changes stay
     */
    async runWrite<Answer>(write: () => Promise<Answer>): Promise<Answer> {
      if (sent !== null) throw new Error('The changes of this table are being written already.');
      const before = { updates: updates.peek(), deletes: deletes.peek(), inserts: inserts.peek() };
      sent = before.updates;
      try {
        const answer = await write();
        const stored = (row: Row): Row => {
          const values = before.updates.get(keyOf(row))?.values;
          return columns.map(({ name }, i) => (values?.has(name) ? values.get(name)! : row[i]!));
        };
        const edited = [...updates.peek()].filter(([key]) => !before.deletes.has(key));
        const left = edited.map(([, { row, values }]) => {
          const now = stored(row);
          const more = [...values].filter(([column, value]) => !isSame(value, now[places.get(column)!]!));
          return { row: now, values: new Map(more) };
        });
        updates.value = new Map(
          left.filter(({ values }) => values.size > 0).map((each) => [keyOf(each.row), each]),
        );
        const marked = [...deletes.peek()].filter(([key]) => !before.deletes.has(key));
        deletes.value = new Map(marked.map(([, row]) => stored(row)).map((row) => [keyOf(row), row]));
        inserts.value = inserts.peek().filter((each) => !before.inserts.includes(each));
        return answer;
      } finally {
        sent = null;
      }
    },
    /** Returns the statements for one transaction: deletions, then updates, then insertions. */
    statements(): Statement[] {
      const all: Statement[] = [];
      for (const row of deletes.peek().values()) {
        const { sql, params } = where(row);
        all.push({ sql: `DELETE FROM ${quoted(table)} WHERE ${sql}`, params });
      }
      for (const [key, { row, values }] of updates.peek()) {
        if (deletes.peek().has(key)) continue;
        const sets = [...values].map(([column, value]) => {
          const bound = bind(value);
          return { sql: `${quoted(column)} = ${bound.sql}`, params: bound.params };
        });
        const found = where(row);
        all.push({
          sql: `UPDATE ${quoted(table)} SET ${sets.map(({ sql }) => sql).join(', ')} WHERE ${found.sql}`,
          params: [...sets.flatMap(({ params }) => params), ...found.params],
        });
      }
      for (const { values } of inserts.peek()) {
        const bound = [...values.values()].map(bind);
        all.push({
          sql:
            values.size === 0
              ? `INSERT INTO ${quoted(table)} DEFAULT VALUES`
              : `INSERT INTO ${quoted(table)} (${[...values.keys()].map(quoted).join(', ')}) VALUES (${bound
                  .map(({ sql }) => sql)
                  .join(', ')})`,
          params: bound.flatMap(({ params }) => params),
        });
      }
      return all;
    },
  };
}

export type ChangeSet = ReturnType<typeof changeSet>;

/** Changes of all tables shown so far. */
const all = new Map<string, ChangeSet>();
keptInPage(all, () => [...all.values()].some(({ count }) => count.peek() > 0));

/**
 * Returns the changes to a table. They survive switching screens, until the page is closed or reloaded. When the columns of
 * the table are altered, the changes start empty.
 * @param place identifies the database
 */
export function changesOf(
  place: string,
  { name, columns }: { name: string; columns: readonly TableColumn[] },
) {
  const key = JSON.stringify([place, name, columns]);
  const changes = all.get(key) ?? changeSet(name, columns);
  all.set(key, changes);
  return changes;
}

/** Quotes a name for SQL. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function equal(column: string, value: SqlValue): Statement {
  const { sql, params } = bind(value);
  return { sql: `${quoted(column)} = ${sql}`, params };
}

/** Returns a parameter, or inlines a value that cannot be bound: whole numbers from 2^53 on, infinities, NaN and -0. */
function bind(value: SqlValue): Statement {
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return { sql: Number(value).toExponential(), params: [] };
  if (typeof value !== 'object' || value === null || '$bytes' in value) return { sql: '?', params: [value] };
  if ('$bigint' in value) return { sql: value.$bigint, params: [] };
  return {
    sql: { Infinity: '9e999', '-Infinity': '-9e999', NaN: 'NULL', '-0': '-0.0' }[value.$number],
    params: [],
  };
}

/** Returns a statement for people, with its values inlined. Long text is shortened; bytes are shown by their number. */
export function readable({ sql, params }: Statement): string {
  let at = 0;
  return sql.replace(/\?|"(?:[^"]|"")*"/g, (found) => {
    if (found !== '?') return found;
    const value = params[at++]!;
    if (value === null) return 'NULL';
    if (typeof value === 'object') return `(${Math.floor((value.$bytes.length * 3) / 4)} bytes)`;
    if (typeof value !== 'string') return String(value);
    const text = value.length > 60 ? `${value.slice(0, 60)}…` : value;
    return `'${text.replaceAll("'", "''")}'`;
  });
}

/** Whether a statement reads only. Guesses this from its keywords. */
export function onlyReads(sql: string): boolean {
  const bare = sql
    .replace(/--[^\n]*|\/\*[\s\S]*?\*\//g, ' ')
    .replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"/g, "''")
    .trim()
    .toLowerCase();
  if (/^(select|values|explain)\b/.test(bare)) return true;
  if (/^pragma\b/.test(bare)) return !bare.includes('=');
  return /^with\b/.test(bare) && !/\b(insert|update|delete|replace)\b/.test(bare);
}
