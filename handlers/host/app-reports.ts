// Stores the reports that apps send through their binding to `cellar`: product events, users and insights.
import type { Actor } from '../access.ts';
import type { Context, RequestContext } from '../context.ts';
import type { AppReport, AppReportsAnswer } from '../contract/host/host-calls.ts';
import { eventInput, identifyInput, insightInput } from '../contract/telemetry/events.ts';
import { Problem } from '../problem.ts';
import { eventServices } from '../services/telemetry/events.ts';
import { parseHostJson, requireModerate } from '../transports/body.ts';
import { validate } from '../transports/validate.ts';

/** Stores reports. Keeps the order of each app's reports. After a refused report, continues with the next report. */
export async function storeReports(context: RequestContext, reports: AppReport[]): Promise<AppReportsAnswer> {
  const actor: Actor = { kind: 'runner' };
  // The audit log does not contain reports of apps, so the value of `via` does not matter.
  const trusted: Context = { ...context, actor, whoNow: async () => actor, via: 'rest' };
  const refused: AppReportsAnswer['refused'] = [];
  const ofApps = Map.groupBy(reports, ({ app_id }) => app_id);
  const storeAll = async (own: AppReport[]) => {
    for (const report of own)
      await store(trusted, report).catch((error: unknown) => {
        const why = error instanceof Problem ? error.message : 'the report could not be stored';
        refused.push({ app_id: report.app_id, text: `${report.kind} of the service cellar: ${why}` });
      });
  };
  await Promise.all([...ofApps.values()].map(storeAll));
  return { refused };
}

async function store(context: Context, { app_id, at, kind, input }: AppReport): Promise<void> {
  requireModerate(input);
  // The id comes last, so that an app can only write its own records.
  const given = { ...(kind === 'log' && { at }), ...(parseHostJson(input) as object), id: app_id };
  if (kind === 'log') await eventServices['events.log'](context, validate(eventInput, given));
  else if (kind === 'identify')
    await eventServices['users.identify'](context, validate(identifyInput, given));
  else await eventServices['insights.set'](context, validate(insightInput, given));
}
