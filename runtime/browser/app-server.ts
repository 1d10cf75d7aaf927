// Serves the browser binding of one app, at that app's socket: the calls of Cloudflare's Puppeteer and Playwright.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { answerHttp, type HttpAnswerer } from '../app-services/app-service-http.ts';
import type { SocketHandle } from '../app-services/listening-socket.ts';
import { log, reason } from '../log.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import { BrowserError, failed, invalid, notFound } from './errors.ts';
import { CLOSED, type Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** Bounds and default of `keep_alive`, the time that a browser waits for a command, in ms. */
const KEEP_ALIVE_MS = { least: 10_000, normal: 60_000, most: 600_000 };
/** Maximum bytes of a request's body. */
const REQUEST_BYTES = 64 * 1024;
const REQUEST_MS = 30_000;
const LIMITS = {
  maxHeaderSize: 16_384,
  headersTimeout: REQUEST_MS,
  requestTimeout: REQUEST_MS,
  silenceMs: 2 * 60_000,
  connections: 64,
};
const ID = '([0-9a-f-]{36})';
const DEVTOOLS = new RegExp(`^/v1/devtools/browser/${ID}(/.*)?$`);
const DETAIL = new RegExp(`^/v1/devtools/session/${ID}$`);
/** Paths below a session whose HTTP requests are passed on to the browser's DevTools server. */
const JSON_PATH = /^\/json(?:\/(?:version|list|protocol|new|(?:activate|close)\/[0-9A-Za-z-]{1,64}))?$/;
/** Paths below a session for the DevTools WebSocket of one page. */
const PAGE_PATH = /^\/page\/[0-9A-Za-z-]{1,64}$/;

interface Answer {
  status: number;
  body: string | IncomingMessage;
}

export interface AppServerOptions {
  app: string;
  /** The app's account. */
  owner: string;
  sessions: Sessions;
}

export class AppServer {
  readonly #options: AppServerOptions;
  #isClosed = false;

  private constructor(options: AppServerOptions) {
    this.#options = options;
  }

  /** Serves an app at a socket that only this app can reach. */
  static async listen(listener: SocketHandle, options: AppServerOptions): Promise<HttpAnswerer> {
    const server = new AppServer(options);
    const http = await answerHttp(
      listener,
      LIMITS,
      (request, response) => void server.#answer(request, response),
      (request, client, head) => void server.#upgrade(request, client, head),
    );
    return {
      close: async () => {
        server.#isClosed = true;
        options.sessions.endAll(options.app);
        await http.close();
      },
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const { status, body } = await this.#called(request);
      response.writeHead(status, { 'content-type': 'application/json' });
      if (typeof body === 'string') response.end(body);
      // Streamed, not buffered: the list of pages may be large, because a page chooses its title and its address.
      else await pipeline(body, response);
    } catch (error) {
      if (response.headersSent) return void response.destroy();
      const { status, message } = refusalOf(error);
      response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(message);
    }
  }

  async #called(request: IncomingMessage): Promise<Answer> {
    const { app, owner, sessions } = this.#options;
    const { pathname, searchParams, search } = new URL(request.url!, 'http://browser');
    const body = await readAtMost(request, REQUEST_BYTES);
    if (body === null) throw invalid(`the body of a request may have at most ${REQUEST_BYTES} bytes`);
    const call = `${request.method} ${pathname}`;
    if (call === 'POST /v1/devtools/browser') {
      requireNoGuardrails(request, body);
      const { id } = await this.#launch(searchParams);
      return ok({ sessionId: id });
    }
    if (call === 'GET /v1/sessions') return ok({ sessions: sessions.list(app) });
    if (call === 'GET /v1/devtools/session') return ok(sessions.list(app));
    if (call === 'GET /v1/history') return ok({ history: sessions.history(app) });
    if (call === 'GET /v1/limits') return ok(sessions.limits(app, owner));
    const [, detailed] = (request.method === 'GET' && DETAIL.exec(pathname)) || [];
    if (detailed !== undefined) return ok(sessions.find(app, detailed).info);
    const [, id, path] = DEVTOOLS.exec(pathname) ?? [];
    if (id !== undefined && path === undefined && request.method === 'DELETE') {
      sessions.find(app, id).end(CLOSED.normal, 'the app closed the session');
      return ok({ status: 'closed' });
    }
    if (id !== undefined && path !== undefined && JSON_PATH.test(path)) {
      const asked = path === '/json/new' ? `${path}${newTab(search)}` : path;
      const answer = await sessions.find(app, id).request(asked, request.method!);
      return { status: answer.statusCode!, body: answer };
    }
    throw notFound(`${call} is not available: use @cloudflare/puppeteer or @cloudflare/playwright`);
  }

  async #upgrade(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    client.on('error', () => client.destroy());
    try {
      const { pathname, searchParams } = new URL(request.url!, 'http://browser');
      const [, id, path] = DEVTOOLS.exec(pathname) ?? [];
      if (path !== undefined && !PAGE_PATH.test(path)) throw notFound(`${pathname} is not available`);
      let session: Session;
      if (pathname === '/v1/devtools/browser') {
        requireNoGuardrails(request);
        session = await this.#launch(searchParams);
      } else if (id !== undefined) session = this.#options.sessions.find(this.#options.app, id);
      else throw notFound(`${pathname} is not available`);
      await session.connect(path === undefined ? null : `/devtools${path}`, request, client, head);
    } catch (error) {
      const { status, message } = refusalOf(error);
      client.end(
        `HTTP/1.1 ${status} Refused\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(message)}\r\nconnection: close\r\n\r\n${message}`,
      );
    }
  }

  #launch(parameters: URLSearchParams): Promise<Session> {
    const { app, owner, sessions } = this.#options;
    if (this.#isClosed) throw failed('the app was stopped');
    for (const name of ['browser', 'recording', 'lab'])
      if (!['', 'false', null].includes(parameters.get(name)))
        throw invalid(`"${name}" is not available on this Cellar, which runs Chromium only`);
    const asked = parameters.get('keep_alive');
    const keepAliveMs = asked === null ? KEEP_ALIVE_MS.normal : Number(asked);
    if (!(keepAliveMs >= KEEP_ALIVE_MS.least && keepAliveMs <= KEEP_ALIVE_MS.most))
      throw invalid(`"keep_alive" must be from ${KEEP_ALIVE_MS.least} to ${KEEP_ALIVE_MS.most} milliseconds`);
    return sessions.start(app, owner, keepAliveMs);
  }
}

/**
 * Refuses a request for guardrails (limits of what a page may reach). If they were ignored, the session would be less safe
 * than the app asked for.
 */
function requireNoGuardrails({ headers }: IncomingMessage, body?: Buffer): void {
  if (headers['cf-brapi-guardrails'] !== undefined || body?.includes('"guardrails"'))
    throw invalid('"guardrails" are not available on this Cellar');
}

/** Returns the query for `/json/new`: the new tab's address, if the app gave one. */
function newTab(search: string): string {
  const url = new URLSearchParams(search).get('url');
  return url === null ? '' : `?${encodeURIComponent(url)}`;
}

function ok(value: unknown): Answer {
  return { status: 200, body: JSON.stringify(value) };
}

function refusalOf(error: unknown): BrowserError {
  if (error instanceof BrowserError) return error;
  log('warn', 'a call of the browser service failed', { error: reason(error) });
  return failed('the browser service failed');
}
