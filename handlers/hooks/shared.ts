// Lets several requests wait for the same work, which one of the requests does.
import { CALL_DEADLINE_MS } from '../contract/host/deadlines.ts';
import { Problem } from '../problem.ts';

/** Longest wait for another request's call, in ms. It is longer than the call's own timeout. */
const WAIT_MS = CALL_DEADLINE_MS + 5_000;

/**
 * Waits for work of another request. Has a timer, because workerd cancels a request that waits for no I/O of its own.
 * The timer also ends the wait when the request that does the work was aborted, and the work with it.
 * @throws {Problem} `host_unavailable` when it takes too long
 */
export async function shared<T>(work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Problem('host_unavailable')), WAIT_MS);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
