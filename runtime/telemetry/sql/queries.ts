// Runs queries over data points in threads of their own, so that a long one delays nothing else.
import { join } from 'node:path';
import type { HostCalls } from '../../../handlers/contract/host/host-routes.ts';
import { QueueFull } from '../../queues/fair-queue.ts';
import { Refusal } from '../../refusal.ts';
import { JobEnded, WorkerThreads } from '../../threads/worker.ts';
import type { Written } from './formats.ts';
import { DatasetSpread, QueryRefused, type query } from './query.ts';

const DEADLINE_MS = 10_000;
/** At most two queries run at once, and only one of each account. */
const threads = new WorkerThreads(2, 1);
const MODULE = new URL('./query.ts', import.meta.url);

/**
 * Runs a query over the data points of some apps.
 * @param directory the directory of the telemetry databases
 * @param deadlineMs shorter in tests
 * @throws {Refusal} with one of these codes: `storage_not_found` when none of these apps has points of the dataset.
 *   `query_failed` for an invalid query. `dataset_spread` when apps on other hosts have points too. `rate_limited` when too
 *   many queries of the account wait. `query_timeout` for a query that needs too much time or memory
 */
export async function queryDatapoints(
  directory: string,
  { app_ids, owner, sql, elsewhere = [] }: HostCalls['POST /datapoints/query']['body'],
  deadlineMs = DEADLINE_MS,
): Promise<Written> {
  const path = join(directory, 'datapoints.sqlite');
  const options = { deadlineMs, owner, errors: [QueryRefused, DatasetSpread] };
  try {
    const values: Parameters<typeof query> = [path, app_ids, sql, elsewhere];
    const written = await threads.run<typeof query>(MODULE, 'query', values, options);
    if (written === null)
      throw new Refusal(404, 'storage_not_found', 'no app has written a data point to this dataset');
    return written;
  } catch (error) {
    if (error instanceof QueryRefused) throw new Refusal(400, 'query_failed', error.message);
    if (error instanceof DatasetSpread) throw new Refusal(409, 'dataset_spread', error.message);
    if (error instanceof QueueFull) throw new Refusal(429, 'rate_limited', error.message);
    if (!(error instanceof JobEnded)) throw error;
    throw new Refusal(
      504,
      'query_timeout',
      `the query took longer than ${deadlineMs / 1000} s, or needed too much memory: narrow it by WHERE`,
    );
  }
}
