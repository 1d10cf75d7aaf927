// Entry module of the control plane: routes requests to their handlers.
import { migrate } from '../sqlite/control/migrations.ts';
import { NewerSchema } from '../sqlite/d1.ts';
import { type Actor, authenticate, keyOf } from './access.ts';
import { cloudflare, isCloudflarePath } from './cloudflare/index.ts';
import { createContext, type RequestContext } from './context.ts';
import { type AuditInterface, CLI_AGENT } from './contract/people/audit.ts';
import { ACCOUNT_HEADER } from './contract/people/sign-in.ts';
import { edge } from './edge.ts';
import type { Env } from './env.ts';
import { git, gitChallenge, gitHostPath } from './git/smart-http.ts';
import { webhook } from './hooks/webhook.ts';
import { internal } from './host/internal.ts';
import { mcp } from './mcp/index.ts';
import { Problem, problemResponse } from './problem.ts';
import { prometheus } from './prometheus.ts';
import { reference } from './reference.ts';
import { discard } from './transports/body.ts';
import { allow, allowedOrigin, preflight } from './transports/cors.ts';
import { requireDataDestination } from './transports/destination.ts';
import { failure } from './transports/failure.ts';
import { releaseBody } from './transports/large-bodies.ts';
import { openapi } from './transports/openapi/openapi.ts';
import { api } from './transports/rest.ts';
import { rpc } from './transports/rpc.ts';
import { isRpc, rpcProblemResponse } from './transports/rpc-failures.ts';

export { AppObject } from './app/app-object.ts';
export { HostsObject } from './hosts/hosts-object.ts';

/** Whether this isolate has migrated the database to the newest schema. */
let migrated = false;

export default {
  async fetch(request: Request, env: Env, execution: ExecutionContext): Promise<Response> {
    const requestId = requestIdOf(request.headers);
    const origin = allowedOrigin(request, env);
    const from = { requestId, address: request.headers.get('x-real-ip') ?? '' };
    const response =
      preflight(request, origin) ?? (await answer(request, createContext(env, from, execution)));
    const sent = new Response(response.body, response);
    sent.headers.set('x-request-id', requestId);
    if (origin !== null) allow(sent.headers, origin);
    return sent;
  },
} satisfies ExportedHandler<Env>;

async function answer(received: Request, context: RequestContext): Promise<Response> {
  const url = new URL(received.url);
  const onGitHost = url.hostname === `git.${context.env.BASE_DOMAIN}`;
  if (onGitHost) url.pathname = gitHostPath(url.pathname);
  const request = onGitHost ? new Request(url, received) : received;
  const challenge = url.pathname.startsWith('/v1/git/') ? gitChallenge : bearerChallenge;
  try {
    return await route(request, url.pathname, context);
  } catch (error) {
    const problem = await failure(error, context);
    if (request.body && !request.bodyUsed) await discard(request.body);
    const respond = isRpc(request.method, url.pathname) ? rpcProblemResponse : problemResponse;
    return respond(problem, challenge(problem));
  } finally {
    releaseBody(request);
  }
}

async function route(request: Request, pathname: string, context: RequestContext): Promise<Response> {
  if (!migrated) {
    await migrate(context.db).catch((error: unknown) => {
      throw error instanceof NewerSchema ? new Problem('newer_schema', error.message) : error;
    });
    migrated = true;
  }
  if (pathname.startsWith('/v1/git/')) return git(request, context);
  if (pathname.startsWith('/v1/edge/')) return edge(request, context);
  if (pathname.startsWith('/v1/hooks/')) return webhook(request, pathname, context);
  if (pathname.startsWith('/internal/')) return internal(request, context);
  if (isCloudflarePath(pathname)) return cloudflare(request, context);
  if (pathname === '/docs' || pathname.startsWith('/docs/')) return reference(request, pathname, context);
  if (pathname === '/openapi.json' && request.method === 'GET') {
    return Response.json(openapi(context.env.PUBLIC_API_URL));
  }
  requireDataDestination(request);
  const whoNow = () => authenticate(request, context);
  const actor = await whoNow();
  const acting = { ...context, actor, whoNow, via: viaOf(request, pathname, actor) };
  if (isRpc(request.method, pathname)) return rpc(request, acting);
  if (pathname === '/mcp') return mcp(request, acting);
  if (pathname === '/metrics' && request.method === 'GET') return prometheus(acting);
  return api(request, acting);
}

/** Names the interface of an authenticated request. */
function viaOf({ headers }: Request, pathname: string, actor: Actor): AuditInterface {
  // A client with an API key can also send the header. Then the header is ignored.
  if (headers.has(ACCOUNT_HEADER) && keyOf(actor) === null) return 'ui';
  if (pathname === '/mcp') return 'mcp';
  if (headers.get('user-agent')?.startsWith(CLI_AGENT)) return 'cli';
  return pathname === '/rpc' ? 'rpc' : 'rest';
}

function bearerChallenge(problem: Problem): Record<string, string> {
  return problem.code === 'unauthorized' ? { 'www-authenticate': 'Bearer realm="cellar"' } : {};
}

/** Returns the gateway's request id, or a new one when it is missing or unsafe for a log line. */
function requestIdOf(headers: Headers): string {
  const given = headers.get('x-request-id') ?? '';
  return /^[\w.:-]{1,128}$/.test(given) ? given : crypto.randomUUID();
}
