// The mail service: a process that sends the e-mails of all apps. The host says which apps it serves.
import { serveApps, serviceOptions } from '../app-services/app-service-program.ts';
import { Budget } from '../app-services/budget.ts';
import { FairQueue } from '../queues/fair-queue.ts';
import { AppServer, type MailServiceOptions } from './app-server.ts';
import { rateExceeded } from './errors.ts';
import { Rates } from './rates.ts';

/** Limits of the queue. Low, because each e-mail has its own connection and mail servers limit connections per client. */
const E_MAILS = { name: 'e-mails', running: 24, runningPerOwner: 8, waitingPerOwner: 100 };
/** Maximum bytes of memory that all e-mails in progress may take. */
const BUDGET_BYTES = 256 * 2 ** 20;

const options = serviceOptions<MailServiceOptions>();
const budget = new Budget(BUDGET_BYTES, (limit) =>
  rateExceeded(`E-mails under way may take at most ${limit}; try again.`),
);
const queue = new FairQueue(E_MAILS);

/** Rate limits, by family: an app and its previews share one. */
const rates = new Map<string, Rates>();

serveApps('mail service', (_app, listener, { family, owner }) => {
  const own = rates.get(family) ?? new Rates();
  rates.set(family, own);
  return AppServer.listen(listener, options, { owner, budget, queue, rates: own });
});
