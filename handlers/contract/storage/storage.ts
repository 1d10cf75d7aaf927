// Reads and changes an app's databases, Durable Objects and namespaces.
import * as z from 'zod';
import { listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { D1_SQL_BYTES } from '../sizes.ts';

/** A value in SQLite. Values outside JSON have the formats in docs/storage.md, such as `{"$bytes": base64}`. */
const sqlValue = z.union([
  z.string(),
  z.number(),
  z.boolean(),
  z.null(),
  z.strictObject({ $bigint: z.string().regex(/^-?[0-9]{1,19}$/) }),
  z.strictObject({ $bytes: z.base64() }),
  z.strictObject({ $number: z.enum(['Infinity', '-Infinity', 'NaN', '-0']) }),
]);
const sql = z.string().min(1).max(100_000);
/**
 * Returns whether a number may have been rounded. JSON parsers silently round integers beyond 2^53, and D1 cannot bind them.
 * Beyond 2^63, SQLite has no integers, so such a number is an exact floating-point number.
 */
const mayBeRounded = (value: number) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) <= 2 ** 63;
const exactNumber = z.number().refine((value) => !mayBeRounded(value), {
  error:
    'is a whole number beyond 2^53, which JSON may have rounded. Pass the number as a string, and use CAST(? AS INTEGER) or CAST(? AS REAL) in the statement',
});
const parameter = z.union([
  z.string(),
  exactNumber,
  z.boolean(),
  z.null(),
  z.strictObject({ $bytes: z.base64() }),
]);
const statement = { sql, params: z.array(parameter).max(100).optional() };
const written = z.strictObject({
  changes: z.int(),
  /** The row id of the last inserted row; null when it is unknown or beyond 2^53. */
  last_row_id: z.int().nullable(),
  duration_ms: z.number(),
  /**
   * Rows of a statement that returns some, such as one with `RETURNING`. As in D1, integers beyond 2^53 are rounded in them.
   */
  columns: z.array(z.string()).optional(),
  rows: z.array(z.array(sqlValue)).optional(),
});
const imported = z.strictObject({ statements: z.int(), changes: z.int(), duration_ms: z.number() });
/**
 * One statement, or a page of a table. `sort` is a column; a leading `-` sorts it descending. `filter` is a condition in SQL.
 */
const tableQuery = {
  sql: sql.optional(),
  table: reference.optional(),
  sort: reference.optional(),
  filter: z.string().min(1).max(1000).optional(),
  ...page,
};
const table = z.strictObject({
  name: z.string(),
  type: z.string(),
  columns: z.array(
    z.strictObject({
      name: z.string(),
      type: z.string(),
      not_null: z.boolean(),
      /** The default value, as an SQL expression. */
      default: z.string().nullable(),
      /** Position of the column in the primary key, from 1; 0 for a column outside of the key. */
      primary_key: z.int(),
      generated: z.boolean(),
    }),
  ),
});
const rows = { columns: z.array(z.string()), rows: z.array(z.array(sqlValue)) };
const readErrors = [
  'storage_not_found',
  'query_failed',
  'query_timeout',
  'answer_too_large',
  'storage_unreadable',
  'host_unavailable',
] as const;
const writeErrors = ['storage_not_found', 'query_failed', 'app_unavailable', 'host_unavailable'] as const;
/** `id`: names the resource in other operations. `binding`: its binding in the live release; null without one. */
const named = { id: z.string(), binding: z.string().nullable() };
const kvKey = z.string().min(1).max(512);
const kvEntry = { expires_at: time.nullable(), metadata: z.unknown() };

/** A KV key, with the expiry and metadata of its value. The value itself is sent separately. */
export const kvValue = z.strictObject({
  id: reference,
  namespace_id: reference,
  key: kvKey,
  /** When the key expires: at least one minute in the future. */
  expires_at: time.optional(),
  /** Metadata of at most 1,024 bytes as JSON. */
  metadata: z.unknown().optional(),
});

export const storage = [
  operation({
    name: 'storage.overview',
    summary: "Lists an app's databases, object classes, namespaces, buckets and vector indexes",
    method: 'GET',
    path: '/v1/apps/:id/storage',
    needs: 'push',
    input: z.strictObject({ id: reference }),
    output: z.strictObject({
      /** `name`: `database_name` in the live release; null when there is none. */
      databases: z.array(z.strictObject({ ...named, name: z.string().nullable(), bytes: z.int() })),
      classes: z.array(z.strictObject({ class_name: z.string(), objects: z.int(), bytes: z.int() })),
      namespaces: z.array(z.strictObject({ ...named, keys: z.int(), bytes: z.int() })),
      queues: z.array(z.strictObject({ queue: z.string(), messages: z.int(), bytes: z.int() })),
      buckets: z.array(
        z.strictObject({
          bucket: z.string(),
          binding: z.string().nullable(),
          objects: z.int(),
          bytes: z.int(),
        }),
      ),
      vector_indexes: z.array(
        z.strictObject({
          index: z.string(),
          binding: z.string().nullable(),
          /** Number of dimensions; 0 until the first vector is inserted. */
          dimensions: z.int(),
          metric: z.string(),
          vectors: z.int(),
          bytes: z.int(),
        }),
      ),
    }),
    errors: readErrors,
  }),
  operation({
    name: 'storage.d1.get',
    summary: 'Queries a database, or pages through one of its tables',
    method: 'GET',
    path: '/v1/apps/:id/storage/d1/:database_id',
    needs: 'push',
    input: z.strictObject({ id: reference, database_id: reference, ...tableQuery }),
    output: z.strictObject({
      ...rows,
      next_cursor: z.string().nullable(),
      /** The list of tables, when neither `sql` nor `table` is given. */
      tables: z.array(table).optional(),
    }),
    errors: readErrors,
  }),
  operation({
    name: 'storage.d1.write',
    summary: 'Runs one statement that writes, or several in one transaction',
    method: 'POST',
    path: '/v1/apps/:id/storage/d1/:database_id/write',
    needs: 'push',
    destroys: true,
    input: z.strictObject({
      id: reference,
      database_id: reference,
      sql: sql.optional(),
      params: statement.params,
      statements: z.array(z.strictObject(statement)).min(1).max(100).optional(),
    }),
    output: z.union([written, z.array(written)]),
    errors: writeErrors,
  }),
  operation({
    name: 'storage.d1.export',
    summary: 'Exports a database as SQL: its schema and its rows',
    method: 'GET',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      database_id: reference,
      /** Exports only these tables, with their indexes and triggers. Left out: the whole database. */
      tables: z.array(z.string().min(1).max(256)).min(1).max(100).optional(),
    }),
    output: z.strictObject({ sql: z.string() }),
    errors: readErrors,
  }),
  operation({
    name: 'storage.d1.import',
    summary: 'Runs a file of SQL in one transaction',
    method: 'POST',
    needs: 'push',
    destroys: true,
    input: z.strictObject({
      id: reference,
      database_id: reference,
      /** Each statement may have 100,000 bytes. Its string and blob literals do not count. */
      sql: z.string().min(1),
    }),
    output: imported,
    bodyLimit: D1_SQL_BYTES,
    errors: writeErrors,
  }),
  operation({
    name: 'storage.do.get',
    summary: 'Lists the objects of a class, or reads the storage of one',
    method: 'GET',
    path: '/v1/apps/:id/storage/do/:class_name',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      class_name: reference,
      object_id: reference.optional(),
      name: z.string().min(1).max(1024).optional(),
      key: z.string().max(2048).optional(),
      ...tableQuery,
    }),
    queryNames: { id: 'object_id' },
    output: z.strictObject({
      /** The requested object; null in a list of objects. */
      object: z
        .strictObject({
          id: z.string(),
          name: z.string().nullable(),
          bytes: z.int(),
          next_alarm: time.nullable(),
          tables: z.array(table),
        })
        .nullable(),
      /** Objects of the class, or the keys of one object: `{key, bytes, value}`. */
      items: z.array(z.record(z.string(), z.unknown())),
      columns: rows.columns.optional(),
      rows: rows.rows.optional(),
      next_cursor: z.string().nullable(),
    }),
    errors: readErrors,
  }),
  operation({
    name: 'storage.kv.list',
    summary: "Lists a namespace's keys",
    method: 'GET',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      namespace_id: reference,
      prefix: z.string().max(512).optional(),
      ...page,
    }),
    output: listOf(
      z.strictObject({
        key: z.string(),
        /** Size of the value; null for a value of more than 64 KiB, which is stored in its own file. */
        bytes: z.int().nullable(),
        ...kvEntry,
      }),
    ),
    errors: readErrors,
  }),
  operation({
    name: 'storage.kv.get',
    summary: 'Reads the value of a key',
    method: 'GET',
    needs: 'push',
    input: z.strictObject({ id: reference, namespace_id: reference, key: kvKey }),
    output: z.strictObject({ key: z.string(), value_base64: z.string(), ...kvEntry }),
    errors: readErrors,
  }),
  operation({
    name: 'storage.kv.put',
    summary: 'Sets the value of a key',
    method: 'POST',
    needs: 'push',
    destroys: true,
    input: kvValue.extend({ value_base64: z.base64() }),
    output: z.strictObject({ key: z.string() }),
    errors: writeErrors,
  }),
  operation({
    name: 'storage.kv.delete',
    summary: 'Deletes a key; succeeds for a missing key',
    method: 'DELETE',
    needs: 'push',
    input: z.strictObject({ id: reference, namespace_id: reference, key: kvKey }),
    output: nothing,
    errors: writeErrors,
  }),
] as const;
