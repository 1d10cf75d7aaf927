// Serves the AI bindings of one app, at the app's own socket.
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Response } from 'undici';
import { hasAtMost } from '../../handlers/contract/json-text.ts';
import { AppCalls, type Shared } from '../app-services/app-calls.ts';
import { answerHttp, bodyOf, type HttpAnswerer } from '../app-services/app-service-http.ts';
import type { ReservedMemory } from '../app-services/budget.ts';
import type { SocketHandle } from '../app-services/listening-socket.ts';
import { log, reason } from '../log.ts';
import { StreamTranslator, wholeAnswer } from './answers.ts';
import { callOf, isObject, type SerializedCall, serialize } from './calls.ts';
import {
  AiError,
  errorBody,
  failedHere,
  failedUpstream,
  invalidInput,
  noCapacity,
  notFound,
  timedOut,
  tooLarge,
} from './errors.ts';
import { type AiServer, ask, TIMED_OUT } from './upstream.ts';

/** Maximum bytes of a request. */
const QUESTION_BYTES = 8 * 2 ** 20;
/** Maximum bytes of a response that is not streamed. */
const ANSWER_BYTES = 16 * 2 ** 20;
/** Maximum objects, arrays and fields of a request. More would fill the heap. Numbers do not count: images have many. */
const JSON_PARTS = 200_000;
/** Maximum concurrent calls of an app. */
const CALLS = 32;
/** Timeout for receiving a request, in ms. */
const QUESTION_MS = 60_000;
const LIMITS = {
  maxHeaderSize: 16_384,
  headersTimeout: QUESTION_MS,
  requestTimeout: QUESTION_MS,
  // Longer than the timeout for a response of the AI server (`upstream.ts`). The wait in the queue does not count.
  silenceMs: 11 * 60_000,
  connections: 256,
};
/** Paths that the binding calls. The second is used with an AI Gateway, which Cellar ignores. */
const PATHS = ['/run', '/ai-gateway/run'];

export class AppServer {
  readonly #upstream: AiServer;
  readonly #shared: Shared;
  readonly #calls: AppCalls;

  private constructor(upstream: AiServer, shared: Shared) {
    this.#upstream = upstream;
    this.#shared = shared;
    const tooMany = `An app may make at most ${CALLS} calls of the AI server at a time.`;
    this.#calls = new AppCalls(shared, { atOnce: CALLS, tooMany, noCapacity, refuse });
  }

  /** Listens at a socket that only the app can reach. */
  static listen(listener: SocketHandle, upstream: AiServer, shared: Shared): Promise<HttpAnswerer> {
    const server = new AppServer(upstream, shared);
    return answerHttp(listener, LIMITS, (request, response) => void server.#answer(request, response));
  }

  #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { owner, queue } = this.#shared;
    return this.#calls.run(request, response, async (held, left) => {
      const call = await this.#read(request, held);
      request.socket.setTimeout(0);
      await queue.run({ owner, signal: left }, async () => {
        request.socket.setTimeout(LIMITS.silenceMs);
        const answer = await ask(this.#upstream, call, left);
        if (call.isStream) await sendStream(call.kind, answer, response);
        else await sendWhole(call, answer, response, held);
      });
    });
  }

  async #read(request: IncomingMessage, held: ReservedMemory): Promise<SerializedCall> {
    const { pathname } = new URL(request.url!, 'http://ai');
    if (request.method !== 'POST' || !PATHS.includes(pathname))
      throw notFound(`${pathname} is not run here: only run(), with text generation and embeddings.`);
    const model = request.headers['cf-consn-model-id'];
    if (typeof model !== 'string' || model === '') throw invalidInput('The name of a model is missing.');
    if (request.headers['content-type'] !== 'application/json')
      throw invalidInput('The inputs must be JSON: streams of bytes are not supported.');
    const text = await bodyOf(request, {
      bytes: QUESTION_BYTES,
      tooLarge: () => tooLarge(`The inputs may have at most ${QUESTION_BYTES} bytes.`),
      held,
    });
    if (!hasAtMost(JSON_PARTS, '{[:', text))
      throw invalidInput(`The inputs may have at most ${JSON_PARTS} objects, arrays and fields.`);
    const asked: unknown = parse(text);
    if (!isObject(asked)) throw invalidInput('The inputs are not valid JSON.');
    const { models } = this.#upstream;
    return serialize(callOf(Object.hasOwn(models, model) ? models[model]! : model, asked.inputs));
  }
}

async function sendWhole(
  call: SerializedCall,
  answer: Response,
  response: ServerResponse,
  held: ReservedMemory,
): Promise<void> {
  const body = wholeAnswer(call, await answerOf(answer, held));
  response.writeHead(200, { 'content-type': 'application/json' }).end(body);
}

/** Streams an answer to the app, with backpressure. */
async function sendStream(
  kind: SerializedCall['kind'],
  answer: Response,
  response: ServerResponse,
): Promise<void> {
  const translator = kind === 'chat' ? new StreamTranslator() : null;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  for await (const chunk of chunksOf(answer)) {
    const piece = translator?.write(chunk) ?? chunk;
    if (piece.length > 0 && !response.write(piece))
      await Promise.race([once(response, 'drain'), once(response, 'close')]);
    if (response.destroyed) return;
  }
  response.end(translator?.end());
}

/** An error of the connection to the AI server, during its answer. */
class CutAnswer extends Error {}

/** Yields the body of an answer. @throws {CutAnswer} when it times out, or ends before its last byte */
async function* chunksOf({ body }: Response): AsyncGenerator<Uint8Array> {
  try {
    yield* body ?? [];
  } catch (error) {
    throw new CutAnswer(reason(error), { cause: error });
  }
}

/** Reads a complete response as text. @throws {AiError} when it is too large, or exceeds the memory budget of the service */
async function answerOf(answer: Response, held: ReservedMemory): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunksOf(answer)) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES)
      throw failedUpstream(`The answer of the AI server has more than ${ANSWER_BYTES} bytes.`);
    held.take(chunk.length);
    held.check();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function refuse(response: ServerResponse, error: unknown): void {
  if (!(error instanceof AiError)) log('warn', 'a call of the AI server failed', { error: reason(error) });
  if (response.headersSent) return void response.destroy();
  const refusal = aiErrorOf(error);
  response.writeHead(refusal.status, { 'content-type': 'application/json' }).end(errorBody(refusal));
}

function aiErrorOf(error: unknown): AiError {
  if (error instanceof AiError) return error;
  if (!(error instanceof CutAnswer)) return failedHere('Cellar failed to make this call. Its log says why.');
  return error.cause instanceof DOMException && error.cause.name === 'TimeoutError'
    ? timedOut(TIMED_OUT)
    : failedUpstream('The AI server ended its answer too early; try again.');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
