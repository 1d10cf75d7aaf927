// The vectors service: a process that stores and searches the vector indexes of apps. The host says which apps it serves.
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { serveApps, serviceOptions } from '../app-services/app-service-program.ts';
import { Budget } from '../app-services/budget.ts';
import type { QuotaOptions } from '../disk/quota.ts';
import { WorkerThreads } from '../threads/worker.ts';
import { AppServer } from './app-server.ts';
import { noCapacity } from './errors.ts';

/** Maximum number of operations that run at a time, each in a thread. */
const RUNNING = Math.min(4, Math.max(2, availableParallelism()));
/** Maximum bytes of all requests and responses in progress together. */
const BUDGET_BYTES = 256 * 2 ** 20;

const { directory, ...limits } = serviceOptions<QuotaOptions & { directory: string }>();
const budget = new Budget(BUDGET_BYTES, (limit) =>
  noCapacity(`calls under way may take at most ${limit}; try again`),
);
// One account may use all but one of the threads, so that others get a turn.
const threads = new WorkerThreads(RUNNING, RUNNING - 1);
process.umask(0o077);

serveApps('vectors service', (app, listener, { owner }) =>
  AppServer.listen(listener, join(directory, app, 'vectors'), { owner, budget, threads, limits }),
);
