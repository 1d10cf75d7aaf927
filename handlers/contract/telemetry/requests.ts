// Single requests of an app, and the calls that they waited for.
import * as z from 'zod';
import { listOf, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { Span } from './metrics.ts';

/** Kinds of calls that a request can wait for. */
export const CALL_KINDS = [
  'd1',
  'kv',
  'r2',
  'object',
  'queue',
  'workflow',
  'service',
  'ai',
  'fetch',
] as const;
export type CallKind = (typeof CALL_KINDS)[number];

/** A call that a request waited for, as reported by the app's process. */
export const Call = z.strictObject({
  kind: z.enum(CALL_KINDS),
  /** The method, such as `D1.all`. */
  name: z.string(),
  /** The SQL without its values, or the address without its query; null for other kinds. */
  detail: z.string().nullable(),
  /** The handler that called, such as `fetch` or `Room.alarm`. */
  handler: z.string(),
  started_at: time,
  /** Duration in whole ms. */
  duration_ms: z.int(),
  failed: z.boolean(),
});
export type Call = z.output<typeof Call>;

export const requests = [
  operation({
    name: 'requests.list',
    summary: 'Lists requests of the last 24 hours, newest first; above 100 requests a second, only a sample',
    method: 'GET',
    path: '/v1/apps/:id/requests',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      hours: z.int().min(1).max(24).default(24),
      method: z
        .string()
        .regex(/^[A-Z]{1,20}$/, 'must be a method in capitals, such as POST')
        .optional(),
      status: z
        .string()
        .regex(/^[1-5](xx|\d\d)$/, 'must be a status such as 404, or a class such as 5xx')
        .optional(),
      /** A part of the path. */
      path: z.string().min(1).max(200).optional(),
      /** Minimum duration, in ms. */
      min_ms: z.int().min(1).max(86_400_000).optional(),
      cell_start: z.enum(['warm', 'cold']).optional(),
      ...page,
    }),
    output: listOf(
      z.strictObject({
        ...Span.shape,
        /** Requests before this one that the sample leaves out. */
        skipped: z.int(),
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'traces.get',
    summary: 'Reads the requests of a trace, and the calls that they waited for',
    method: 'GET',
    path: '/v1/apps/:id/traces/:trace_id',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      trace_id: z.string().regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits in lower case'),
    }),
    /** Both lists are empty for a trace that is not stored. */
    output: z.strictObject({ spans: z.array(Span), calls: z.array(Call) }),
    errors: ['host_unavailable'],
  }),
] as const;
