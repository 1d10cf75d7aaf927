// The objects in an app's buckets.
import * as z from 'zod';
import { nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { R2_BODY_BYTES, R2_PARTS } from '../sizes.ts';

const objectKey = z.string().min(1).max(1024);
const uploadId = z.string().regex(/^[\w-]{1,200}$/);
const partNumber = z.int().min(1).max(R2_PARTS);
/** Headers and metadata of an object, set when the object is stored. */
const objectHeaders = {
  content_type: z.string().max(200).optional(),
  /** Custom metadata of the app. */
  metadata: z.record(z.string().max(1024), z.string().max(8192)).optional(),
};
/** Query of the route for an object's bytes: the object, or one part of an upload. */
export const objectBytes = z.strictObject({
  id: reference,
  bucket: reference,
  key: objectKey,
  upload_id: uploadId.optional(),
  part: partNumber.optional(),
});
/** Metadata of an object in a bucket. */
const described = {
  key: z.string(),
  size: z.int(),
  etag: z.string(),
  uploaded_at: time,
  content_type: z.string().nullable(),
  metadata: z.record(z.string(), z.string()),
};

const putErrors = ['storage_not_found', 'quota_exceeded', 'host_unavailable'] as const;

export const buckets = [
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
      /**
       * Groups keys that have the same text between `prefix` and this delimiter. Each group is listed once, in `prefixes`.
       * `/` groups keys by folder.
       */
      delimiter: z.string().min(1).max(16).optional(),
      ...page,
    }),
    output: z.strictObject({
      items: z.array(z.strictObject({ key: z.string(), size: z.int(), etag: z.string(), uploaded_at: time })),
      next_cursor: z.string().nullable(),
      /** The groups of keys; only with a `delimiter`. */
      prefixes: z.array(z.string()).optional(),
    }),
    errors: ['storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.get',
    summary: 'Reads one object with its metadata',
    method: 'GET',
    path: '/v1/apps/:id/storage/r2/:bucket/object',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey }),
    output: z.strictObject({
      ...described,
      /** Null for an object of more than 1 MiB: use `storage.r2.raw`. */
      content_base64: z.string().nullable(),
    }),
    errors: ['storage_not_found', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.delete',
    summary: 'Deletes one object',
    method: 'DELETE',
    path: '/v1/apps/:id/storage/r2/:bucket/object',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey }),
    output: nothing,
    errors: ['storage_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'storage.r2.raw',
    summary: "Reads one object's bytes",
    method: 'GET',
    path: '/v1/apps/:id/storage/r2/:bucket/raw',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      bucket: reference,
      key: objectKey,
      /** A byte range as in HTTP, such as `bytes=0-1023`. In REST, the header `Range`. */
      range: z.string().max(100).optional(),
    }),
    output: z.strictObject({ content_base64: z.string() }),
    kind: 'bytes',
    errors: [
      'storage_not_found',
      'transition_conflict',
      'file_too_large',
      'range_not_satisfiable',
      'host_unavailable',
    ],
  }),
  operation({
    name: 'storage.r2.put',
    summary: 'Creates or replaces one object',
    method: 'POST',
    needs: 'push',
    destroys: true,
    input: z.strictObject({
      id: reference,
      bucket: reference,
      key: objectKey,
      content_base64: z.base64(),
      ...objectHeaders,
    }),
    output: z.strictObject(described),
    bodyLimit: R2_BODY_BYTES,
    errors: putErrors,
  }),
  operation({
    name: 'storage.r2.create_upload',
    summary: 'Begins an upload in parts, which `PUT …/raw` with its id takes one by one',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey, ...objectHeaders }),
    output: z.strictObject({ upload_id: z.string() }),
    status: 201,
    errors: putErrors,
  }),
  operation({
    name: 'storage.r2.complete_upload',
    summary: 'Joins the parts of an upload to one object, which replaces an existing one',
    method: 'POST',
    needs: 'push',
    destroys: true,
    input: z.strictObject({
      id: reference,
      bucket: reference,
      key: objectKey,
      upload_id: uploadId,
      /** All parts except the last must have the same size, at least 5 MiB. */
      parts: z
        .array(z.strictObject({ part: partNumber, etag: z.string().max(200) }))
        .min(1)
        .max(R2_PARTS)
        .refine((parts) => new Set(parts.map(({ part }) => part)).size === parts.length, {
          error: 'names a part twice',
        }),
    }),
    output: z.strictObject(described),
    errors: putErrors,
  }),
  operation({
    name: 'storage.r2.abort_upload',
    summary: 'Aborts an upload in parts, and removes its parts',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, bucket: reference, key: objectKey, upload_id: uploadId }),
    output: nothing,
    errors: ['storage_not_found', 'host_unavailable'],
  }),
] as const;
