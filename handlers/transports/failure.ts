// Converts errors to responses.
import type { RequestContext } from '../context.ts';
import { asProblem, Problem } from '../problem.ts';

/**
 * Converts any thrown value to a `Problem`. A write that fails on a full disk looks like an internal error: the reason does not
 * leave the database's Durable Object. So the host is asked about the disk.
 */
export async function failure(error: unknown, { requestId, host }: RequestContext): Promise<Problem> {
  const problem = asProblem(error, requestId);
  if (problem.code !== 'internal_error') return problem;
  const full = await host.diskFull().catch(() => null);
  return full === null ? problem : new Problem('insufficient_storage', full);
}
