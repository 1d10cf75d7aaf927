// Temporary refusals by this machine, not by a Git host.
import { Refusal } from '../refusal.ts';

/** Codes of temporary refusals by this machine, such as while an app moves. */
const TEMPORARY = ['host_unavailable', 'insufficient_storage', 'rate_limited'];
/** Wait before a refused fetch is repeated, in ms. */
export const REFUSAL_RETRY_MS = 60_000;

/** Returns whether this machine refused a step for now. Such a refusal does not count as a failed attempt. */
export function isTemporaryRefusal(error: unknown): boolean {
  return error instanceof Refusal && TEMPORARY.includes(error.code);
}
