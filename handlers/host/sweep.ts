// Puts unused apps to sleep.
import { sleepCandidates } from '../../sqlite/control/apps/life.ts';
import type { RequestContext } from '../context.ts';
import type { ListedApp } from '../contract/host/host-calls.ts';
import { readHostJson } from '../transports/body.ts';

const HOUR_MS = 3_600_000;
/** The host's list of more than ten thousand apps. */
const BODY_LIMIT_BYTES = 64 * 1024 * 1024;

/**
 * Puts apps to sleep that were not woken, deployed or called within the window, and have no open requests or connections. The
 * host's list finds candidates; each is checked again before it sleeps.
 * @returns the number of apps that were put to sleep
 */
export async function sweep(request: Request, context: RequestContext): Promise<{ parked: number }> {
  const hours = Number(context.env.RUNNER_SLEEP_AFTER_H);
  const before = new Date(Date.parse(context.at) - hours * HOUR_MS).toISOString();
  const { items } = (await readHostJson(request, BODY_LIMIT_BYTES)) as { items: ListedApp[] };
  const quiet = new Set(
    items
      .filter((app) => app.open_streams === 0 && (app.last_activity_at ?? '') < before)
      .map(({ id }) => id),
  );
  let parked = 0;
  for (const id of await sleepCandidates(context.db, before)) {
    if (!quiet.has(id)) continue;
    const outcome = await context.app(id).sweep(id, before, new Date().toISOString());
    if (!outcome.ok) console.error(`app ${id} was not put to sleep: ${outcome.detail}`);
    else if (outcome.value.asleep_since !== null) parked++;
  }
  return { parked };
}
