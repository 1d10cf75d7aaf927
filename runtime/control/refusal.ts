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
