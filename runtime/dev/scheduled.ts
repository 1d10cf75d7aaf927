// Runs a cron of the app at once, at the path that `wrangler dev` uses.
import type { LocalAnswer } from '../edge/gateway.ts';
import { askCron } from '../fleets/due/ask-cron.ts';
import type { Fleet } from '../fleets/life/fleet.ts';
import { plainAnswer } from './answers.ts';

export const SCHEDULED_PATH = '/cdn-cgi/handler/scheduled';

/** Runs the cron in the query of a request to `SCHEDULED_PATH`, or else the first one. */
export async function runCron(fleet: Fleet, { searchParams }: URL): Promise<LocalAnswer> {
  const crons = (await fleet.crons()).map(({ name }) => name);
  const cron = searchParams.get('cron') ?? crons[0];
  if (cron === undefined || !crons.includes(cron))
    return plainAnswer(404, `The app has no cron ${cron ?? ''}. Its crons: ${crons.join(', ') || 'none'}`);
  const ran = await fleet.withCell('a run of a cron', (cell) => askCron(cell, cron));
  if ('failed' in ran) return plainAnswer(409, ran.failed);
  const { outcome, duration_ms, error } = ran.done;
  if (outcome === 'running')
    return plainAnswer(202, 'The cron still runs; its output appears in the terminal of `cellar dev`.');
  return plainAnswer(outcome === 'ok' ? 200 : 500, `${error ?? outcome} (${duration_ms} ms)`);
}
