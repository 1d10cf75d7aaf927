// The images service: a process that transforms images for all apps. The host says which apps it serves.
import { availableParallelism } from 'node:os';
import { serveApps, serviceOptions } from '../app-services/app-service-program.ts';
import { Budget } from '../app-services/budget.ts';
import { FairQueue } from '../queues/fair-queue.ts';
import { AppServer } from './app-server.ts';
import { noCapacity } from './errors.ts';

/** Maximum calls at a time. Each has a thread, and up to 400 MB of pixels: those before and after an operation. */
const RUNNING = Math.min(3, Math.max(2, availableParallelism()));
/** One account may run all but one of the calls at a time, so that others get a turn. */
const CALLS = { name: 'image calls', running: RUNNING, runningPerOwner: RUNNING - 1, waitingPerOwner: 64 };
/** Maximum bytes of all requests and responses in progress. */
const BUDGET_BYTES = 256 * 2 ** 20;

serviceOptions();
const budget = new Budget(BUDGET_BYTES, (limit) =>
  noCapacity(`images under way may take at most ${limit}; try again`),
);
const queue = new FairQueue(CALLS);

serveApps('images service', (_app, listener, { owner }) =>
  AppServer.listen(listener, { owner, budget, queue }),
);
