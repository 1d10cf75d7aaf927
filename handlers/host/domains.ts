// Checks the DNS of pending hostnames again, once a minute.
import { dueDomains } from '../../sqlite/control/domains.ts';
import type { RequestContext } from '../context.ts';
import { proveDomain } from '../services/apps/domains.ts';

/** Concurrent DNS lookups. */
const CONCURRENCY = 4;
/** Maximum lookups in one run; the next run continues. */
const DOMAINS_LIMIT = 40;
/** After this time since the start of a run, in ms, no further lookup starts. */
const BUDGET_MS = 30_000;

/** Looks up the pending hostnames that are due, and activates those that are proved. */
export async function checkDomains(context: RequestContext): Promise<void> {
  const due = await dueDomains(context.db, context.at, DOMAINS_LIMIT);
  const end = Date.now() + BUDGET_MS;
  const next = async () => {
    for (let row = due.shift(); row && Date.now() < end; row = due.shift()) {
      const { hostname } = row;
      await proveDomain(context, row).catch((error: Error) => {
        console.error(
          `the pending hostname ${hostname} could not be checked; Cellar tries again in a minute: ${error.message}`,
        );
      });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, next));
}
