// Responses in the OpenAPI document: an operation's successes and errors.
import { type ErrorCode, errorCodes } from '../../contract/errors.ts';
import type { Operation } from '../../contract/operation.ts';
import { type Json, only, outputSchema } from '../schemas.ts';

/** Error codes of every operation. */
const COMMON: readonly ErrorCode[] = ['invalid_input', 'unauthorized', 'forbidden', 'internal_error'];
/** More error codes, of every operation with a body. */
export const WITH_BODY: readonly ErrorCode[] = ['malformed_json', 'body_too_large', 'unsupported_media_type'];
/** More error codes, of every operation that changes something. */
const WRITING: readonly ErrorCode[] = [
  'insufficient_storage',
  'idempotency_in_progress',
  'idempotency_mismatch',
];

/** Returns an operation's successful responses by status. */
export function successes({ status, output, kind, replaces }: Operation): Json {
  if (status === 204) return { 204: { description: 'Done' } };
  const schema = outputSchema(output);
  const content =
    kind === 'stream'
      ? {
          'text/event-stream': {
            schema: { type: 'string', description: 'Events whose data is JSON' },
            'x-event': schema,
          },
        }
      : kind === 'bytes'
        ? { '*/*': { schema: { type: 'string', format: 'binary' } } }
        : { 'application/json': { schema } };
  const made = { [status]: { description: status === 202 ? 'Begun' : 'Done', content } };
  if (kind === 'bytes') {
    const raw = { 206: { description: 'The requested range of bytes', content } };
    return { ...made, ...raw, 304: { description: 'Not modified: the caller has the same contents' } };
  }
  return replaces ? { ...made, 200: { description: 'Done: an existing entry was replaced', content } } : made;
}

/** Returns an operation's error responses by status. */
export function failures(operation: Operation): Json {
  const takesBody = operation.method === 'POST' || operation.method === 'PATCH';
  const writes = operation.method === 'GET' ? [] : WRITING;
  return problems([...COMMON, ...(takesBody ? WITH_BODY : []), ...operation.errors, ...writes]);
}

/** Returns error responses for these codes by status, and for `rate_limited`, with which the edge can answer any request. */
export function problems(codes: readonly ErrorCode[], isRpc = false): Json {
  const type = isRpc ? 'application/json' : 'application/problem+json';
  const schema = { $ref: `#/components/schemas/${isRpc ? 'RpcFailure' : 'Problem'}` };
  const all = new Set<ErrorCode>([...codes, 'rate_limited']);
  const byStatus = Map.groupBy(all, (code) => errorCodes[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, these]) => [
      status,
      {
        description: these.map((code) => `\`${code}\`: ${errorCodes[code].meaning}`).join('\n\n'),
        content: { [type]: { schema } },
      },
    ]),
  );
}

/** Schema of a JSON-RPC error. */
export const rpcFailure = {
  type: 'object',
  description: 'An error object of JSON-RPC 2.0',
  properties: {
    jsonrpc: only('2.0'),
    id: { type: ['string', 'integer', 'null'] },
    error: {
      type: 'object',
      properties: {
        code: { type: 'integer' },
        message: { type: 'string' },
        data: { $ref: '#/components/schemas/Problem' },
      },
      required: ['code', 'message', 'data'],
    },
  },
  required: ['jsonrpc', 'id', 'error'],
};

/** Returns the schema of an error. */
export function problemSchema(): Json {
  const text = { type: 'string' };
  const entry = { type: 'object', properties: { path: text, message: text }, required: ['path', 'message'] };
  return {
    type: 'object',
    description: 'RFC 9457',
    properties: {
      type: text,
      title: text,
      status: { type: 'integer' },
      detail: text,
      code: { enum: Object.keys(errorCodes) },
      errors: { type: 'array', items: entry },
    },
    required: ['type', 'title', 'status', 'detail', 'code'],
  };
}
