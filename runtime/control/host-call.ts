// One call of the handlers to the host: its parts, and helpers for bodies and responses.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Bytes, HostCall, HostCalls, PassedOn } from '../../handlers/contract/host/host-routes.ts';
import { HOST_CALL_BYTES } from '../../handlers/contract/sizes.ts';
import { StaleGeneration } from '../apps/known/open-apps.ts';
import { isDiskFull } from '../disk/disk.ts';
import { log, logRarely, reason } from '../log.ts';
import { Refusal } from '../refusal.ts';
import { readAtMost } from '../sockets/read-at-most.ts';

export const DISK_FULL =
  'the disk of this machine is full, so this could not be written: delete apps that are not needed, or have the operator make room; then try again';

export interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  /** The path's parameters, in order. */
  words: string[];
  query: URLSearchParams;
}

/** What a route returns: the answer, or undefined when the route writes the response by itself. */
type Given<Name extends HostCall> = HostCalls[Name]['answer'] extends Bytes | PassedOn<unknown>
  ? // biome-ignore lint/suspicious/noConfusingVoidType: it is what such a route returns
    void
  : HostCalls[Name]['answer'];

/** One function for each call of the contract. A thrown error becomes the response, as `refuse` says. */
export type HostRoutes = { [Name in HostCall]: (call: Call) => Given<Name> | Promise<Given<Name>> };

const WORDS: Record<string, string> = {
  sha: '[0-9a-f]{40}',
  session: '[a-z2-7]{52}',
  refs: 'info/refs',
  preview: '[a-z0-9-]{3,63}',
  service: 'git-upload-pack|git-receive-pack',
};
const ID = '[0-9a-z]{16}';

interface Route {
  method: string;
  pattern: RegExp;
  /** Whether the first parameter is an app's id. */
  namesApp: boolean;
  answer: (call: Call) => unknown;
}

/** Returns the routes with patterns for their paths. */
export function compile(routes: HostRoutes): Route[] {
  return Object.entries(routes).map(([name, answer]) => {
    const [method, path] = name.split(' ') as [string, string];
    const pattern = path.replace(/:(\w+)/g, (_, word: string) => `(${WORDS[word] ?? ID})`);
    return { method, pattern: new RegExp(`^${pattern}$`), namesApp: path.includes('/:id'), answer };
  });
}

/** Reads a body. @throws {Refusal} 413 over `limitBytes` */
export async function readBody(request: IncomingMessage, limitBytes: number): Promise<Buffer> {
  // Does not destroy the request: a destroyed one is no longer read, and blocks its connection.
  const body = await readAtMost(request.iterator({ destroyOnReturn: false }), limitBytes);
  if (body === null)
    throw new Refusal(413, 'body_too_large', `the body of the request may have at most ${limitBytes} bytes`);
  return body;
}

/** Parses a JSON body. @throws {Refusal} 413 over `limitBytes` */
export async function readJson<Name extends HostCall>(
  request: IncomingMessage,
  limitBytes = HOST_CALL_BYTES,
): Promise<HostCalls[Name]['body']> {
  return JSON.parse((await readBody(request, limitBytes)).toString('utf8'));
}

export function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/** Responds with an error: as the refusal that `refusalOf` returns, or with a 500. */
export function refuse(response: ServerResponse, error: unknown): void {
  const refusal = refusalOf(error) ?? new Refusal(500, 'internal_error', reason(error));
  // Logged rarely, because a client over its limit may retry many times.
  if (refusal.status === 503) logRarely('warn', 'a host call was refused', { reason: refusal.message });
  else if (refusal.status >= 500) log('error', 'a host call failed', { error: refusal.message });
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const { status, code, message } = refusal;
  response
    .writeHead(status, { 'content-type': 'application/problem+json' })
    .end(JSON.stringify({ type: 'about:blank', title: code, status, code, detail: message }));
}

/** Converts an error to the refusal that every call uses for it; null for other errors. */
export function refusalOf(error: unknown): Refusal | null {
  if (error instanceof Refusal) return error;
  if (error instanceof StaleGeneration) return new Refusal(409, 'stale_generation', error.message);
  return isDiskFull(error) ? new Refusal(507, 'insufficient_storage', DISK_FULL) : null;
}
