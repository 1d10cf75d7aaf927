// Errors for callers, as exceptions and as responses.
import { type ErrorCode, errorCodes, type ProblemBody } from './contract/errors.ts';

/** Titles of HTTP statuses, as RFC 9457 recommends for the type `about:blank`. */
const titles: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable',
  417: 'Expectation Failed',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  505: 'HTTP Version Not Supported',
  507: 'Insufficient Storage',
};

/** `Retry-After` of a 503 or 429, in seconds. */
const RETRY_AFTER_S = '1';

/** An error that becomes the response. `asProblem` converts other errors to `internal_error`. */
export class Problem extends Error {
  readonly code: ErrorCode;
  readonly errors: ProblemBody['errors'];
  /** Whether something was or may have been changed before this error. */
  readonly changed: boolean;

  /** @param detail one or two sentences for the caller; default: the code's meaning */
  constructor(code: ErrorCode, detail?: string, errors?: ProblemBody['errors'], changed = false) {
    super(detail ?? errorCodes[code].meaning);
    this.code = code;
    this.errors = errors;
    this.changed = changed;
  }

  get status(): number {
    return errorCodes[this.code].status;
  }

  body(): ProblemBody {
    return {
      type: 'about:blank',
      title: titles[this.status]!,
      status: this.status,
      detail: this.message,
      code: this.code,
      ...(this.errors && { errors: this.errors }),
    };
  }
}

/** Marks an error that came after a change. The change stays. */
export function afterChange(error: unknown): unknown {
  return error instanceof Problem ? new Problem(error.code, error.message, error.errors, true) : error;
}

/** Converts any thrown value to a `Problem`. Unexpected errors are logged, and their text is hidden from the caller. */
export function asProblem(error: unknown, requestId: string): Problem {
  if (error instanceof Problem) return error;
  console.error(
    `request ${requestId} failed:`,
    error instanceof Error ? (error.stack ?? error.message) : error,
  );
  return new Problem('internal_error');
}

/** Returns the headers that a response with this status needs: `Retry-After` for a 503 or 429. */
export function retryHeaders(status: number): Record<string, string> {
  return status === 503 || status === 429 ? { 'retry-after': RETRY_AFTER_S } : {};
}

/** Returns the response for a problem. A 503 or 429 gets `Retry-After`. */
export function problemResponse(problem: Problem, headers: Record<string, string> = {}): Response {
  return new Response(`${JSON.stringify(problem.body())}\n`, {
    status: problem.status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      ...retryHeaders(problem.status),
      ...headers,
    },
  });
}
