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

/** A write: statements to a database, as one transaction, or one value of a namespace. `of`: its id or binding. */
export type StorageWrite =
  | { kind: 'd1'; of: string; statements: { sql: string; params: SqlParameter[] }[] }
  | {
      kind: 'kv';
      of: string;
      key: string;
      /** `null` deletes it. */
      value: { $bytes: string } | null;
      /** In s since 1970. */
      expiration: number | null;
      metadata: unknown;
    };

/** What became of each statement; empty for a namespace. */
export type StorageWritten = { changes: number; last_row_id: number | null; duration_ms: number }[];

/** An answer about what an app keeps: as the operation has it, with `next` for the place where the next page begins. */
export type Looked<Answer> = Omit<Answer, 'next_cursor'> & { next: string | null };
