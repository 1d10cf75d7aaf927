// An error with an HTTP status and a code.

/** `status` is the HTTP status of the response. `code` identifies the error for programs. */
export class CodedError<Code extends string | number> extends Error {
  readonly status: number;
  readonly code: Code;
  constructor(status: number, code: Code, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}
