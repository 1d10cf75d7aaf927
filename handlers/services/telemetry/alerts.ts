// Alerts. The host stores and delivers them, so that they also work without the control plane.
import { pageOf } from '../../../sqlite/control/page.ts';
import { hasEmail } from '../../../sqlite/control/people/accounts.ts';
import { seesAppsOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import type { AlertSettings } from '../../contract/host/host-routes.ts';
import { recipientOf } from '../../contract/telemetry/alert-format.ts';
import { Problem } from '../../problem.ts';
import { invalidInput } from '../../transports/validate.ts';
import { listAnswer, pageAfter } from '../paging.ts';
import type { Service } from '../types.ts';

/** Format of the ids that the host gives alerts. An id in another format is refused without a call to the host. */
const ALERT_ID = /^[0-9a-z]{16}$/;

const list: Service<'alerts.list'> = async (context, { id, ...page }) => {
  const name = `alerts.list ${id}`;
  const { after, limit } = pageAfter(name, page);
  const rest = (await context.host.call('GET /apps/:id/alerts', { id })).filter((alert) => alert.id > after);
  return listAnswer(
    name,
    pageOf(rest, limit, (alert) => [alert.id]),
    (alert) => alert,
  );
};

const set: Service<'alerts.set'> = async (context, { id, alert_id, ...given }) => {
  // The fields with the value `undefined` are not sent, because JSON drops them.
  const settings = given as AlertSettings;
  if (settings.url !== undefined) await requireRecipient(context, settings.url);
  if (alert_id !== undefined) {
    const words = { id, alert: requireId(alert_id) };
    const alert = await context.host.call('PUT /apps/:id/alerts/:alert', words, { body: settings });
    return { ...alert, secret: null };
  }
  const { url } = settings;
  if (url === undefined) throw invalidInput([{ path: 'url', message: 'is missing; a new alert needs it' }]);
  return context.host.call('POST /apps/:id/alerts', { id }, { body: { ...settings, url } });
};

const remove: Service<'alerts.delete'> = (context, { id, alert_id }) =>
  context.host.call('DELETE /apps/:id/alerts/:alert', { id, alert: requireId(alert_id) });

const test: Service<'alerts.test'> = (context, { id, alert_id }) =>
  context.host.call('POST /apps/:id/alerts/:alert/test', { id, alert: requireId(alert_id) });

export const alertServices = {
  'alerts.list': list,
  'alerts.set': set,
  'alerts.delete': remove,
  'alerts.test': test,
};

/**
 * Checks that the e-mail address of an alert belongs to an account, unless an admin of this Cellar sets the alert. Otherwise
 * apps could send text to strangers from Cellar's e-mail address.
 * @throws {Problem} `invalid_input`
 */
async function requireRecipient({ actor, db }: Context, url: string): Promise<void> {
  const address = recipientOf(url);
  if (address === null || seesAppsOf(actor) === null || (await hasEmail(db, address.toLowerCase()))) return;
  const message = 'must be the e-mail address of an account; an admin of this Cellar may name any address';
  throw invalidInput([{ path: 'url', message }]);
}

function requireId(alertId: string): string {
  if (!ALERT_ID.test(alertId)) throw new Problem('alert_not_found');
  return alertId;
}
