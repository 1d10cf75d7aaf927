// Refusals by this machine, as opposed to those of a Git host.
import { Refusal } from '../refusal.ts';

/** Codes of refusals by this machine, such as while an app moves. They are not failed attempts. */
const NOT_YET = ['host_unavailable', 'insufficient_storage', 'rate_limited'];
/** Wait before a refused fetch is repeated, in ms. */
export const NOT_YET_MS = 60_000;

export function isNotYet(error: unknown): boolean {
  return error instanceof Refusal && NOT_YET.includes(error.code);
}
