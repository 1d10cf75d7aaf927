// One call of the handlers to the host: its parts, and how bodies are read and answered.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { HOST_CALL_BYTES } from '../../handlers/contract/sizes.ts';
import { readAtMost } from '../machine/read-at-most.ts';
import { Refusal } from './refusal.ts';

export interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  /** What the route's pattern caught, in order. */
  words: string[];
  query: URLSearchParams;
}

/** A route and what answers it. What is thrown becomes the answer: a `Refusal` as it says, all else a 500. */
export type Route = [method: string, path: RegExp, answer: (call: Call) => unknown];

/** @throws {Refusal} 413 over `limitBytes` */
export async function readBody(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const body = await readAtMost(request, limitBytes);
  if (body === null) throw new Refusal(413, 'body_too_large', `a body may have ${limitBytes} bytes`);
  return body;
}

/** @throws {Refusal} 413 over `limitBytes` */
export async function readJson(request: IncomingMessage, limitBytes = HOST_CALL_BYTES): Promise<unknown> {
  return JSON.parse((await readBody(request, limitBytes)).toString('utf8'));
}

export function sendJson(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}
