// Serves the images binding of one app, at the app's own socket.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { finished } from 'node:stream/promises';
import { AppCalls, type Shared } from '../app-services/app-calls.ts';
import { answerHttp, bytesOf, type HttpAnswerer } from '../app-services/app-service-http.ts';
import type { ReservedMemory } from '../app-services/budget.ts';
import type { SocketHandle } from '../app-services/listening-socket.ts';
import { log, reason } from '../log.ts';
import { errorAnswer, failed, ImagesError, invalidOptions, noCapacity, tooLarge } from './errors.ts';
import { fetchedAnswer } from './fetched.ts';
import { formOf, imageOf, transformCallOf } from './request.ts';
import { infoOf, transformed } from './transform.ts';

/** Maximum bytes of a request: all images of a call together. */
const REQUEST_BYTES = 32 * 2 ** 20;
/** Maximum concurrent calls of an app. */
const CALLS = 32;
/** Timeout for receiving a request, in ms. */
const REQUEST_MS = 60_000;
/** Timeout for the app to read a response, in ms. */
const RESPONSE_MS = 5 * 60_000;
const LIMITS = {
  maxHeaderSize: 16_384,
  headersTimeout: REQUEST_MS,
  requestTimeout: REQUEST_MS,
  // Also ends a call that waits this long in the queue.
  silenceMs: 5 * 60_000,
  connections: 256,
};

interface Answer {
  type: string;
  bytes: Buffer;
}

export class AppServer {
  readonly #shared: Shared;
  readonly #calls: AppCalls;

  private constructor(shared: Shared) {
    this.#shared = shared;
    const tooMany = `an app may make at most ${CALLS} calls of the images service at a time`;
    this.#calls = new AppCalls(shared, { atOnce: CALLS, tooMany, noCapacity, refuse });
  }

  /** Listens at a socket that only the app can reach. */
  static listen(listener: SocketHandle, shared: Shared): Promise<HttpAnswerer> {
    const server = new AppServer(shared);
    return answerHttp(listener, LIMITS, (request, response) => void server.#answer(request, response));
  }

  #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { owner, queue } = this.#shared;
    return this.#calls.run(request, response, async (held, left) => {
      const { pathname } = new URL(request.url!, 'http://images');
      const body = await bodyOf(request, pathname, held);
      const { type, bytes } = await queue.run({ owner, signal: left }, () =>
        called(pathname, body, request.headers['content-type']),
      );
      held.take(bytes.length);
      held.check();
      response.writeHead(200, { 'content-type': type, 'content-length': bytes.length }).end(bytes);
      // The response counts in the budget until the app has read it.
      await finished(response, { signal: AbortSignal.timeout(RESPONSE_MS) }).catch(() => response.destroy());
    });
  }
}

function bodyOf(request: IncomingMessage, pathname: string, held: ReservedMemory): Promise<Buffer> {
  if (request.method !== 'POST' || !['/info', '/transform', '/fetched'].includes(pathname))
    throw invalidOptions(`${pathname} is not available: only info() and input()`);
  return bytesOf(request, {
    bytes: REQUEST_BYTES,
    tooLarge: () => tooLarge(`the images of a call may have at most ${REQUEST_BYTES} bytes`),
    held,
  });
}

async function called(pathname: string, body: Buffer, contentType: string | undefined): Promise<Answer> {
  const form = await formOf(body, contentType);
  if (pathname === '/transform') return transformed(await transformCallOf(form));
  if (pathname === '/fetched') return fetchedAnswer(form);
  const info = await infoOf(await imageOf(form));
  return { type: 'application/json', bytes: Buffer.from(JSON.stringify(info)) };
}

function refuse(response: ServerResponse, error: unknown): void {
  if (!(error instanceof ImagesError))
    log('warn', 'a call of the images service failed', { error: reason(error) });
  if (response.headersSent) return void response.destroy();
  const refusal = error instanceof ImagesError ? error : failed('the images service failed');
  const { headers, body } = errorAnswer(refusal);
  response.writeHead(refusal.status, headers).end(body);
}
