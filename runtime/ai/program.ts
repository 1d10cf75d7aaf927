// The AI service: a process that asks the AI server for all apps. The host says which apps it serves.
import { serveApps, serviceOptions } from '../machine/app-service-program.ts';
import { Budget } from '../machine/budget.ts';
import { AppServer } from './app-server.ts';
import { noCapacity } from './errors.ts';
import type { AiServer } from './upstream.ts';

/** Of questions and answers that are under way. */
const BUDGET_BYTES = 128 * 2 ** 20;

const server = serviceOptions<AiServer>();
const budget = new Budget(BUDGET_BYTES, () =>
  noCapacity('Too much is asked of the AI server at a time; try again.'),
);

serveApps('AI service', (_app, door) => AppServer.listen(door, server, budget));
