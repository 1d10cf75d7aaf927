// Reads and changes of an app's storage by the host. Types only, as in `host-calls.ts`.

/**
 * Asks for the result of `sql`, a page of `table`, or the list of tables when both are null. `after`: where a page begins.
 */
interface TableQuestion {
  sql: string | null;
  table: string | null;
  sort: string | null;
  filter: string | null;
  after: string | null;
  limit: number;
}

/** The database to export as SQL. `tables`: exports only these; undefined: exports all. */
export interface ExportQuestion {
  database: string;
  tables: string[] | undefined;
}

/** A query of a database, by its id or binding. */
export interface DatabaseQuestion extends TableQuestion {
  database: string;
}

/** A query of a Durable Object class, or of one of its objects by id or name. */
export interface ObjectQuestion extends TableQuestion {
  class_name: string;
  object: string | null;
  name: string | null;
  key: string | null;
}

/** A query of a namespace, by its id or binding: its keys, or the value of one. */
export interface KeysQuestion {
  namespace: string;
  key: string | null;
  prefix: string;
  after: string | null;
  limit: number;
}

/** Settings of a Workflow, in the format of `Workflow` in a release. */
export interface WorkflowSettings {
  name: string;
  steps?: number;
  retention?: { success?: number | string; error?: number | string };
}

/** A query of the instances of a Workflow. `after`: where a page begins. */
export interface InstancesQuestion {
  workflow: string;
  status: string | null;
  /** The creation time is at or after `since`, and before `until`: both in ms since 1970. */
  since: number | null;
  until: number | null;
  after: string | null;
  limit: number;
}

/** A step of an instance. `count`: its number among steps with the same name and type, from 1. */
export interface StepReference {
  name: string;
  count?: number | undefined;
  type?: 'do' | 'sleep' | 'waitForEvent' | undefined;
}

/** A change of an instance of a Workflow. */
export type WorkflowAction = { workflow: string } & (
  | { action: 'create'; instance: string | null; params: unknown }
  | { action: 'pause' | 'resume' | 'delete'; instance: string }
  | { action: 'terminate'; instance: string; options: { rollback: boolean } }
  | { action: 'restart'; instance: string; options: { from: StepReference | null } }
  | { action: 'send_event'; instance: string; type: string; payload: unknown }
);

/** A parameter of a statement. Bytes are base64. */
export type SqlParameter = string | number | boolean | null | { $bytes: string };

/** SQL for a database. The parameters belong to its last statement. */
export interface SqlQuery {
  sql: string;
  params: SqlParameter[];
}

/** The result of one statement; `meta` as in D1. Values in rows have the formats of `storage.d1.get`. */
export interface StatementResult {
  columns: string[];
  rows: unknown[][];
  meta: {
    changes: number;
    last_row_id: number;
    changed_db: boolean;
    size_after: number;
    rows_read: number;
    rows_written: number;
  };
}

/** The result of an imported SQL file. */
export interface ImportResult {
  statements: number;
  changes: number;
  rows_read: number;
  rows_written: number;
  size_after: number;
}

/** A database's answer. `failed`: SQLite's error message; nothing was changed. */
export type DatabaseAnswer<Done> = { done: Done; duration_ms: number } | { failed: string };

/** A write of one key in a namespace. `of`: the namespace's id or binding. */
export interface KvWrite {
  of: string;
  key: string;
  /** Time at which the key expires, in s since 1970; null: never. */
  expiration: number | null;
  metadata: unknown;
}

/** An operation's answer with `next`, the position of the next page, in place of `next_cursor`. Null: the last page. */
export type PageOf<Answer> = Omit<Answer, 'next_cursor'> & { next: string | null };
