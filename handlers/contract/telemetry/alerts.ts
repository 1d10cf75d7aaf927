// Alerts: sends events of an app to a webhook.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Most alerts of one app. */
export const ALERTS_LIMIT = 20;
/** Default threshold: percentage of failed requests above which an alert is sent. */
const ERROR_RATE = 5;

/**
 * Kinds of events. `disk` is about this machine's disk, `certificate` about the app's domains, `snapshot` about damaged
 * snapshots, `bucket` about the bucket of this Cellar, `host` about its other hosts.
 */
export const alertKind = z.enum([
  'error',
  'error_rate',
  'crash',
  'deploy',
  'disk',
  'certificate',
  'snapshot',
  'bucket',
  'host',
]);
export type AlertKind = z.output<typeof alertKind>;

const url = z
  .string()
  .max(2000)
  .refine((text) => {
    if (!URL.canParse(text)) return false;
    const { protocol, username, password } = new URL(text);
    return (protocol === 'https:' || protocol === 'http:') && username === '' && password === '';
  }, 'must be an http or https address without a user name or password');

/** The last delivery. */
const Delivery = z.strictObject({
  at: time,
  /** The event type, such as `app.crashed`. */
  type: z.string(),
  /** HTTP status of the webhook; null when it did not answer. */
  status: z.int().nullable(),
  /** Why it was not delivered; null when it was. */
  error: z.string().nullable(),
});

export const Alert = z.strictObject({
  id,
  app_id: id,
  url: z.string(),
  on: z.array(alertKind),
  /** In percent. `error_rate` fires when a larger share of the requests of five minutes fails. */
  error_rate: z.int(),
  created_at: time,
  updated_at: time,
  last_delivery: Delivery.nullable(),
});
export type Alert = z.output<typeof Alert>;
export type AlertDelivery = z.output<typeof Delivery>;

const settings = {
  on: z
    .array(alertKind)
    .min(1)
    .refine((kinds) => new Set(kinds).size === kinds.length, 'must name each kind once')
    .optional(),
  error_rate: z.int().min(1).max(100).optional(),
};

/** Settings of an alert that sets none. */
export const ALERT_DEFAULTS = { on: [...alertKind.options], error_rate: ERROR_RATE };

export const alerts = [
  operation({
    name: 'alerts.list',
    summary: "Lists an app's alerts, each with the result of its last delivery",
    method: 'GET',
    needs: 'admin',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Alert),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'alerts.set',
    summary:
      'Makes an alert, or changes the one in `alert_id`; omitted fields do not change. `secret` is shown only once, when it is made',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({
      id: reference,
      alert_id: reference.optional(),
      url: url.optional(),
      ...settings,
    }),
    output: z.strictObject({ ...Alert.shape, secret: z.string().nullable() }),
    errors: ['alert_not_found', 'quota_exceeded', 'host_unavailable'],
    secrets: ['secret'],
  }),
  operation({
    name: 'alerts.delete',
    summary: 'Deletes an alert and its undelivered messages',
    method: 'DELETE',
    needs: 'admin',
    input: z.strictObject({ id: reference, alert_id: reference }),
    output: nothing,
    errors: ['alert_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'alerts.test',
    summary: 'Sends a test to the webhook once, and returns the result',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({ id: reference, alert_id: reference }),
    output: Delivery,
    errors: ['alert_not_found', 'rate_limited', 'host_unavailable'],
  }),
] as const;
