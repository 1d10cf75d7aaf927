// What the host throws when it refuses to do what the control plane asks for.
import { CodedError } from '../handlers/contract/coded-error.ts';

/** Says why something is not done. `code` is one of the contract's error codes, `status` the HTTP status of that code. */
export class Refusal extends CodedError<string> {}

/**
 * To be called before something takes room on the disk.
 * @param disk.shortage why there is no room, and what to do; null while there is room
 * @throws {Refusal} 507 when there is no room
 */
export function requireRoom({ shortage }: { shortage: string | null }): void {
  if (shortage !== null) throw new Refusal(507, 'insufficient_storage', shortage);
}
