// Looking pending hostnames up again, for the host's round of every minute.
import { dueDomains } from '../../sqlite/control/domains.ts';
import type { RequestContext } from '../context.ts';
import { proveDomain } from '../services/apps/domains.ts';

/** Lookups side by side. */
const CONCURRENCY = 4;
/** The most lookups of one round; the next one goes on. */
const DOMAINS_LIMIT = 40;
/** No lookup begins later than this after the round's beginning. */
const BUDGET_MS = 30_000;

/** Looks up the pending hostnames whose turn it is, and has those served that are proved. */
export async function checkDomains(context: RequestContext): Promise<void> {
  const due = await dueDomains(context.db, context.at, DOMAINS_LIMIT);
  const end = Date.now() + BUDGET_MS;
  const next = async () => {
    for (let row = due.shift(); row && Date.now() < end; row = due.shift()) {
      const { hostname } = row;
      await proveDomain(context, row).catch((error: Error) => {
        console.error(`the hostname ${hostname} was not looked up: ${error.message}`);
      });
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, next));
}
