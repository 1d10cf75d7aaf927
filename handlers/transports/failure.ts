// Converts errors to responses.
import type { RequestContext } from '../context.ts';
import { asProblem, Problem } from '../problem.ts';

/**
 * Converts any thrown value to a `Problem`. For an internal error, asks the host whether the disk is full: a write that
 * fails on a full disk throws an error without the reason, because the database's Durable Object does not pass it on.
 */
export async function failure(error: unknown, { requestId, host }: RequestContext): Promise<Problem> {
  const problem = asProblem(error, requestId);
  if (problem.code !== 'internal_error') return problem;
  const full = await host.diskFull().catch(() => null);
  return full === null ? problem : new Problem('insufficient_storage', full);
}
