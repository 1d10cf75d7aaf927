// Work that several requests wait for, of which one does it.
import { CALL_DEADLINE_MS } from '../contract/host/deadlines.ts';
import { Problem } from '../problem.ts';

/** Longest wait for another request's call, in ms: the call itself has less. */
const WAIT_MS = CALL_DEADLINE_MS + 5_000;

/**
 * Waits for work of another request. The runtime takes a request for hung that waits for nothing of its own, and work may end
 * with its request; so this has a timer.
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
