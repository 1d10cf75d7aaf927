// What a failed request is answered with.
import type { RequestContext } from '../context.ts';
import { asProblem, Problem } from '../problem.ts';

/**
 * Makes a `Problem` of whatever was thrown. A write to the database that a full disk refuses reads as any fault of ours:
 * its reason does not leave the object that has the database. So the host is asked about the disk.
 */
export async function failure(error: unknown, { requestId, host }: RequestContext): Promise<Problem> {
  const problem = asProblem(error, requestId);
  if (problem.code !== 'internal_error') return problem;
  const full = await host.diskFull().catch(() => null);
  return full === null ? problem : new Problem('insufficient_storage', full);
}
