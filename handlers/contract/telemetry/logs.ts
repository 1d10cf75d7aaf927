// What an app and those around it say.
import * as z from 'zod';
import { listOf, moment, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { lastEventId } from './events.ts';

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

export const logs = [
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
] as const;
