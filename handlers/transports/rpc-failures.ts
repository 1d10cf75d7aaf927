// Errors of JSON-RPC 2.0.
import type { ProblemBody } from '../contract/errors.ts';
import { type Problem, problemResponse } from '../problem.ts';

export const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;
export const METHOD_NOT_FOUND = -32601;
export const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;
/** The operation was refused; `data.code` says why. JSON-RPC reserves this range of codes for implementations. */
export const REFUSED = -32000;

const messages: Record<number, string> = {
  [PARSE_ERROR]: 'Parse error',
  [INVALID_REQUEST]: 'Invalid Request',
  [METHOD_NOT_FOUND]: 'Method not found',
  [INVALID_PARAMS]: 'Invalid params',
  [INTERNAL_ERROR]: 'Internal error',
};

export type Id = string | number | null;

/** The answer to a call that failed. */
export interface Failed {
  jsonrpc: '2.0';
  id: Id;
  error: { code: number; message: string; data: ProblemBody };
}

/** Returns the answer to a failed call. @param id the id of the call; null when it is unknown */
export function failed(id: Id, code: number, problem: Problem): Failed {
  const error = { code, message: messages[code] ?? problem.message, data: problem.body() };
  return { jsonrpc: '2.0', id, error };
}

/** Returns JSON-RPC's error code for an operation's problem. */
export function codeOf(problem: Problem): number {
  if (problem.code === 'invalid_input') return INVALID_PARAMS;
  return problem.code === 'internal_error' ? INTERNAL_ERROR : REFUSED;
}

/** Returns whether a request is answered in JSON-RPC. */
export function isRpc(method: string, path: string): boolean {
  return method === 'POST' && path === '/rpc';
}

/** Returns the response for a problem that occurred before any call was read. It has the problem's status and headers. */
export function rpcProblemResponse(problem: Problem, headers: Record<string, string> = {}): Response {
  const { status, headers: own } = problemResponse(problem, headers);
  own.set('content-type', 'application/json');
  return Response.json(failed(null, codeOf(problem), problem), { status, headers: own });
}
