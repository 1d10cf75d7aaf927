// The host's routes to an app's alerts.
import type { HostCall } from '../../../handlers/contract/host/host-routes.ts';
import type { Alerts } from '../../alerts/alerts.ts';
import type { Deliveries } from '../../alerts/deliveries.ts';
import { secretText } from '../../alerts/webhook.ts';
import { type HostRoutes, readJson } from '../host-call.ts';

export type AlertCall = Extract<HostCall, `${string}/alerts${string}`>;

export interface AlertOptions {
  alerts: Alerts;
  deliveries: Deliveries;
}

export function alertRoutes({ alerts, deliveries }: AlertOptions): Pick<HostRoutes, AlertCall> {
  return {
    'GET /apps/:id/alerts': ({ words }) => alerts.list(words[0]!),
    'POST /apps/:id/alerts': async ({ request, words }) => {
      const alert = alerts.add(words[0]!, await readJson<'POST /apps/:id/alerts'>(request));
      return { ...alert, secret: secretText(alerts.secret(alert.id)) };
    },
    'PUT /apps/:id/alerts/:alert': async ({ request, words }) =>
      alerts.change(words[0]!, words[1]!, await readJson<'PUT /apps/:id/alerts/:alert'>(request)),
    'DELETE /apps/:id/alerts/:alert': ({ words }) => {
      alerts.delete(words[0]!, words[1]!);
      return null;
    },
    'POST /apps/:id/alerts/:alert/test': ({ words }) => deliveries.test(words[0]!, words[1]!),
  };
}
