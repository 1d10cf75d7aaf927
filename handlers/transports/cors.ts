// Calls of the API by pages of other origins, where `RUNNER_CORS_ORIGINS` names these.
import type { Env } from '../env.ts';

const EXPOSED = 'x-request-id, retry-after, etag, content-range, mcp-session-id, mcp-protocol-version';
/** How long a browser keeps the answer to its question, in seconds. */
const KEPT_S = 600;

/** The origin of a request, if its pages may call the API; else null. */
export function allowedOrigin(request: Request, env: Env): string | null {
  const origin = request.headers.get('origin');
  return origin !== null && env.RUNNER_CORS_ORIGINS.split(',').includes(origin) ? origin : null;
}

/** What a browser asks before it sends a request of its page. Null for any other request. */
export function preflight(request: Request, origin: string | null): Response | null {
  const method = request.headers.get('access-control-request-method');
  if (request.method !== 'OPTIONS' || origin === null || method === null) return null;
  return new Response(null, {
    status: 204,
    headers: {
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': request.headers.get('access-control-request-headers') ?? '',
      'access-control-max-age': String(KEPT_S),
    },
  });
}

/** Lets pages of an origin read an answer. No credentials of the browser are asked for: callers send their token. */
export function allow(headers: Headers, origin: string): void {
  headers.set('access-control-allow-origin', origin);
  headers.set('access-control-expose-headers', EXPOSED);
  headers.append('vary', 'origin');
}
