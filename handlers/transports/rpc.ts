// JSON-RPC 2.0, generated from the contract.

import type { Context } from '../context.ts';
import { operations, operationsByName } from '../contract/index.ts';
import type { Operation } from '../contract/operation.ts';
import { BODY_BYTES, RPC_ENVELOPE_BYTES } from '../contract/sizes.ts';
import { byteLength } from '../contract/text.ts';
import { Problem } from '../problem.ts';
import { parseJson, readText } from './body.ts';
import { failure } from './failure.ts';
import { idempotencyKey } from './idempotency.ts';
import { invoke } from './invoke.ts';
import { holdBody, holderOf } from './large-bodies.ts';
import { eventStream } from './rest.ts';
import {
  codeOf,
  type Failed,
  failed,
  type Id,
  INVALID_PARAMS,
  INVALID_REQUEST,
  METHOD_NOT_FOUND,
  PARSE_ERROR,
  REFUSED,
} from './rpc-failures.ts';
import { invalidInput } from './validate.ts';

/** Maximum bytes of a message, single or batch: the largest body of an operation, and its envelope. */
const BODY_LIMIT_BYTES =
  Math.max(...operations.map((operation: Operation) => operation.bodyLimit ?? BODY_BYTES)) +
  RPC_ENVELOPE_BYTES;
/** Maximum calls in one batch. */
const BATCH_LIMIT = 100;

interface Call {
  id: Id | undefined;
  method: string;
  params: unknown;
}
/** The sender's context, and whether the message is so large that the params of each call must be measured. */
interface Sender {
  context: Context;
  isLarge: boolean;
}
type Answer = { jsonrpc: '2.0'; id: Id; result: unknown } | Failed;

/** Answers `POST /rpc`: a call, a notification (a call without an id), or a batch of calls and notifications. */
export async function rpc(request: Request, context: Context): Promise<Response> {
  let message: unknown;
  let isLarge: boolean;
  holdBody(request, holderOf(context));
  try {
    const text = await readText(request, BODY_LIMIT_BYTES);
    isLarge = byteLength(text) > BODY_BYTES;
    message = parseJson(text);
  } catch (error) {
    if (!(error instanceof Problem && error.code === 'malformed_json')) throw error;
    return send(failed(null, PARSE_ERROR, error));
  }
  const key = idempotencyKey(request.headers);
  const from = { context, isLarge };
  if (!Array.isArray(message)) return answerAlone(message, from, key);
  if (message.length === 0)
    return send(failed(null, INVALID_REQUEST, invalid('must have at least one call')));
  if (message.length > BATCH_LIMIT) {
    return send(failed(null, INVALID_REQUEST, invalid(`must have at most ${BATCH_LIMIT} calls`)));
  }
  const answers = await Promise.all(
    message.map((call, n) => answerBatched(call, from, key && `${key} ${n}`)),
  );
  return send(answers.filter((answer) => answer !== undefined));
}

async function answerAlone(message: unknown, from: Sender, key: string | null): Promise<Response> {
  const answer = await answerOne(message, from, key);
  const streamed = answer !== undefined && 'result' in answer ? answer.result : null;
  return streamed instanceof ReadableStream ? eventStream(streamed) : send(answer);
}

/** Answers one call of a batch. @returns undefined for a notification */
async function answerBatched(
  message: unknown,
  from: Sender,
  key: string | null,
): Promise<Answer | undefined> {
  const call = readCall(message);
  if ('method' in call && isStream(call.method)) {
    if (call.id === undefined) return undefined;
    return failed(
      call.id,
      INVALID_REQUEST,
      invalid(`has ${call.method}, a stream, in a batch; call it alone`),
    );
  }
  return answerOne(message, from, key);
}

/** Runs one call, alone or of a batch. @returns undefined for a notification */
async function answerOne(message: unknown, from: Sender, key: string | null): Promise<Answer | undefined> {
  const call = readCall(message);
  if (!('method' in call)) return call;
  if (call.id === undefined && isStream(call.method)) return undefined;
  const answer = await run(call, from, key);
  return call.id === undefined ? undefined : answer;
}

function isStream(method: string): boolean {
  return operationsByName.get(method)?.kind === 'stream';
}

async function run(
  { id = null, method, params }: Call,
  { context, isLarge }: Sender,
  key: string | null,
): Promise<Answer> {
  const operation = operationsByName.get(method);
  if (operation === undefined) {
    return failed(id, METHOD_NOT_FOUND, new Problem('route_not_found', `There is no method ${method}.`));
  }
  if (Array.isArray(params))
    return failed(id, INVALID_PARAMS, invalid('has params as a list; give them by name, as an object'));
  const limit = operation.bodyLimit ?? BODY_BYTES;
  if (isLarge && byteLength(JSON.stringify(params)) > limit + RPC_ENVELOPE_BYTES) {
    const problem = new Problem('body_too_large', `${method} takes at most ${limit} bytes of params.`);
    return failed(id, REFUSED, problem);
  }
  try {
    const { output } = await invoke(operation, context, params, { transport: 'rpc', key });
    return { jsonrpc: '2.0', id, result: output ?? null };
  } catch (error) {
    const problem = await failure(error, context);
    return failed(id, codeOf(problem), problem);
  }
}

/** Parses a call. Returns an error answer for an invalid message. */
function readCall(message: unknown): Call | Answer {
  const refuse = (reason: string, id: Id = null) => failed(id, INVALID_REQUEST, invalid(reason));
  if (typeof message !== 'object' || message === null || Array.isArray(message))
    return refuse('must be an object');
  const { jsonrpc, method, params = {}, id } = message as Record<string, unknown>;
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number') {
    return refuse('has an id that is neither a string nor a number');
  }
  if (jsonrpc !== '2.0') return refuse('needs `"jsonrpc": "2.0"`', id);
  if (typeof method !== 'string') return refuse('needs a method', id);
  if (typeof params !== 'object' || params === null) return refuse('has params that are not an object', id);
  return { id, method, params };
}

function invalid(message: string): Problem {
  return invalidInput([{ path: '', message }]);
}

function send(answer: Answer | Answer[] | undefined): Response {
  if (answer === undefined || (Array.isArray(answer) && answer.length === 0)) {
    return new Response(null, { status: 204 });
  }
  return Response.json(answer, { headers: { 'cache-control': 'no-store' } });
}
