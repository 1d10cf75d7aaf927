// What an app did: figures, spans, logs, errors.
import * as z from 'zod';
import { lastEventId } from './events.ts';
import { listOf, moment, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

/** How far to look back. */
const hours = z.int().min(1).max(720).default(24);
const range = { id: reference, hours, ...page };

/** Requests, and how many of them were answered with 5xx. */
const counts = { requests: z.int(), errors: z.int() };

/** What an app did in one step. Times are in ms; percentiles and mean are null where nothing was timed. */
export const MetricStep = z.strictObject({
  /** When it begins. */
  at: time,
  requests: z.int(),
  /** Answered with 5xx, by the app or for it. */
  errors: z.int(),
  /** Answered with 4xx. */
  client_errors: z.int(),
  /** Of these, with 429. */
  rate_limited: z.int(),
  /** Of the errors: 503, because there was no room. */
  shed: z.int(),
  duration_ms_p50: z.number().nullable(),
  duration_ms_p90: z.number().nullable(),
  duration_ms_p99: z.number().nullable(),
  duration_ms_mean: z.number().nullable(),
  bytes_in: z.int(),
  bytes_out: z.int(),
  cpu_ms: z.int(),
  /** The most at any time; null while no process ran. */
  memory_bytes: z.int().nullable(),
  /** Starts of a process after a rest. */
  wakes: z.int(),
  /** Time that requests were held, added up. */
  held_ms: z.int(),
});

export const errorStatus = z.enum(['open', 'resolved', 'ignored']);
/** Where and how an error occurred, as far as the app tells. */
const circumstances = {
  message: z.string(),
  /** The uppermost place in the project's own files, such as `src/index.ts:12:9`. */
  place: z.string().nullable(),
  /** How it was noticed, such as `uncaught`, `unhandledrejection`, `waitUntil`, `console`, `load` or `crash`. */
  mechanism: z.string(),
  /** What was called, such as `fetch`, `scheduled` or `Room.alarm`. */
  handler: z.string().nullable(),
  method: z.string().nullable(),
  path: z.string().nullable(),
  trace_id: z.string().nullable(),
};
export const GroupedError = z.strictObject({
  fingerprint: z.string(),
  /** Its type, such as `TypeError`. */
  kind: z.string(),
  /** These are of the last occurrence. */
  ...circumstances,
  count: z.int(),
  status: errorStatus,
  /** When it was seen on a newer release than the one it was resolved in; null unless it is open for that. */
  regressed_at: time.nullable(),
  first_seen_at: time,
  last_seen_at: time,
  /** Deploys: that of the first occurrence, and the newest with one. */
  first_release: z.string().nullable(),
  last_release: z.string().nullable(),
  /** How many there were in each of the last 24 hours, the present one last. */
  sparkline: z.array(z.int()).length(24),
});
export type GroupedError = z.output<typeof GroupedError>;
/** One of the last occurrences, with the lines of the log of the same trace. */
const ErrorOccurrence = z.strictObject({
  at: time,
  ...circumstances,
  /** With the places in the project's files. */
  stack: z.string().nullable(),
  release: z.string().nullable(),
  log: z.array(z.strictObject({ at: time, level: z.string(), text: z.string() })),
});
const logLevel = z.enum(['debug', 'info', 'warn', 'error']);
/** A text that lines have in them or in their fields, in lower or upper case. */
const search = z.string().min(1).max(200);
export const LogLine = z.strictObject({
  /** Rises with each line of the app. */
  id: z.string(),
  at: time,
  level: logLevel,
  /** Who says it: the app, workerd that runs it, a deploy of it, or the supervisor of its process. */
  source: z.enum(['app', 'workerd', 'build', 'supervisor']),
  /** May have several lines. */
  text: z.string(),
  fields: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).nullable(),
  /** The request it belongs to, as the app says. */
  trace_id: z.string().nullable(),
  /** The deploy whose release says it. */
  release: z.string().nullable(),
});
export type LogLine = z.output<typeof LogLine>;

export const telemetry = [
  operation({
    name: 'metrics.get',
    summary: 'Reads the minute buckets of an app, merged into steps',
    method: 'GET',
    path: '/v1/apps/:id/metrics',
    needs: 'view',
    input: z.strictObject({ id: reference, hours }),
    output: z.strictObject({
      /** Seconds of one item: coarser for long ranges. */
      step_s: z.int(),
      items: z.array(MetricStep),
      next_cursor: z.null(),
    }),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'metrics.version',
    summary: 'Says which schema the metrics have and how far they reach',
    method: 'GET',
    path: '/v1/apps/:id/metrics/version',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: z.strictObject({
      /** Another number when the figures mean something else. */
      schema: z.int(),
      /** When something was counted last; null when nothing is kept. */
      watermark: time.nullable(),
    }),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'devices.list',
    summary: 'Counts requests by device, client and system, most first',
    method: 'GET',
    path: '/v1/apps/:id/devices',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** `program`: a client that is no browser, such as curl. `other`: all that had no room of their own. */
        kind: z.enum(['desktop', 'mobile', 'tablet', 'tv', 'bot', 'program', 'unknown', 'other']),
        client: z.string().nullable(),
        os: z.string().nullable(),
        ...counts,
      }),
    ),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'paths.list',
    summary: 'Counts requests by path, ids in it folded, most first',
    method: 'GET',
    path: '/v1/apps/:id/paths',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** Such as `/users/:id`; null for all that had no room of their own. */
        path: z.string().nullable(),
        ...counts,
      }),
    ),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'refs.list',
    summary: 'Counts requests by the host that referred to them, most first',
    method: 'GET',
    path: '/v1/apps/:id/refs',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        /** A host name; null for `none` and `other`. */
        referrer: z.string().nullable(),
        /** `own`: one of the app's hosts. `none`: no referrer was sent. `other`: all that had no room of their own. */
        source: z.enum(['site', 'own', 'none', 'other']),
        ...counts,
      }),
    ),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'datapoints.list',
    summary: 'Lists what the Worker wrote by bindings of Analytics Engine, newest first',
    method: 'GET',
    path: null,
    needs: 'view',
    input: z.strictObject({
      ...range,
      /** Of this one alone. */
      dataset: z.string().max(256).optional(),
      /** With this index alone. */
      index: z.string().max(256).optional(),
    }),
    output: listOf(
      z.strictObject({
        at: time,
        dataset: z.string(),
        index: z.string().nullable(),
        blobs: z.array(z.string().nullable()),
        /** Null: no finite number. */
        doubles: z.array(z.number().nullable()),
      }),
    ),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'spans.list',
    summary: 'Lists requests that took a second or more, or failed, newest first',
    method: 'GET',
    path: '/v1/apps/:id/spans',
    needs: 'view',
    input: z.strictObject(range),
    output: listOf(
      z.strictObject({
        trace_id: z.string(),
        span_id: z.string(),
        /** Of whoever sent the request with a traceparent. */
        parent_span_id: z.string().nullable(),
        kind: z.literal('fleet.fetch'),
        name: z.string(),
        method: z.string(),
        /** Without the query. */
        path: z.string(),
        status: z.int(),
        /** Why the gateway answered by itself; null when it did not. */
        refused: z.string().nullable(),
        started_at: time,
        duration_ms: z.number(),
        /** Of the duration: how long the request was held. */
        held_ms: z.int(),
        /** What the start took that it waited for; 0 when it waited for none. */
        wake_ms: z.int(),
        bytes_in: z.int(),
        bytes_out: z.int(),
        /** Whether it waited for the start of its process; null when it reached none. */
        cell_start: z.enum(['warm', 'cold']).nullable(),
        /** The deploy whose release answered. */
        release: z.string().nullable(),
      }),
    ),
    status: 200,
    errors: ['app_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'logs.list',
    summary: 'Lists the log of the last 24 hours, newest first',
    method: 'GET',
    path: '/v1/apps/:id/logs',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      /** The log of this preview in place of the app's. */
      preview: reference.optional(),
      search: search.optional(),
      /** Lines of this time or later. */
      since: moment.optional(),
      /** Lines before this time. */
      until: moment.optional(),
      /** Lines of this level or above. */
      level: logLevel.optional(),
      trace_id: z
        .string()
        .regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits in lower case')
        .optional(),
      ...page,
    }),
    output: listOf(LogLine),
    status: 200,
    errors: ['app_not_found', 'preview_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'logs.stream',
    summary: 'Streams the log as it is written',
    method: 'GET',
    path: '/v1/apps/:id/logs/stream',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      /** The log of this preview in place of the app's. */
      preview: reference.optional(),
      search: search.optional(),
      /** Lines of this level or above. */
      level: logLevel.optional(),
      last_event_id: lastEventId,
    }),
    output: LogLine,
    status: 200,
    kind: 'stream',
    errors: ['app_not_found', 'preview_not_found', 'rate_limited', 'host_unavailable'],
  }),
  operation({
    name: 'errors.list',
    summary: 'Lists grouped errors in a status, seen last first',
    method: 'GET',
    path: null,
    needs: 'view',
    input: z.strictObject({
      id: reference,
      /** The errors of this preview in place of the app's. */
      preview: reference.optional(),
      status: errorStatus.default('open'),
      ...page,
    }),
    output: listOf(GroupedError),
    status: 200,
    errors: ['app_not_found', 'preview_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'errors.get',
    summary: 'Reads one grouped error with its last 20 occurrences: stack, request, release and log',
    method: 'GET',
    path: null,
    needs: 'view',
    input: z.strictObject({ id: reference, preview: reference.optional(), fingerprint: reference }),
    output: z.strictObject({ ...GroupedError.shape, occurrences: z.array(ErrorOccurrence) }),
    status: 200,
    errors: ['app_not_found', 'preview_not_found', 'error_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'errors.set_status',
    summary: 'Resolves, ignores or reopens a grouped error',
    method: 'POST',
    path: null,
    needs: 'push',
    input: z.strictObject({ id: reference, fingerprint: reference, status: errorStatus }),
    output: GroupedError,
    status: 200,
    errors: ['app_not_found', 'error_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'errors.stream',
    summary: 'Streams the grouped errors in a status as they change',
    method: 'GET',
    path: '/v1/apps/:id/errors/stream',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      status: errorStatus.default('open'),
      last_event_id: lastEventId,
    }),
    output: GroupedError,
    status: 200,
    kind: 'stream',
    errors: ['app_not_found', 'rate_limited', 'host_unavailable'],
  }),
] as const;
