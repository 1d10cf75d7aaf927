// The AI service: a process that calls the AI server for all apps. The host says which apps it serves.
import { serveApps, serviceOptions } from '../app-services/app-service-program.ts';
import { Budget } from '../app-services/budget.ts';
import { FairQueue } from '../queues/fair-queue.ts';
import { AppServer } from './app-server.ts';
import { noCapacity } from './errors.ts';
import type { AiServer } from './upstream.ts';

/** Limits of the queue. AI servers run requests in order of arrival, so this queue divides their time between accounts. */
const CALLS = { name: 'calls of the AI server', running: 128, runningPerOwner: 32, waitingPerOwner: 256 };
/** Maximum bytes of all requests and whole responses in memory. Streamed responses do not count. */
const BUDGET_BYTES = 128 * 2 ** 20;

const server = serviceOptions<AiServer>();
const budget = new Budget(BUDGET_BYTES, (limit) =>
  noCapacity(`Inputs and answers under way may take at most ${limit}; try again.`),
);
const queue = new FairQueue(CALLS);

serveApps('AI service', (_app, listener, { owner }) =>
  AppServer.listen(listener, server, { owner, budget, queue }),
);
