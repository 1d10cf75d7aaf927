// What the host is asked about what an app keeps, and told to change of it. Types only, as in `host-calls.ts`.

/** One statement, a page of a table, or, with neither, what tables there are. `after`: where a page begins. */
interface TableQuestion {
  sql: string | null;
  table: string | null;
  sort: string | null;
  filter: string | null;
  after: string | null;
  limit: number;
}

/** Which database to give as SQL. `tables`: these alone. */
export interface ExportQuestion {
  database: string;
  tables: string[] | undefined;
}

/** A question to a database, which is named by its id or binding. */
export interface DatabaseQuestion extends TableQuestion {
  database: string;
}

/** A question to a class, or to one of its objects, by id or name. */
export interface ObjectQuestion extends TableQuestion {
  class_name: string;
  object: string | null;
  name: string | null;
  key: string | null;
}

/** A question to a namespace, which is named by its id or binding: its keys, or the value of one. */
export interface KeysQuestion {
  namespace: string;
  key: string | null;
  prefix: string;
  after: string | null;
  limit: number;
}

/** Settings of a Workflow, as `Workflow` of a release has them. */
export interface WorkflowSettings {
  name: string;
  steps?: number;
  retention?: { success?: number | string; error?: number | string };
}

/** A question about the instances of a Workflow. `after`: where a page begins. */
export interface InstancesQuestion {
  workflow: string;
  status: string | null;
  after: string | null;
  limit: number;
}

/** A step of an instance: `count` is which of those of its name and type, from 1. */
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

/** A value for a statement. Bytes are base64. */
export type SqlParameter = string | number | boolean | null | { $bytes: string };

/** SQL for a database. Its parameters are those of its last statement. */
export interface SqlQuery {
  sql: string;
  params: SqlParameter[];
}

/** What became of one statement; `meta` as D1 has it. Values in rows have the forms of `storage.d1.get`. */
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

/** What became of a file of SQL. */
export interface ImportResult {
  statements: number;
  changes: number;
  rows_read: number;
  rows_written: number;
  size_after: number;
}

/** What a database answers; `failed` are SQLite's words, and then nothing was changed. */
export type DatabaseAnswer<Done> = { done: Done; duration_ms: number } | { failed: string };

/** One value of a namespace. `of`: its id or binding. */
export interface KvWrite {
  of: string;
  key: string;
  /** `null` deletes it. */
  value: { $bytes: string } | null;
  /** In s since 1970. */
  expiration: number | null;
  metadata: unknown;
}

/** An answer about what an app keeps: as the operation has it, with `next` for the place where the next page begins. */
export type Looked<Answer> = Omit<Answer, 'next_cursor'> & { next: string | null };
