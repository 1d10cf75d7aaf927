// An error that an HTTP answer is made of.

/** `status` is the answer's HTTP status, `code` what programs tell errors apart by. */
export class CodedError<Code extends string | number> extends Error {
  readonly status: number;
  readonly code: Code;
  constructor(status: number, code: Code, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}
