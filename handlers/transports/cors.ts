// CORS: lets pages of the origins in `RUNNER_CORS_ORIGINS` call the API.
import type { Env } from '../env.ts';

const EXPOSED = 'x-request-id, retry-after, etag, content-range, mcp-session-id, mcp-protocol-version';
/** Lifetime of a preflight response in the browser's cache, in seconds. */
const MAX_AGE_S = 600;

/** Returns a request's origin if its pages may call the API; else null. */
export function allowedOrigin(request: Request, env: Env): string | null {
  const origin = request.headers.get('origin');
  return origin !== null && env.RUNNER_CORS_ORIGINS.split(',').includes(origin) ? origin : null;
}

/** Answers a CORS preflight request. Returns null for any other request. */
export function preflight(request: Request, origin: string | null): Response | null {
  const method = request.headers.get('access-control-request-method');
  if (request.method !== 'OPTIONS' || origin === null || method === null) return null;
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': request.headers.get('access-control-request-headers') ?? '',
      'access-control-max-age': String(MAX_AGE_S),
    },
  });
}

/** Lets pages of an origin read a response. Does not allow cookies, because pages authenticate by a token. */
export function allow(headers: Headers, origin: string): void {
  headers.set('access-control-allow-origin', origin);
  headers.set('access-control-expose-headers', EXPOSED);
  headers.append('vary', 'origin');
}
