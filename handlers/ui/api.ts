// Forwards requests of signed-in people to the API, and calls the control plane about people.
import type { ProblemBody } from '../contract/errors.ts';
import { ACCOUNT_HEADER, type SignInCalls } from '../contract/people/sign-in.ts';
import { Problem } from '../problem.ts';
import type { Env } from './env.ts';

/** Request headers that are forwarded to the API. Others, such as cookies, are not forwarded. */
const FORWARDED_HEADERS = [
  'accept',
  'content-type',
  'content-encoding',
  'idempotency-key',
  'if-match',
  'if-none-match',
  'last-event-id',
  'range',
  'traceparent',
  'x-real-ip',
  'x-request-id',
];
/** Responses may contain an app's untrusted content: browsers treat it as data, whatever its type. */
const DATA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'";

/**
 * Returns whether a path belongs to the API. Excludes the routes of Git and the edge, which have their own authentication.
 */
export function isApi(path: string): boolean {
  return path === '/rpc' || (path.startsWith('/v1/') && !/^\/v1\/(git|edge)(\/|$)/.test(path));
}

/** Forwards a request to the API on behalf of an account. @throws {Problem} `host_unavailable` */
export async function passOn(request: Request, account: string, env: Env): Promise<Response> {
  const headers = new Headers({ authorization: `Bearer ${env.RUNNER_TOKEN}`, [ACCOUNT_HEADER]: account });
  for (const name of FORWARDED_HEADERS) {
    const value = request.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  const { pathname, search } = new URL(request.url);
  const { method, body, signal } = request;
  const response = await ask(env, pathname + search, { method, headers, body, signal, redirect: 'manual' });
  const answer = new Response(response.body, response);
  answer.headers.set('content-security-policy', DATA_POLICY);
  answer.headers.delete('set-cookie');
  return answer;
}

/** Makes one of `SignInCalls` to the control plane. @throws {Problem} with the call's error, or `host_unavailable` */
export async function askAbout<Name extends keyof SignInCalls>(
  env: Env,
  name: Name,
  input: SignInCalls[Name]['input'],
): Promise<SignInCalls[Name]['answer']> {
  const response = await ask(env, `/internal/sign-in/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-cellar-secret': env.HOST_SECRET },
    body: JSON.stringify(input),
  });
  if (response.ok) return response.json();
  const { code, detail, errors } = (await response.json()) as ProblemBody;
  throw new Problem(code, detail, errors);
}

async function ask(env: Env, path: string, init: RequestInit): Promise<Response> {
  try {
    return await env.API.fetch(`http://control${path}`, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(
      'host_unavailable',
      'The API does not answer now, because it is restarting. Try again in a moment.',
    );
  }
}
