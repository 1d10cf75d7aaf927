// The log of an app, with lines of its builds and of the supervisor of its process.
import * as z from 'zod';
import { listOf, moment, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { lastEventId } from './events.ts';

const logLevel = z.enum(['debug', 'info', 'warn', 'error']);
/** A case-insensitive search text, matched against lines and their fields. */
const search = z.string().min(1).max(200);
export const LogLine = z.strictObject({
  /** Increases with each line of the app. */
  id: z.string(),
  at: time,
  level: logLevel,
  /** The origin: the app, its workerd process, a deploy, or the supervisor of its process. */
  source: z.enum(['app', 'workerd', 'build', 'supervisor']),
  /** The text, which may have several lines. */
  text: z.string(),
  fields: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).nullable(),
  /** The trace of the line's request, as reported by the app. */
  trace_id: z.string().nullable(),
  /** The deploy whose release printed the line, or the deploy that a line of the host is about; null without a deploy. */
  release: z.string().nullable(),
});
export type LogLine = z.output<typeof LogLine>;

export const logs = [
  operation({
    name: 'logs.list',
    summary: 'Lists the log of the last 24 hours, newest first',
    method: 'GET',
    path: '/v1/apps/:id/logs',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      /** Reads the log of this preview instead of the app's. */
      preview: reference.optional(),
      search: search.optional(),
      /** Lines at or after this time. */
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
    errors: ['preview_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'logs.stream',
    summary: 'Streams the log as it is written',
    method: 'GET',
    path: '/v1/apps/:id/logs/stream',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      /** Reads the log of this preview instead of the app's. */
      preview: reference.optional(),
      search: search.optional(),
      /** Lines of this level or above. */
      level: logLevel.optional(),
      last_event_id: lastEventId,
    }),
    output: LogLine,
    kind: 'stream',
    errors: ['preview_not_found', 'rate_limited', 'host_unavailable'],
  }),
] as const;
