// The vector indexes of an app. RPC only: the arguments and answers are those of Cloudflare's API.
import * as z from 'zod';
import { reference } from '../fields.ts';
import { operation } from '../operation.ts';

/** Calls that only read an index. */
export const vectorReads = ['info', 'query', 'getByIds', 'list', 'settings', 'properties'] as const;
/** Calls that change an index. */
export const vectorWrites = [
  'insert',
  'upsert',
  'deleteByIds',
  'configure',
  'addProperty',
  'removeProperty',
] as const;

const given = z.record(z.string().max(64), z.unknown()).optional();
const metadata = z.record(z.string(), z.unknown()).optional();
const settings = z.strictObject({
  /** Number of dimensions; 0 until the first vector is inserted. */
  dimensions: z.int(),
  metric: z.enum(['cosine', 'euclidean', 'dot-product']),
  vectors: z.int(),
  bytes: z.int(),
});
const vector = { id: z.string(), namespace: z.string().optional(), metadata };
const numbers = z.array(z.number());
const readAnswer = z.union([
  z.strictObject({
    vectorCount: z.int(),
    dimensions: z.int(),
    processedUpToDatetime: z.string().optional(),
    processedUpToMutation: z.string().optional(),
  }),
  z.strictObject({
    count: z.int(),
    matches: z.array(z.strictObject({ ...vector, score: z.number(), values: numbers.optional() })),
  }),
  z.array(z.strictObject({ ...vector, values: numbers })),
  z.strictObject({
    count: z.int(),
    totalCount: z.int(),
    isTruncated: z.boolean(),
    nextCursor: z.string().optional(),
    vectors: z.array(z.strictObject({ id: z.string() })),
  }),
  settings,
  z.strictObject({
    metadataIndexes: z.array(
      z.strictObject({ propertyName: z.string(), indexType: z.enum(['string', 'number', 'boolean']) }),
    ),
  }),
]);

export const vectors = [
  operation({
    name: 'storage.vectorize.read',
    summary: 'Searches, reads or describes the vectors of an index',
    method: 'GET',
    needs: 'push',
    input: z.strictObject({ id: reference, index: reference, call: z.enum(vectorReads), arguments: given }),
    output: readAnswer,
    errors: ['storage_not_found', 'invalid_input', 'host_unavailable'],
  }),
  operation({
    name: 'storage.vectorize.write',
    summary: 'Inserts or deletes vectors of an index, or changes its settings',
    method: 'POST',
    needs: 'push',
    destroys: true,
    input: z.strictObject({ id: reference, index: reference, call: z.enum(vectorWrites), arguments: given }),
    output: z.union([z.strictObject({ mutationId: z.string() }), settings]),
    errors: ['storage_not_found', 'invalid_input', 'quota_exceeded', 'host_unavailable'],
  }),
];
