import type { DiskWatch } from '../machine/disk-watch.ts';

/** What the host does not carry out, and why. `code` is one of the contract's error codes, `status` that code's. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Lets through what takes room on the disk while there is some. @throws {Refusal} 507 with the reason and the cure */
export function requireRoom({ shortage }: DiskWatch): void {
  if (shortage !== null) throw new Refusal(507, 'insufficient_storage', shortage);
}
