// An app's databases, objects and buckets, looked into.
import * as z from 'zod';
import { listOf, nothing, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

/** What SQLite stores; bytes travel as base64 text. */
const sqlValue = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const sql = z.string().min(1).max(100_000);
const statement = { sql, params: z.array(sqlValue).max(100).optional() };
const written = z.strictObject({
  changes: z.int(),
  last_row_id: z.int().nullable(),
  duration_ms: z.number(),
});
const objectKey = z.string().min(1).max(1024);

export const storage = [
  operation({
    name: 'storage.overview',
    summary: "Lists an app's databases, object classes, namespaces and buckets",
    method: 'GET',
    path: '/v1/apps/:id/storage',
    needs: 'push',
    input: z.strictObject({ id: reference }),
    output: z.strictObject({
      databases: z.array(z.strictObject({ id: z.string(), binding: z.string(), bytes: z.int() })),
      classes: z.array(z.strictObject({ class_name: z.string(), objects: z.int(), bytes: z.int() })),
      buckets: z.array(z.strictObject({ bucket: z.string(), binding: z.string() })),
    }),
    status: 200,
    errors: ['app_not_found'],
  }),
  operation({
    name: 'storage.d1.get',
    summary: 'Queries a database, or pages through one of its tables',
    method: 'GET',
    path: '/v1/apps/:id/storage/d1/:database_id',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      database_id: reference,
      sql: sql.optional(),
      table: reference.optional(),
      sort: reference.optional(),
      filter: z.string().max(1000).optional(),
      ...page,
    }),
    output: z.strictObject({
      columns: z.array(z.string()),
      rows: z.array(z.array(sqlValue)),
      next_cursor: z.string().nullable(),
    }),
    status: 200,
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.d1.write',
    summary: 'Runs one statement that writes, or several in one transaction',
    method: 'POST',
    path: '/v1/apps/:id/storage/d1/:database_id/write',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      database_id: reference,
      sql: sql.optional(),
      params: statement.params,
      statements: z.array(z.strictObject(statement)).min(1).max(100).optional(),
    }),
    output: z.union([written, z.array(written)]),
    status: 200,
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.do.get',
    summary: 'Lists the objects of a class, or reads what one of them keeps',
    method: 'GET',
    path: '/v1/apps/:id/storage/do/:class_name',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      class_name: reference,
      object_id: reference.optional(),
      name: z.string().min(1).max(1024).optional(),
      ...page,
    }),
    queryNames: { id: 'object_id' },
    output: listOf(z.record(z.string(), z.unknown())),
    status: 200,
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.list',
    summary: "Lists a bucket's keys",
    method: 'GET',
    path: '/v1/apps/:id/storage/r2/:bucket',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      bucket: reference,
      prefix: z.string().max(1024).optional(),
      ...page,
    }),
    output: listOf(z.strictObject({ key: z.string(), size: z.int(), etag: z.string(), uploaded_at: time })),
    status: 200,
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.get',
    summary: 'Reads one object with its metadata',
    method: 'GET',
    path: '/v1/apps/:id/storage/r2/:bucket/object',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey }),
    output: z.strictObject({
      key: z.string(),
      size: z.int(),
      etag: z.string(),
      uploaded_at: time,
      content_type: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
      content_base64: z.string().nullable(),
    }),
    status: 200,
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.delete',
    summary: 'Deletes one object',
    method: 'DELETE',
    path: '/v1/apps/:id/storage/r2/:bucket/object',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey }),
    output: nothing,
    status: 204,
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.raw',
    summary: "Reads one object's bytes",
    method: 'GET',
    path: '/v1/apps/:id/storage/r2/:bucket/raw',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey }),
    output: z.strictObject({ content_base64: z.string() }),
    status: 200,
    kind: 'bytes',
    errors: ['app_not_found', 'storage_not_found', 'host_unavailable'],
  }),
] as const;
