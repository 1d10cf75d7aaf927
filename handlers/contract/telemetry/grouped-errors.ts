// The errors of an app. Occurrences of the same error form one group.
import * as z from 'zod';
import { listOf, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { lastEventId } from './events.ts';

const errorStatus = z.enum(['open', 'resolved', 'ignored']);
/** Where and how an error occurred, as reported by the app. */
const circumstances = {
  message: z.string(),
  /** The topmost stack frame in the project's own files, such as `src/index.ts:12:9`. */
  place: z.string().nullable(),
  /** How the error was noticed, such as `uncaught`, `unhandledrejection`, `waitUntil`, `console`, `load` or `crash`. */
  mechanism: z.string(),
  /** The called handler, such as `fetch`, `scheduled` or `Room.alarm`. */
  handler: z.string().nullable(),
  method: z.string().nullable(),
  path: z.string().nullable(),
  trace_id: z.string().nullable(),
};
export const GroupedError = z.strictObject({
  fingerprint: z.string(),
  /** The type of the error, such as `TypeError`. */
  kind: z.string(),
  /** The circumstances of the last occurrence. */
  ...circumstances,
  count: z.int(),
  status: errorStatus,
  /** Time at which an occurrence on a newer release reopened the resolved error; null if none did. */
  regressed_at: time.nullable(),
  first_seen_at: time,
  last_seen_at: time,
  /** The deploy whose release had the first occurrence. */
  first_release: z.string().nullable(),
  /** The newest of the deploys whose releases had an occurrence. */
  last_release: z.string().nullable(),
  /** Occurrences in each of the last 24 hours, the current hour last. */
  sparkline: z.array(z.int()).length(24),
});
export type GroupedError = z.output<typeof GroupedError>;
/** One of the last occurrences, with the log lines of the same trace. */
const ErrorOccurrence = z.strictObject({
  at: time,
  ...circumstances,
  /** The stack trace, with positions in the project's source files. */
  stack: z.string().nullable(),
  release: z.string().nullable(),
  log: z.array(z.strictObject({ at: time, level: z.string(), text: z.string() })),
});

export const groupedErrors = [
  operation({
    name: 'errors.list',
    summary: 'Lists grouped errors with a status, most recent first',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      /** Reads the errors of this preview instead of the app's. */
      preview: reference.optional(),
      status: errorStatus.default('open'),
      ...page,
    }),
    output: listOf(GroupedError),
    errors: ['preview_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'errors.get',
    summary: 'Reads one grouped error with its last 20 occurrences: stack, request, release and log',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference, preview: reference.optional(), fingerprint: reference }),
    output: z.strictObject({ ...GroupedError.shape, occurrences: z.array(ErrorOccurrence) }),
    errors: ['preview_not_found', 'error_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'errors.set_status',
    summary: 'Resolves, ignores or reopens a grouped error',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, fingerprint: reference, status: errorStatus }),
    output: GroupedError,
    errors: ['error_not_found', 'host_unavailable'],
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
    kind: 'stream',
    errors: ['rate_limited', 'host_unavailable'],
  }),
] as const;
