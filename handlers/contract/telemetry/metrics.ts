// Figures of an app: metrics, breakdowns, data points and spans.
import * as z from 'zod';
import { listOf, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Length of the time range in hours; the range ends now. */
const hours = z.int().min(1).max(720).default(24);
const range = { id: reference, hours, ...page };

/** `requests`: all requests. `errors`: requests with a 5xx response. A maintenance page is not an error. */
const counts = { requests: z.int(), errors: z.int() };

/** Metrics of one time step. Times are in ms; percentiles and mean are null where nothing was measured. */
export const MetricStep = z.strictObject({
  /** Start of the step. */
  at: time,
  requests: z.int(),
  /** Requests that the app or the gateway answered with 5xx, except by a maintenance page. */
  errors: z.int(),
  /** Requests that were answered with 4xx. */
  client_errors: z.int(),
  /** The responses with status 429; `client_errors` counts them too. */
  rate_limited: z.int(),
  /** The responses with status 503 because memory was short; `errors` counts them too. */
  shed: z.int(),
  duration_ms_p50: z.number().nullable(),
  duration_ms_p90: z.number().nullable(),
  duration_ms_p95: z.number().nullable(),
  duration_ms_p99: z.number().nullable(),
  duration_ms_mean: z.number().nullable(),
  bytes_in: z.int(),
  bytes_out: z.int(),
  cpu_ms: z.int(),
  /** Peak memory; null while no process ran. */
  memory_bytes: z.int().nullable(),
  /** Starts of the app's process after the app was idle. */
  wakes: z.int(),
  /** Total time that requests waited in the request queue. */
  held_ms: z.int(),
});

/** One request. */
export const Span = z.strictObject({
  trace_id: z.string(),
  span_id: z.string(),
  /** The sender's span, when the request had a traceparent. */
  parent_span_id: z.string().nullable(),
  kind: z.literal('fleet.fetch'),
  name: z.string(),
  method: z.string(),
  /** Without the query. */
  path: z.string(),
  status: z.int(),
  /** Why the gateway answered without the app; null when the app answered. */
  refused: z.string().nullable(),
  started_at: time,
  duration_ms: z.number(),
  /** Part of the duration: the time in the request queue. */
  held_ms: z.int(),
  /** Duration of the process start that the request waited for; 0 when it did not wait for a start. */
  wake_ms: z.int(),
  bytes_in: z.int(),
  bytes_out: z.int(),
  /** `cold`: the request waited for the start of the app's process. `warm`: it did not. Null: it reached no process. */
  cell_start: z.enum(['warm', 'cold']).nullable(),
  /** The deploy whose release answered. */
  release: z.string().nullable(),
});

export const metrics = [
  operation({
    name: 'metrics.get',
    summary: 'Reads the minute buckets of an app, merged into steps',
    method: 'GET',
    path: '/v1/apps/:id/metrics',
    needs: 'view',
    input: z.strictObject({ id: reference, hours }),
    output: z.strictObject({
      /** Length of one step in seconds: longer for long ranges. */
      step_s: z.int(),
      items: z.array(MetricStep),
      next_cursor: z.null(),
    }),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'metrics.version',
    summary: 'Reads the schema version of the metrics, and the time of the last figure',
    method: 'GET',
    path: '/v1/apps/:id/metrics/version',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: z.strictObject({
      /** Changes when the meaning of the figures changes. */
      schema: z.int(),
      /** Time of the last figure; null when there is none. */
      watermark: time.nullable(),
    }),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'devices.list',
    summary: 'Counts requests by device, client and operating system; the largest count first',
    method: 'GET',
    path: '/v1/apps/:id/devices',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** `program`: a client other than a browser, such as curl. `other`: requests beyond the limit of entries. */
        kind: z.enum(['desktop', 'mobile', 'tablet', 'tv', 'bot', 'program', 'unknown', 'other']),
        client: z.string().nullable(),
        os: z.string().nullable(),
        ...counts,
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'paths.list',
    summary: 'Counts requests by path, with ids in paths replaced by a placeholder; the largest count first',
    method: 'GET',
    path: '/v1/apps/:id/paths',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** Such as `/users/:id`; null for the requests beyond the limit of entries. */
        path: z.string().nullable(),
        ...counts,
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'refs.list',
    summary: 'Counts requests by the host that referred to them; the largest count first',
    method: 'GET',
    path: '/v1/apps/:id/refs',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** A hostname; null for `none` and `other`. */
        referrer: z.string().nullable(),
        /** `own`: one of the app's hosts. `none`: no referrer was sent. `other`: requests beyond the limit of entries. */
        source: z.enum(['site', 'own', 'none', 'other']),
        ...counts,
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'countries.list',
    summary: "Counts requests by the client's country; the largest count first",
    method: 'GET',
    path: '/v1/apps/:id/countries',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** Two letters of ISO 3166, such as `DE`; null where it is unknown. */
        country: z.string().nullable(),
        ...counts,
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'datapoints.list',
    summary: 'Lists the data points that the Worker wrote by bindings of Analytics Engine, newest first',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({
      ...range,
      /** Reads only this dataset. */
      dataset: z.string().max(256).optional(),
      /** Reads only points with this index. */
      index: z.string().max(256).optional(),
    }),
    output: listOf(
      z.strictObject({
        at: time,
        dataset: z.string(),
        index: z.string().nullable(),
        blobs: z.array(z.string().nullable()),
        /** The numbers of the data point; null for a number that is not finite. */
        doubles: z.array(z.number().nullable()),
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'spans.list',
    summary: 'Lists requests that took a second or more, or failed, newest first',
    method: 'GET',
    path: '/v1/apps/:id/spans',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(Span),
    errors: ['host_unavailable'],
  }),
] as const;
