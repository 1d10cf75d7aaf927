// Alerts. The host stores and delivers them, so that they also work without the control plane.
import { pageOf } from '../../../sqlite/control/page.ts';
import type { AlertSettings } from '../../contract/host/host-routes.ts';
import { Problem } from '../../problem.ts';
import { invalidInput } from '../../transports/validate.ts';
import { requireApp } from '../apps/apps.ts';
import { listAnswer, pageAfter } from '../paging.ts';
import type { Service } from '../types.ts';

/** Format of the host's ids: other ids belong to no alert. */
const ALERT_ID = /^[0-9a-z]{16}$/;

const list: Service<'alerts.list'> = async (context, { id, ...page }) => {
  await requireApp(context, id);
  const name = `alerts.list ${id}`;
  const { after, limit } = pageAfter(name, page);
  const rest = (await context.host.alerts.list(id)).filter((alert) => alert.id > after);
  return listAnswer(
    name,
    pageOf(rest, limit, (alert) => [alert.id]),
    (alert) => alert,
  );
};

const set: Service<'alerts.set'> = async (context, { id, alert_id, ...given }) => {
  await requireApp(context, id);
  // Undefined fields are dropped by JSON.
  const settings = given as AlertSettings;
  if (alert_id !== undefined) {
    return { ...(await context.host.alerts.change(id, requireId(alert_id), settings)), secret: null };
  }
  const { url } = settings;
  if (url === undefined)
    throw invalidInput([{ path: 'url', message: 'is missing; an alert that is made needs it' }]);
  return context.host.alerts.add(id, { ...settings, url });
};

const remove: Service<'alerts.delete'> = async (context, { id, alert_id }) => {
  await requireApp(context, id);
  await context.host.alerts.delete(id, requireId(alert_id));
  return null;
};

const test: Service<'alerts.test'> = async (context, { id, alert_id }) => {
  await requireApp(context, id);
  return context.host.alerts.test(id, requireId(alert_id));
};

export const alertServices = {
  'alerts.list': list,
  'alerts.set': set,
  'alerts.delete': remove,
  'alerts.test': test,
};

function requireId(alertId: string): string {
  if (!ALERT_ID.test(alertId)) throw new Problem('alert_not_found');
  return alertId;
}
