// Storage of an app: D1 databases, Durable Objects, KV namespaces, and Workflows.
import { type Signal, signal } from '@preact/signals';
import { api, type Failure, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { keptInPage } from '../../unsaved.ts';
import { pages } from '../pages.ts';
import { type ChangeSet, onlyReads, type Statement } from '../source/change-set.ts';
import { titleOf } from '../title.ts';
import { base64Of, type SqlValue } from './values.ts';

export type Overview = Result<'storage.overview'> & { workflows: Result<'workflows.list'>['items'] };
export type Table = NonNullable<Result<'storage.d1.get'>['tables']>[number];
export type KvKey = Result<'storage.kv.list'>['items'][number];
export type KvValue = Result<'storage.kv.get'>;

const PAGE = 100;
const EVERY_MS = 15_000;

export function overviewModel(id: string) {
  const overview = resource<Overview>(
    async (signal) => {
      const [kept, workflows] = await Promise.all([
        api('storage.overview', { id }, { signal }),
        api('workflows.list', { id, limit: 200 }, { signal }),
      ]);
      return { ...kept, workflows: workflows.items };
    },
    { everyMs: EVERY_MS },
  );
  return { overview, close: overview.close };
}

export function titleModel(app: string, kind: 'databases' | 'namespaces', id: string) {
  const title = resource(async (signal) => {
    const overview = await api('storage.overview', { id: app }, { signal });
    const found = overview[kind].find((each) => each.id === id);
    return found === undefined ? id : titleOf(found);
  });
  return { title, close: title.close };
}

export function databaseModel(id: string, database_id: string) {
  const tables = resource(async (signal) =>
    ownFirst((await api('storage.d1.get', { id, database_id }, { signal })).tables ?? []),
  );
  return { tables, close: tables.close };
}

/** Sorts tables of SQLite, D1 migrations and workerd last, so that the app's data comes first. */
export function ownFirst<Of extends { name: string }>(tables: readonly Of[]): Of[] {
  const isKept = ({ name }: Of) => /^(d1_migrations|sqlite_|_cf_)/.test(name);
  return [...tables.filter((table) => !isKept(table)), ...tables.filter(isKept)];
}

/** Rows of a page of a table, or of a statement. `next` is the cursor of the next page; null for the last page. */
export interface Rows {
  columns: string[];
  rows: SqlValue[][];
  next: string | null;
}

/** Reads rows from a D1 database, or from the SQLite database of a Durable Object. */
export type Reader = (
  asked: { table?: string; sort?: string; filter?: string; sql?: string; cursor?: string; limit?: number },
  signal?: AbortSignal,
) => Promise<Rows>;

/** Runs statements in one transaction. @returns the changed rows of each @throws {Failure} when nothing was written */
export type Writer = (statements: Statement[]) => Promise<{ changes: number }[]>;

export function databaseReader(id: string, database_id: string): Reader {
  return async (asked, signal) => {
    const { columns, rows, next_cursor } = await api(
      'storage.d1.get',
      { id, database_id, ...asked },
      { signal },
    );
    return { columns, rows, next: next_cursor };
  };
}

export function objectReader(id: string, class_name: string, object_id: string): Reader {
  return async (asked, signal) => {
    const answer = await api('storage.do.get', { id, class_name, object_id, ...asked }, { signal });
    return { columns: answer.columns ?? [], rows: answer.rows ?? [], next: answer.next_cursor };
  };
}

/** Reads a table by pages, with changes to it. `write`: null when it is read-only. */
export function tableModel(
  read: Reader,
  table: Table,
  shown: { sort: string; filter: string },
  write: Writer | null,
  changes: ChangeSet,
) {
  const asked = {
    table: table.name,
    limit: PAGE,
    ...(shown.sort !== '' && { sort: shown.sort }),
    ...(shown.filter !== '' && { filter: shown.filter }),
  };
  const rows = resource((signal) => read(asked, signal));
  return {
    rows,
    changes,
    canWrite: write !== null && table.type === 'table',
    async more() {
      const cursor = rows.data.peek()?.next;
      if (!cursor) return;
      const next = await read({ ...asked, cursor });
      const before = rows.data.peek()!;
      // The rows were read again meanwhile and now end elsewhere, so this page does not follow them.
      if (before.next !== cursor) return;
      rows.set({ ...next, rows: [...before.rows, ...next.rows] });
    },
    /** Writes all changes in one transaction. @returns the changed rows' number @throws {Failure} if nothing was written */
    async write(): Promise<number> {
      const written = await changes.runWrite(async () => {
        const answer = await write!(changes.statements());
        // The changes are shown until the rows have them.
        await rows.refresh();
        return answer;
      });
      return written.reduce((sum, each) => sum + each.changes, 0);
    },
    close: rows.close,
  };
}

export type TableModel = ReturnType<typeof tableModel>;

export function databaseWriter(id: string, database_id: string): Writer {
  return async (statements) => {
    const written = await api('storage.d1.write', { id, database_id, statements });
    return Array.isArray(written) ? written : [written];
  };
}

/** The statement that ran last: `at` is its start in ms since 1970, `ms` its duration. */
export interface Ran {
  sql: string;
  at: number;
  ms: number;
  result: Rows | { changes: number } | { failure: Failure };
}

const HISTORY = 50;

/** The text in each console. It survives switching screens, until the page is closed or reloaded. */
const texts = new Map<string, Signal<string>>();
keptInPage(texts, () => [...texts].some(([key, { value }]) => value.trim() !== '' && value !== kept(key)[0]));

/** An SQL console. Its history is stored in this browser. */
export function consoleModel(place: string, read: Reader, write: Writer | null) {
  const key = `console ${place}`;
  const past = signal<readonly string[]>(kept(key));
  const text = texts.get(key) ?? signal('');
  texts.set(key, text);
  const last = signal<Ran | null>(null);
  const run = async (sql: string) => {
    const at = Date.now();
    const begun = performance.now();
    const reads = write === null || onlyReads(sql);
    const result: Ran['result'] = await (reads
      ? read({ sql })
      : write([{ sql, params: [] }]).then(([written]) => ({ changes: written?.changes ?? 0 }))
    ).catch((failure: Failure) => ({ failure }));
    last.value = { sql, at, ms: performance.now() - begun, result };
    past.value = [sql, ...past.peek().filter((each) => each !== sql)].slice(0, HISTORY);
    keep(key, past.value);
  };
  return { past, last, text, run };
}

function kept(key: string): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(found) ? found.filter((each) => typeof each === 'string') : [];
  } catch {
    return [];
  }
}

function keep(key: string, past: readonly string[]) {
  try {
    localStorage.setItem(key, JSON.stringify(past));
  } catch {
    // Without browser storage, the history lasts until the page is left.
  }
}

export function objectsModel(id: string, class_name: string) {
  return pages(
    (cursor, signal) =>
      api('storage.do.get', { id, class_name, limit: PAGE, cursor }, { signal }).then((answer) => ({
        items: answer.items as unknown as ListedObject[],
        next_cursor: answer.next_cursor,
      })),
    (object) => object.id,
  );
}

export interface ListedObject {
  id: string;
  name: string | null;
  bytes: number;
  next_alarm: string | null;
}

export interface KeptKey {
  key: string;
  bytes: number;
  value: unknown;
}

/** The keys of one Durable Object. @param object its id (64 hexadecimal digits) or its name */
export function objectModel(id: string, class_name: string, object: string) {
  const which = /^[0-9a-f]{64}$/.test(object) ? { object_id: object } : { name: object };
  const keys = pages(
    (cursor, signal) =>
      api('storage.do.get', { id, class_name, ...which, limit: PAGE, cursor }, { signal }).then((answer) => {
        record.value = answer.object;
        return { items: answer.items as unknown as KeptKey[], next_cursor: answer.next_cursor };
      }),
    ({ key }) => key,
  );
  const record = signal<Result<'storage.do.get'>['object']>(null);
  return {
    keys,
    record,
    /** Reads the whole value of a key that is too large for the list. */
    async readKey(key: string): Promise<unknown> {
      const { items } = await api('storage.do.get', { id, class_name, ...which, key });
      return (items[0] as KeptKey | undefined)?.value;
    },
    close: keys.close,
  };
}

export function namespaceModel(id: string, namespace_id: string, prefix: string) {
  const keys = pages(
    (cursor, signal) =>
      api(
        'storage.kv.list',
        { id, namespace_id, limit: PAGE, cursor, ...(prefix !== '' && { prefix }) },
        { signal },
      ),
    ({ key }: KvKey) => key,
  );
  return {
    keys,
    delete: (key: string) => api('storage.kv.delete', { id, namespace_id, key }),
    async put(key: string, value: Uint8Array, expires_at: string | null, metadata: unknown) {
      await api('storage.kv.put', {
        id,
        namespace_id,
        key,
        value_base64: base64Of(value),
        ...(expires_at !== null && { expires_at }),
        ...(metadata !== null && { metadata }),
      });
      await keys.refresh();
    },
    close: keys.close,
  };
}

export function kvValueModel(id: string, namespace_id: string, key: string) {
  const value = resource((signal) => api('storage.kv.get', { id, namespace_id, key }, { signal }));
  return { value, close: value.close };
}
