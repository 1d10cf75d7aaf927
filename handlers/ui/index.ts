// The control UI's server: static files, sign-in, and the API on behalf of the signed-in person.

import { migrate } from '../../sqlite/sign-in/migrations.ts';
import { forgetPerson, removeExpired } from '../../sqlite/sign-in/people.ts';
import { PAGE } from '../contract/host/ui-files.ts';
import type { SignedIn } from '../contract/people/sign-in.ts';
import { asProblem, Problem, problemResponse } from '../problem.ts';
import { discard, readBytes } from '../transports/body.ts';
import { isRpc, rpcProblemResponse } from '../transports/rpc-failures.ts';
import { askAbout, isApi, passOn } from './api.ts';
import { type Auth, cookiePrefix, createAuth, isAuthRoute, LOCK_S } from './auth.ts';
import { compressed } from './compressed.ts';
import type { Env } from './env.ts';
import { file, wantsPage } from './files.ts';
import { Attempts, clientOf, Limiter, TooMany } from './limits.ts';
import { forgot, join, look, useLink } from './links.ts';
import { isNavigation, ownCookies, requireOwnOrigin } from './origin.ts';
import { signInByPassword } from './password.ts';
import { begin, CALLBACK, end, endOldSession, requireAllowedWay, shownProvider } from './provider.ts';

/** Minimum time between two deletions of expired rows, in ms. Clients who are not signed in can create rows too. */
const CLEAN_EVERY_MS = 10 * 60_000;
/** Interval at which a stream's session is checked again, in ms. */
const CHECK_EVERY_MS = 60_000;
/** Number of these intervals after which a stream is closed. The page then opens a new stream, which the API authorizes. */
const CHECKS_LIMIT = 10;
/**
 * Maximum bytes of a body for better-auth. The largest is the attestation of a security key, which contains certificates.
 */
const BODY_BYTES = 64 * 1024;

/** State shared by all requests. */
class Server {
  readonly #env: Env;
  readonly #limiter: Limiter;
  readonly #attempts = new Attempts();
  #auth: Auth | null = null;
  #cleanedAt = 0;

  constructor(env: Env) {
    this.#env = env;
    this.#limiter = new Limiter(Number(env.SERVICE_RATE_LIMIT_RPM));
  }

  async answer(received: Request, execution: ExecutionContext): Promise<Response> {
    const env = this.#env;
    const { pathname } = new URL(received.url);
    const found = await file(received, pathname, env);
    if (found !== null) return found;
    if (isApi(pathname)) return this.#api(this.#own(received), execution);
    if (pathname === CALLBACK && isNavigation(received) && env.OIDC_URL !== '') {
      this.#limit('auth', received);
      return end(this.#withOwnCookies(received), await this.#library(), env);
    }
    if (pathname === '/oidc' && received.method === 'POST' && env.OIDC_URL !== '') {
      this.#limit('auth', received);
      const request = this.#own(received);
      const auth = await this.#library();
      await this.#clean(Date.now());
      return begin(request, auth, env);
    }
    if (pathname.startsWith('/api/auth/') || pathname === '/session') {
      this.#limit('auth', received);
      return this.#signIn(this.#own(received), pathname);
    }
    const route = `${received.method} ${pathname}`;
    if (route === 'POST /forgot' && this.#env.MAIL === 'on') {
      requireAllowedWay(pathname, env);
      this.#limit('invite', received);
      return forgot(this.#own(received), env, this.#attempts);
    }
    if (route === 'POST /welcome' || route === 'POST /invites/look' || route === 'POST /invites/accept') {
      this.#limit('invite', received);
      requireAllowedWay(pathname, env);
      const request = this.#own(received);
      return route === 'POST /invites/look'
        ? look(request, env)
        : useLink(request, env, await this.#library());
    }
    if (route === 'POST /invites/join') {
      this.#limit('invite', received);
      const request = this.#own(received);
      const { id, headers } = await this.#whoIs(request);
      const answer = await join(request, this.#env, id);
      for (const cookie of headers.getSetCookie()) answer.headers.append('set-cookie', cookie);
      return answer;
    }
    if (/^\/docs\/?$/.test(pathname) && wantsPage(received))
      return new Response(null, { status: 302, headers: { location: '/docs/readme' } });
    // Every other path gets the same page: the router in the browser decides which screens exist.
    if (wantsPage(received)) return (await file(received, PAGE, env))!;
    const api = this.#env.PUBLIC_API_URL;
    throw new Problem('route_not_found', `This address is for browsers; the API is at ${api}.`);
  }

  /** Checks that a request comes from our own pages, and drops cookies that are not ours, such as cookies of apps. */
  #own(request: Request): Request {
    requireOwnOrigin(request, this.#env);
    return this.#withOwnCookies(request);
  }

  #withOwnCookies(request: Request): Request {
    const own = new Request(request);
    const cookies = ownCookies(request.headers.get('cookie'), cookiePrefix(this.#env));
    if (cookies === '') own.headers.delete('cookie');
    else own.headers.set('cookie', cookies);
    return own;
  }

  #limit(kind: 'auth' | 'invite', { headers }: Request): void {
    const wait = this.#limiter.admit(`${kind} ${clientOf(headers)}`, Date.now());
    if (wait > 0) throw new TooMany(wait);
  }

  async #signIn(request: Request, path: string): Promise<Response> {
    if (path === '/session' && request.method === 'GET') return this.#session(request);
    if (!isAuthRoute(request.method, path)) throw new Problem('route_not_found');
    requireAllowedWay(path, this.#env);
    const auth = await this.#library();
    await this.#clean(Date.now());
    if (path === '/api/auth/list-sessions') return this.#sessions(request, auth);
    await this.#endOldSession(request, auth);
    const response =
      path === '/api/auth/sign-in/email'
        ? await signInByPassword(request, auth, this.#attempts)
        : await auth.handler(await whole(request));
    if (response.status === 403) await requireFresh(response.clone());
    const wait = response.headers.get('x-retry-after');
    if (response.status !== 429) return response;
    await response.body?.cancel();
    // For a locked account, better-auth does not report the remaining time.
    throw new TooMany(Number(wait) || LOCK_S);
  }

  /**
   * Answers with the person's sessions. better-auth's own route would refuse this to a session that is older than a day. The
   * answer has the tokens of the sessions. Without the signature of the session's cookie, a token can only end its session.
   */
  async #sessions(request: Request, auth: Auth): Promise<Response> {
    const { id, headers } = await this.#whoIs(request);
    const { internalAdapter } = await auth.$context;
    return Response.json(await internalAdapter.listSessions(id, { onlyActiveSessions: true }), { headers });
  }

  /** Ends the session of a request's cookie if it is too old. Otherwise some better-auth routes would replace it by a new one. */
  async #endOldSession({ headers }: Request, auth: Auth): Promise<void> {
    if (this.#env.OIDC_URL === '' || !headers.has('cookie')) return;
    const found = await auth.api.getSession({ headers, query: { disableRefresh: true } });
    if (found !== null) await endOldSession(this.#env, found.session);
  }

  /** Answers with the signed-in account, or null, and with facts about this Cellar that pages need. */
  async #session(request: Request): Promise<Response> {
    const env = this.#env;
    const mail = env.MAIL === 'on';
    try {
      const { id, hasSecondFactor, headers } = await this.#whoIs(request);
      const account = await this.#account(id);
      const urls = { api: env.PUBLIC_API_URL, git: env.PUBLIC_GIT_URL, app: env.PUBLIC_APP_URL };
      const answer = {
        account,
        urls,
        version: env.VERSION,
        second_factor: hasSecondFactor,
        bucket: env.HAS_BUCKET === 'true',
        tcp_ports: env.TCP_PORTS,
        receives_mail: env.RECEIVES_MAIL === 'true',
        storage: env.RUNNER_STORAGE,
        hosts: env.HAS_HOSTS === 'true',
        mail,
        provider: shownProvider(env),
      };
      return Response.json(answer, { headers });
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'unauthorized') throw error;
      return Response.json({ account: null, mail, provider: shownProvider(env) });
    }
  }

  async #api(request: Request, execution: ExecutionContext): Promise<Response> {
    const { id, headers } = await this.#whoIs(request);
    const passed = await passOn(request, id, this.#env);
    if (passed.status === 401) {
      await passed.body?.cancel();
      await this.#account(id);
      throw new Problem(
        'host_unavailable',
        'The API refused the token of the control UI. Try again in a moment; if it happens again, ask the operator of this machine to restart Cellar.',
      );
    }
    const isStream = passed.headers.get('content-type')?.startsWith('text/event-stream');
    const response = isStream
      ? this.#whileSignedIn(request, passed, execution)
      : compressed(passed, request.headers.get('accept-encoding') ?? '');
    for (const cookie of headers.getSetCookie()) response.headers.append('set-cookie', cookie);
    return response;
  }

  /**
   * Closes a stream after its reader's session or account has ended. Also closes it after `CHECKS_LIMIT` intervals.
   */
  #whileSignedIn(request: Request, response: Response, execution: ExecutionContext): Response {
    const { readable, writable } = new TransformStream();
    const ending = new AbortController();
    const look = async () => {
      const { id } = await this.#whoIs(request);
      await askAbout(this.#env, 'account', { id });
    };
    let looks = 0;
    const timer = setInterval(() => {
      looks++;
      if (looks === CHECKS_LIMIT) return ending.abort();
      look().catch((error: unknown) => {
        if (error instanceof Problem && error.status < 500) ending.abort();
      });
    }, CHECK_EVERY_MS);
    const ended = response
      .body!.pipeTo(writable, { signal: ending.signal, preventAbort: true })
      // Closes the stream cleanly, unless the reader has disconnected.
      .catch(() => writable.close().catch(() => {}))
      .finally(() => clearInterval(timer));
    execution.waitUntil(ended);
    return new Response(readable, response);
  }

  async #clean(now: number): Promise<void> {
    if (now - this.#cleanedAt < CLEAN_EVERY_MS) return;
    this.#cleanedAt = now;
    await removeExpired(this.#env.DB, new Date(now).toISOString());
  }

  /** Returns the signed-in person's account id, and headers that renew the cookies. @throws {Problem} `unauthorized` */
  async #whoIs(request: Request): Promise<{ id: string; hasSecondFactor: boolean; headers: Headers }> {
    if (!request.headers.has('cookie')) throw signedOut();
    const auth = await this.#library();
    const { response, headers } = await auth.api.getSession({
      headers: request.headers,
      returnHeaders: true,
    });
    if (response === null || (await endOldSession(this.#env, response.session))) throw signedOut();
    const { id, twoFactorEnabled } = response.user;
    return { id, hasSecondFactor: twoFactorEnabled === true, headers };
  }

  /**
   * Returns an account. If it was deleted, also deletes its sign-in data.
   * @throws {Problem} `unauthorized` if it was deleted
   */
  async #account(id: string): Promise<SignedIn> {
    try {
      return await askAbout(this.#env, 'account', { id });
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'account_not_found') throw error;
      await forgetPerson(this.#env.DB, id);
      throw signedOut();
    }
  }

  async #library(): Promise<Auth> {
    if (this.#auth !== null) return this.#auth;
    // Concurrent first requests each do this work. If they shared a promise and its request was aborted, the promise would
    // never settle, and the others would wait forever.
    await migrate(this.#env.DB);
    const auth = createAuth(this.#env);
    await auth.$context;
    this.#auth ??= auth;
    return this.#auth;
  }
}

let server: Server | null = null;

export default {
  async fetch(request: Request, env: Env, execution: ExecutionContext): Promise<Response> {
    server ??= new Server(env);
    try {
      return secured(await server.answer(request, execution));
    } catch (error) {
      const problem = asProblem(error, request.headers.get('x-request-id') ?? '');
      if (request.body && !request.bodyUsed) await discard(request.body);
      const wait: Record<string, string> =
        problem instanceof TooMany ? { 'retry-after': String(problem.seconds) } : {};
      const { pathname } = new URL(request.url);
      const respond = isRpc(request.method, pathname) ? rpcProblemResponse : problemResponse;
      return secured(respond(problem, wait));
    }
  },
} satisfies ExportedHandler<Env>;

/** Reads a request's body into memory, up to a limit that better-auth lacks. @throws {Problem} `body_too_large` */
async function whole(request: Request): Promise<Request> {
  const bytes = await readBytes(request, BODY_BYTES);
  const { url, method, headers } = request;
  return new Request(url, { method, headers, body: method === 'GET' || bytes.length === 0 ? null : bytes });
}

/** Throws if better-auth refused a request because the session is too old to add a passkey. @throws {Problem} `forbidden` */
async function requireFresh(refusal: Response): Promise<void> {
  const { code } = (await refusal.json().catch(() => ({}))) as { code?: string };
  if (code === 'SESSION_NOT_FRESH')
    throw new Problem(
      'forbidden',
      'To add a passkey, sign out and sign in again: your last sign-in was more than a day ago.',
    );
}

function signedOut(): Problem {
  return new Problem('unauthorized', 'You are not signed in, or your session has ended: sign in.');
}

/** Adds the security headers of every response. */
function secured(response: Response): Response {
  const sent = new Response(response.body, response);
  const { headers } = sent;
  headers.set('x-content-type-options', 'nosniff');
  headers.set('referrer-policy', 'no-referrer');
  headers.set('cross-origin-resource-policy', 'same-origin');
  headers.set('cross-origin-opener-policy', 'same-origin');
  headers.set('x-frame-options', 'DENY');
  if (!headers.has('content-security-policy'))
    headers.set('content-security-policy', "default-src 'none'; frame-ancestors 'none'");
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  return sent;
}
