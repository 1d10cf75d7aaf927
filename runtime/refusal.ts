// Errors by which the host refuses requests of the control plane.
import { CodedError } from '../handlers/contract/coded-error.ts';

/** A refusal with its reason. `code` is one of the contract's error codes, `status` the HTTP status of that code. */
export class Refusal extends CodedError<string> {}

/** Returns the refusal of a request about an app that this host does not have. */
export function noSuchApp(): Refusal {
  return new Refusal(404, 'app_not_found', 'no such app');
}

/**
 * Checks for disk space. Call it before work that needs space.
 * @param shortage why there is no space, and how to fix it; null while there is space
 * @throws {Refusal} 507 when there is no space
 */
export function requireRoom({ shortage }: { shortage: string | null }): void {
  if (shortage !== null) throw new Refusal(507, 'insufficient_storage', shortage);
}
