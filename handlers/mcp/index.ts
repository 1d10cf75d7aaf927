// `POST /mcp` for agents: the Model Context Protocol over the contract's operations.
import type { Context } from '../context.ts';
import type { Env } from '../env.ts';
import { Problem } from '../problem.ts';
import { parseJson, readText } from '../transports/body.ts';
import { allowedOrigin } from '../transports/cors.ts';
import { holdBody, holderOf } from '../transports/large-bodies.ts';
import { invalidInput } from '../transports/validate.ts';

/** Maximum bytes of a message. The largest messages are commits of sources. */
const BODY_LIMIT_BYTES = 4 * 1024 * 1024;
const LOCAL_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Answers one message, without state between messages.
 * @throws {Problem} `forbidden` for another hostname, or a page of another origin; `invalid_input` for a wrong `read_only`;
 *   and when the body is too large or not JSON
 */
export async function mcp(request: Request, context: Context): Promise<Response> {
  const url = new URL(request.url);
  requireOwnHost(url, context.env);
  requireOrigin(request, url, context.env);
  const readOnly = isReadOnly(url);
  if (request.method === 'POST') holdBody(request, holderOf(context));
  const parsedBody = request.method === 'POST' ? parseJson(await readText(request, BODY_LIMIT_BYTES)) : null;
  // Loads the MCP library on first use, because loading takes as long as for the rest of the control plane. At the start it
  // would double the time.
  const { serve } = await import('./server.ts');
  return serve(request, parsedBody, context, readOnly);
}

/** Accepts only Cellar's own hostnames, against DNS rebinding. @throws {Problem} `forbidden` */
function requireOwnHost({ hostname }: URL, { BASE_DOMAIN, PUBLIC_API_URL }: Env): void {
  const own = [...LOCAL_NAMES, `api.${BASE_DOMAIN}`, new URL(PUBLIC_API_URL).hostname];
  if (!own.includes(hostname))
    throw new Problem('forbidden', `Cellar does not serve MCP at ${hostname}; use ${PUBLIC_API_URL}.`);
}

/** Accepts pages only of this origin and of `RUNNER_CORS_ORIGINS`. @throws {Problem} `forbidden` for other pages */
function requireOrigin(request: Request, url: URL, env: Env): void {
  const origin = request.headers.get('origin');
  if (origin === null || origin === url.origin || allowedOrigin(request, env) !== null) return;
  throw new Problem(
    'forbidden',
    'The origin of this page may not call MCP: RUNNER_CORS_ORIGINS does not name it.',
  );
}

function isReadOnly({ searchParams }: URL): boolean {
  const given = searchParams.get('read_only') ?? 'false';
  if (given === 'true' || given === 'false') return given === 'true';
  throw invalidInput([{ path: 'read_only', message: 'must be true or false' }]);
}
