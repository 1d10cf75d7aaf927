// The refusals of the gateway itself, with their messages.
import type { ErrorCode } from '../../handlers/contract/errors.ts';

/** The reason of a refusal, for the HTML page and the request's record. */
export type RefusalReason =
  | 'unknown_host'
  | 'never_deployed'
  | 'stopped'
  | 'maintenance'
  | 'crashed'
  | 'wake_failed'
  | 'shed'
  | 'bucket_away'
  | 'cut_off'
  | 'rate_limited'
  | 'held_too_long'
  | 'too_many_held'
  | 'too_many_connections'
  | 'no_answer'
  | 'exceeded_cpu'
  | 'closing';

/** Why a request is refused. `code` is for programs; `retryAfterS` sets `Retry-After`, in seconds. */
export interface Refusal {
  status: number;
  code: string;
  /** More exact than `code`. Selects the advice on the HTML page, and replaces `code` in the request's record. */
  reason?: RefusalReason;
  /** The message for the client. Never contains a secret or a path of the host. */
  detail: string;
  retryAfterS?: number;
  /** Further headers of the response, for programs. */
  headers?: Record<string, string>;
  /** HTML of the app's owner, instead of Cellar's page. Null or absent: Cellar's page. */
  page?: string | null;
}

/** A refusal whose `code` is an error code of the contract. */
export type OwnRefusal = Refusal & { code: ErrorCode };

/** Longest request line and headers together, in bytes. A longer head is answered with 431. */
export const HEAD_BYTES = 32 * 1024;
/** How long a client may take to send a head, in ms. */
export const HEAD_TIMEOUT_MS = 15_000;

export const INTERNAL: OwnRefusal = {
  status: 500,
  code: 'internal_error',
  detail: 'Cellar failed to handle this request. Its log says why.',
};
export const QUEUED_TOO_LONG: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'held_too_long',
  detail: 'The server at this address was not ready in time.',
  retryAfterS: 5,
};
export const TOO_MANY_HELD: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'too_many_held',
  detail: 'Too many requests already wait for the app at this address.',
  retryAfterS: 5,
};
export const CLOSING: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'closing',
  detail: 'Cellar stops or starts again at this moment.',
  retryAfterS: 5,
};
export const headTooLarge = (mostBytes: number): OwnRefusal => ({
  status: 431,
  code: 'headers_too_large',
  detail: `The request line and the headers have more than ${mostBytes} bytes.`,
});
export const HEAD_TOO_SLOW: OwnRefusal = {
  status: 408,
  code: 'request_timeout',
  detail: `The headers did not arrive within ${HEAD_TIMEOUT_MS / 1000} seconds.`,
};
export const NOT_HTTP: OwnRefusal = {
  status: 400,
  code: 'bad_request',
  detail: 'The request is not valid HTTP/1.1.',
};
export const UNKNOWN_EXPECTATION: OwnRefusal = {
  status: 417,
  code: 'expectation_failed',
  detail: 'The only expectation known here is 100-continue.',
};
export const NO_CONNECT: OwnRefusal = {
  status: 405,
  code: 'method_not_allowed',
  detail: 'CONNECT is not served here.',
};

export const NO_ENTRYPOINT: Refusal = {
  status: 404,
  code: 'entrypoint_not_found',
  detail:
    'The app has no entrypoints, methods or queue consumers: it is a static site, or its process serves none of these.',
};

export const TOO_MANY_CONNECTIONS: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'too_many_connections',
  detail: 'Too many connections are open.',
  retryAfterS: 5,
};
export const SHARE_USED: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'too_many_connections',
  detail:
    'Too many requests and WebSockets of this app are open between the hosts. Other apps need the rest of the connections.',
  retryAfterS: 5,
};
const BROKEN_OFF: OwnRefusal = {
  status: 502,
  code: 'bad_gateway',
  reason: 'no_answer',
  detail: 'The server at this address closed the connection before it answered.',
};
/** For requests to a process that is killed because its app exceeds the CPU time limit. */
export const EXCEEDED_CPU: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'exceeded_cpu',
  detail: 'The app exceeded its limit of CPU time (limits.cpu_ms), so its process was ended.',
  retryAfterS: 1,
};
const NOT_THERE: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  reason: 'no_answer',
  detail: 'The server at this address accepts no connections at the moment.',
  retryAfterS: 1,
};

/** The host that runs the app may have seen the request, so the request must not be sent again. */
export const HOST_BROKE_OFF: OwnRefusal = {
  status: 502,
  code: 'bad_gateway',
  reason: 'no_answer',
  detail: 'The host that runs this app did not answer, and may have seen the request.',
};
const MAINTENANCE_RETRY_AFTER_S = 60;

/** Returns the refusal of an app in maintenance. @param page HTML of its owner; null for Cellar's page */
export function inMaintenance(page: string | null): OwnRefusal {
  return {
    status: 503,
    code: 'app_unavailable',
    reason: 'maintenance',
    detail: 'Its owner has turned maintenance on. The app will be back.',
    retryAfterS: MAINTENANCE_RETRY_AFTER_S,
    page,
  };
}

/** Returns the refusal of a malformed or unsupported request. */
export function badRequest(detail: string): { refusal: OwnRefusal } {
  return { refusal: { status: 400, code: 'bad_request', detail } };
}

/** Returns the refusal of a client that exceeds its rate limit. */
export function tooManyRequests(retryAfterS: number): OwnRefusal {
  const detail = `Too many requests. Try again in ${retryAfterS} ${retryAfterS === 1 ? 'second' : 'seconds'}.`;
  return { status: 429, code: 'rate_limited', reason: 'rate_limited', detail, retryAfterS };
}

/** Returns the refusal for a process that sent no response. @param sent whether the process may have seen the request */
export function failure(sent: boolean): OwnRefusal {
  return sent ? BROKEN_OFF : NOT_THERE;
}
