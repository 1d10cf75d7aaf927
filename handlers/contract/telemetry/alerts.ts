// Alerts: sends events of an app to a webhook or by e-mail.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { ALERT_FORMATS } from './alert-format.ts';
import {
  ALERT_KINDS,
  ALERT_THRESHOLDS,
  type AlertKind,
  DEFAULT_KINDS,
  INITIAL_THRESHOLDS,
  THRESHOLD_NAMES,
  type ThresholdName,
} from './alert-kinds.ts';

/** Maximum alerts of one app. */
export const ALERTS_LIMIT = 20;

export const alertKind = z.enum(ALERT_KINDS);
const alertFormat = z.enum(ALERT_FORMATS);

/** One e-mail address without characters that have a meaning in a URL or in headers. */
const MAILBOX = /^[^\s@,;:<>"()\\%]{1,64}@[^\s@,;:<>"()\\%]{1,189}$/;

const url = z
  .string()
  .max(2000)
  .refine((text) => {
    if (!URL.canParse(text)) return false;
    const { protocol, username, password, pathname, search, hash } = new URL(text);
    if (protocol === 'mailto:') return MAILBOX.test(pathname) && search === '' && hash === '';
    return (protocol === 'https:' || protocol === 'http:') && username === '' && password === '';
  }, 'must be an http or https address without a user name or password, or mailto: with one e-mail address');

/** The result of a delivery. */
const Delivery = z.strictObject({
  at: time,
  /** The event type, such as `app.crashed`. */
  type: z.string(),
  /** HTTP status of the webhook; null when it did not answer, and for e-mail. */
  status: z.int().nullable(),
  /** Why the message was not delivered; null when it was delivered. */
  error: z.string().nullable(),
});

const thresholds = Object.fromEntries(
  THRESHOLD_NAMES.map((name) => {
    const { least, most } = ALERT_THRESHOLDS[name];
    return [name, z.int().min(least).max(most)];
  }),
) as Record<ThresholdName, z.ZodInt>;

export const Alert = z.strictObject({
  id,
  app_id: id,
  /** The webhook, or `mailto:` with an e-mail address. */
  url: z.string(),
  /** The format of messages to a webhook. */
  format: alertFormat,
  on: z.array(alertKind),
  /**
   * Kinds whose state was reported and still lasts. Only `memory`, `cpu`, `latency`, `no_traffic`, `queue_backlog`,
   * `snapshot`, `bucket` and `host` have such a state.
   */
  firing: z.array(alertKind),
  /** Ids of the hosts that were reported as silent and are not back. */
  silent_hosts: z.array(z.string()),
  ...thresholds,
  created_at: time,
  updated_at: time,
  last_delivery: Delivery.nullable(),
});
export type Alert = z.output<typeof Alert>;
export type AlertDelivery = z.output<typeof Delivery>;

const settings = {
  format: alertFormat.optional(),
  on: z
    .array(alertKind)
    .min(1)
    .refine((kinds) => new Set(kinds).size === kinds.length, 'must name each kind once')
    .optional(),
  ...z.object(thresholds).partial().shape,
};

/** Default settings of an alert. */
export const ALERT_DEFAULTS = {
  format: 'auto' as const,
  on: [...DEFAULT_KINDS],
  firing: [] as AlertKind[],
  silent_hosts: [] as string[],
  ...INITIAL_THRESHOLDS,
};

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
      'Makes an alert, or changes the one in `alert_id`; omitted fields do not change. `secret` is shown only once, when the alert is made',
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
    summary: 'Sends a test to the webhook or the e-mail address once, and returns the result',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({ id: reference, alert_id: reference }),
    output: Delivery,
    errors: ['alert_not_found', 'rate_limited', 'host_unavailable'],
  }),
] as const;
