// Refusals, as exceptions and as answers.
import { type ErrorCode, errorCodes, type ProblemBody } from './contract/errors.ts';

/** Titles as RFC 9457 wants them for the type `about:blank`: the status's own words. */
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

/** Seconds that a caller is asked to wait after a 503. */
const RETRY_AFTER_S = '1';

/** A refusal, which becomes the answer. Any other error that is thrown is a fault of Cellar's. */
export class Problem extends Error {
  readonly code: ErrorCode;
  readonly errors: ProblemBody['errors'];
  /** Whether something was changed before this came up, or may have been. */
  readonly changed: boolean;

  /** @param detail one or two sentences for the caller; the code's meaning by default */
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

/** What came up after something was changed, which stays. */
export function afterChange(error: unknown): unknown {
  return error instanceof Problem ? new Problem(error.code, error.message, error.errors, true) : error;
}

/** Makes a `Problem` of whatever was thrown. A fault of ours is logged, and its text is kept from the caller. */
export function asProblem(error: unknown, requestId: string): Problem {
  if (error instanceof Problem) return error;
  console.error(
    `request ${requestId} failed:`,
    error instanceof Error ? (error.stack ?? error.message) : error,
  );
  return new Problem('internal_error');
}

/** Answers with a problem. */
export function problemResponse(problem: Problem, headers: Record<string, string> = {}): Response {
  const retry: Record<string, string> =
    problem.status === 503 || problem.status === 429 ? { 'retry-after': RETRY_AFTER_S } : {};
  return new Response(`${JSON.stringify(problem.body())}\n`, {
    status: problem.status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      ...retry,
      ...headers,
    },
  });
}
