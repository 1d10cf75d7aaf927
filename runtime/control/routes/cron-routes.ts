// The handlers' calls about an app's crons.
import type { HostCall } from '../../../handlers/contract/host/host-routes.ts';
import type { Apps } from '../../apps/apps.ts';
import { askCron } from '../../fleets/due/ask-cron.ts';
import { reason } from '../../log.ts';
import { noSuchApp, Refusal } from '../../refusal.ts';
import type { Telemetry } from '../../telemetry/telemetry.ts';
import { type HostRoutes, readJson } from '../host-call.ts';

export type CronCall = Extract<HostCall, `${string}/crons${string}`>;

export function cronRoutes({
  apps,
  telemetry,
}: {
  apps: Apps;
  telemetry: Telemetry;
}): Pick<HostRoutes, CronCall> {
  const requireApp = (id: string) => {
    const app = apps.get(id);
    if (app === undefined) throw noSuchApp();
    return app;
  };
  return {
    'GET /apps/:id/crons': async ({ words }) => {
      const { fleet, wanted } = requireApp(words[0]!);
      const isStopped = wanted.desired_state === 'stopped';
      const [crons, last] = await Promise.all([
        fleet.crons(),
        // Without telemetry, the response still has the times.
        telemetry.ask('crons/last', { appId: words[0]! }).catch(() => ({})),
      ]);
      const runs = new Map(Object.entries(last));
      return crons.map(({ name, time }) => ({
        cron: name,
        next_at: time === null || isStopped ? null : new Date(time).toISOString(),
        last_run: runs.get(name) ?? null,
      }));
    },
    'POST /apps/:id/crons/run': async ({ request, words }) => {
      const { cron } = await readJson<'POST /apps/:id/crons/run'>(request);
      const { fleet, wanted } = requireApp(words[0]!);
      const crons = await fleet.crons();
      if (!crons.some(({ name }) => name === cron))
        throw new Refusal(404, 'cron_not_found', `the live release has no cron ${cron}`);
      if (wanted.desired_state === 'stopped')
        throw new Refusal(503, 'app_unavailable', 'the app is stopped, and runs no crons');
      const answer = await fleet
        .withCell('a run of a cron', (cell) => askCron(cell, cron))
        .catch((error: unknown) => {
          throw new Refusal(503, 'app_unavailable', reason(error));
        });
      if ('failed' in answer) throw new Refusal(409, 'transition_conflict', answer.failed);
      return answer.done;
    },
  };
}
