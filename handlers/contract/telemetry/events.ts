// Product events, their users, and insights.
import * as z from 'zod';
import { id, listOf, moment, page, reference, text, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { PROPERTIES_BYTES, TAGS_BYTES } from '../sizes.ts';
import { byteLength } from '../text.ts';

const key = text(100);
const scalar = z.union([z.string().max(2000), z.number(), z.boolean()]);
const tags = z
  .record(key, scalar)
  .refine((value) => Object.keys(value).length <= 50, { error: 'must have at most 50 entries' })
  .refine((value) => byteLength(JSON.stringify(value)) <= TAGS_BYTES, {
    error: `must have at most ${TAGS_BYTES} bytes as JSON`,
  });
export const Event = z.strictObject({
  id,
  app_id: id,
  channel: z.string(),
  event: z.string(),
  description: z.string().nullable(),
  icon: z.string().nullable(),
  tags: z.record(z.string(), scalar),
  user_id: z.string().nullable(),
  at: time,
  created_at: time,
});
export type Event = z.output<typeof Event>;

export const Channel = z.strictObject({ channel: z.string(), count: z.int(), last_at: time });

/** Resumes a stream: the id of the last event seen. In REST also the header `Last-Event-ID`. */
export const lastEventId = z
  .string()
  .regex(/^\d{1,15}$/, 'must be the id of an event of this stream')
  .optional();

export const eventInput = z.strictObject({
  id: reference,
  channel: text(100),
  event: text(200),
  description: text(2000).optional(),
  icon: text(100).optional(),
  tags: tags.optional(),
  user_id: text(200).optional(),
  at: moment.optional(),
});

export const events = [
  operation({
    name: 'events.list',
    summary: 'Lists product events, newest first',
    method: 'GET',
    path: '/v1/apps/:id/events',
    needs: 'view',
    input: z.strictObject({
      id: reference,
      channel: reference.optional(),
      event: reference.optional(),
      user_id: reference.optional(),
      ...page,
    }),
    output: listOf(Event),
  }),
  operation({
    name: 'events.log',
    summary: 'Logs a product event',
    method: 'POST',
    audited: false,
    path: '/v1/apps/:id/events',
    needs: 'push',
    input: eventInput,
    output: Event,
    status: 201,
  }),
  operation({
    name: 'events.stream',
    summary: 'Streams product events as they are logged',
    method: 'GET',
    path: '/v1/apps/:id/events/stream',
    needs: 'view',
    input: z.strictObject({ id: reference, last_event_id: lastEventId }),
    output: Event,
    kind: 'stream',
    errors: ['rate_limited'],
  }),
  operation({
    name: 'events.channels',
    summary: 'Lists the channels that events were logged to',
    method: 'GET',
    path: '/v1/apps/:id/events/channels',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Channel),
  }),
] as const;

const properties = z
  .record(key, scalar.nullable())
  .refine((value) => Object.keys(value).length <= 100, { error: 'must have at most 100 entries' })
  .refine((value) => byteLength(JSON.stringify(value)) <= PROPERTIES_BYTES, {
    error: `must have at most ${PROPERTIES_BYTES} bytes as JSON`,
  });

export const identifyInput = z.strictObject({ id: reference, user_id: text(200), properties });

export const User = z.strictObject({
  user_id: z.string(),
  properties: z.record(z.string(), scalar),
  updated_at: time,
});

export const users = [
  operation({
    name: 'users.list',
    summary: 'Lists the users that the app has identified, the last identified first',
    method: 'GET',
    needs: 'push',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(User),
  }),
  operation({
    name: 'users.identify',
    summary: 'Adds properties of a user; null removes one',
    method: 'POST',
    audited: false,
    path: '/v1/apps/:id/identify',
    needs: 'push',
    input: identifyInput,
    output: User,
    status: 201,
    replaces: true,
    errors: ['quota_exceeded'],
  }),
  operation({
    name: 'users.props',
    summary: 'Reads the properties of a user',
    method: 'GET',
    path: '/v1/apps/:id/users/:user_id/props',
    needs: 'push',
    input: z.strictObject({ id: reference, user_id: reference }),
    output: User,
    errors: ['user_not_found'],
  }),
] as const;

export const Insight = z.strictObject({
  title: z.string(),
  value: z.union([z.number(), z.string()]),
  icon: z.string().nullable(),
  updated_at: time,
});

export const insightInput = z.strictObject({
  id: reference,
  title: text(200),
  value: z.union([z.number(), z.string().max(2000), z.strictObject({ $inc: z.number() })]),
  icon: text(100).optional(),
});

export const insights = [
  operation({
    name: 'insights.list',
    summary: 'Lists insights by title',
    method: 'GET',
    path: '/v1/apps/:id/insights',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Insight),
  }),
  operation({
    name: 'insights.set',
    summary: 'Sets an insight; `{"$inc": n}` adds to a number',
    method: 'POST',
    audited: false,
    path: '/v1/apps/:id/insights',
    needs: 'push',
    input: insightInput,
    output: Insight,
    status: 201,
    replaces: true,
    errors: ['insight_not_numeric'],
  }),
] as const;
