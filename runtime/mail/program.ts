// The mail service: a process that hands in the e-mails of all apps. The host says which apps it serves.
import { serveApps, serviceOptions } from '../machine/app-service-program.ts';
import { Budget } from '../machine/budget.ts';
import { AppServer, type MailServiceOptions } from './app-server.ts';
import { rateExceeded } from './errors.ts';
import { Rates } from './rates.ts';

/** Of e-mails that are under way. */
const BUDGET_BYTES = 256 * 2 ** 20;

const options = serviceOptions<MailServiceOptions>();
const budget = new Budget(BUDGET_BYTES, () =>
  rateExceeded('Too many large e-mails are being sent at this moment; try again.'),
);

/** Of the apps that have asked, each with its previews. */
const rates = new Map<string, Rates>();

serveApps('mail service', (_app, door, family) => {
  const own = rates.get(family) ?? new Rates();
  rates.set(family, own);
  return AppServer.listen(door, options, budget, own);
});
