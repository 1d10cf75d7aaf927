// Calls the API as the signed-in account, over RPC at the page's own origin.
import { signal } from '@preact/signals';
import type { ErrorCode, ProblemBody } from '../handlers/contract/errors.ts';
import { clientTimeoutMs } from '../handlers/contract/host/deadlines.ts';
import type { OperationName, Params, Result } from '../handlers/contract/index.ts';
import { flushRemovals } from './removals.ts';

export type { OperationName, Params, Result };

/**
 * An error with a message for people. `code` is the API's code, `offline` without a response, `signed_out` for status 401,
 * or null. `status` is 0 without a response.
 */
export class Failure extends Error {
  readonly code: ErrorCode | 'offline' | 'signed_out' | null;
  readonly status: number;
  /** The invalid parameters of the call, each with the reason. */
  readonly fields: { path: string; message: string }[];
  constructor(message: string, code: Failure['code'], status: number, fields: Failure['fields'] = []) {
    super(message);
    this.code = code;
    this.status = status;
    this.fields = fields;
  }
}

/** Time (ms since 1970) of the first call without a response since the server last responded; null while it responds. */
export const lostSince = signal<number | null>(null);
/** Counts responses with the code `unauthorized`: nobody is signed in. */
export const signedOut = signal(0);

/** Operations that change nothing. All others wait for pending removals. */
const READS =
  /\.(list|list_deleted|get|get_by_slug|me|settings|stats|figures|overview|templates|invites|stream|check|channels|version|blob|diff|tree|export|raw|read|props)$|^(deploys|previews)\.log$|^git\.remote$/;
/**
 * Removals that a person can undo. They do not wait for pending removals: such a removal would wait for itself. The other
 * removals take place after a question: of an app, a dispatch namespace, a connection and a workflow instance.
 */
const REMOVALS =
  /(?<!^apps|^dispatch|^workflows\.instances)\.(delete|remove|revoke|revoke_invite)$|\/delete-passkey$/;

interface CallOptions {
  signal?: AbortSignal;
  /** Calls with the same key make a change once. */
  idempotencyKey?: string;
}

/** Runs an operation that is not a stream. @returns its output @throws {Failure} also when the server cannot be reached */
export async function api<Name extends OperationName>(
  name: Name,
  params: Params<Name>,
  { signal, idempotencyKey }: CallOptions = {},
): Promise<Result<Name>> {
  if (!READS.test(name) && !REMOVALS.test(name)) await flushRemovals();
  const deadline = AbortSignal.timeout(clientTimeoutMs(name));
  const response = await send('/rpc', {
    method: 'POST',
    // A removal reaches the server even if the page is left at this moment.
    keepalive: REMOVALS.test(name),
    headers: {
      'content-type': 'application/json',
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    },
    body: message(name, params),
    signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
  });
  const { error, result } = await answerOf<{ error?: { data: ProblemBody }; result: Result<Name> }>(response);
  if (error) throw refusal(error.data);
  return result;
}

/**
 * Calls a route of the server outside the API: `/session`, `/welcome`, `/api/auth/…`.
 * @param body sent as JSON by POST; without it, the request is a GET
 * @throws {Failure} also when the server cannot be reached
 */
export async function serverRoute<Answer>(
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Answer> {
  const keepalive = REMOVALS.test(path);
  if (body !== undefined && !keepalive) await flushRemovals();
  const request: RequestInit =
    body === undefined
      ? { headers: { accept: 'application/json' } }
      : {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
          keepalive,
        };
  return answerOf<Answer>(await send(path, { ...request, ...(signal && { signal }) }));
}

function message(method: string, params: object): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, credentials: 'same-origin' });
  } catch (error) {
    if (init.signal?.aborted && (init.signal.reason as Error).name !== 'TimeoutError') throw error;
    throw unreachable();
  }
  if (response.status < 502) lostSince.value = null;
  return response;
}

/** Records that the server did not respond. */
function unreachable(): Failure {
  lostSince.value ??= Date.now();
  return new Failure('Cellar cannot be reached. This page retries automatically.', 'offline', 0);
}

async function answerOf<Answer>(response: Response): Promise<Answer> {
  return read(response.status, await response.text());
}

/** Parses a response body. @throws {Failure} for text that is not JSON, and for a status other than 2xx */
function read<Answer>(status: number, text: string): Answer {
  let body: unknown = null;
  try {
    body = text === '' ? null : JSON.parse(text);
  } catch {
    throw new Failure(
      `The server answered ${status}, but not in the format of Cellar. A proxy in front of Cellar may have answered.`,
      null,
      status,
    );
  }
  if (status >= 200 && status < 300) return body as Answer;
  const { error, ...problem } = (body ?? {}) as Partial<ProblemBody> & { error?: { data: ProblemBody } };
  throw refusal({ status, ...(error?.data ?? problem) });
}

/** An upload without progress for this time, in ms, is aborted. */
const STALLED_MS = 60_000;

/**
 * Uploads raw bytes to a route of the API by PUT. Uses XMLHttpRequest, because `fetch` does not report progress.
 * @param options.onSent called with the number of bytes sent so far
 * @throws {Failure} also when the server cannot be reached
 */
export function putBytes<Answer>(
  path: string,
  bytes: Blob,
  { type, signal, onSent }: { type: string; signal: AbortSignal; onSent: (sent: number) => void },
): Promise<Answer> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = new XMLHttpRequest();
  const abort = () => request.abort();
  let stalled: ReturnType<typeof setTimeout> | undefined;
  const moves = () => {
    clearTimeout(stalled);
    stalled = setTimeout(abort, STALLED_MS);
  };
  request.open('PUT', path);
  request.setRequestHeader('content-type', type);
  request.upload.onprogress = ({ loaded }) => {
    moves();
    onSent(loaded);
  };
  request.onerror = () => reject(unreachable());
  request.onabort = () => reject(signal.aborted ? (signal.reason as Error) : unreachable());
  request.onload = () => {
    if (request.status < 502) lostSince.value = null;
    try {
      resolve(read(request.status, request.responseText));
    } catch (error) {
      reject(error as Failure);
    }
  };
  request.onloadend = () => {
    clearTimeout(stalled);
    signal.removeEventListener('abort', abort);
  };
  signal.addEventListener('abort', abort, { once: true });
  moves();
  request.send(bytes);
  return promise;
}

function refusal(problem: Partial<ProblemBody> & { status: number; message?: string }): Failure {
  const { status, code, detail, message, errors = [] } = problem;
  if (status === 401) {
    if (code === 'unauthorized') signedOut.value++;
    return new Failure(detail ?? message ?? 'You are signed out.', 'signed_out', 401, errors);
  }
  const fields = errors.map(({ path, message }) => (path === '' ? message : `${path} ${message}`));
  const said = fields.length > 0 ? `${fields.join('. ')}.` : (detail ?? message);
  return new Failure(said ?? `The server answered ${status}.`, code ?? null, status, errors);
}

/**
 * An event of a stream, or a gap (`reset`). `skipped` is the number of events dropped because this page reads too slowly.
 * If it is null, the number of missing events is unknown: read the list again.
 */
export type Streamed<Data> =
  | { reset: false; id: string | null; data: Data }
  | { reset: true; skipped: number | null };

/**
 * Follows a stream of the API once, until it ends or `signal` aborts. Yields an empty list first, when the stream is open.
 * @throws {Failure} also when the server cannot be reached
 */
export async function* stream<Name extends OperationName>(
  name: Name,
  params: Params<Name>,
  signal: AbortSignal,
): AsyncGenerator<Streamed<Result<Name>>[], void> {
  const headers = { 'content-type': 'application/json', accept: 'text/event-stream' };
  const response = await send('/rpc', { method: 'POST', headers, body: message(name, params), signal });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    const { error } = await answerOf<{ error: { data: ProblemBody } }>(response);
    throw refusal(error.data);
  }
  yield [];
  let text = '';
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split('\n\n');
    text = blocks.pop()!;
    const events = blocks.map(eventOf<Result<Name>>).filter((event) => event !== null);
    // An empty list would mean that the stream is open.
    if (events.length > 0) yield events;
  }
}

/** Parses one event. @returns null for a comment, which keeps the connection alive */
function eventOf<Data>(block: string): Streamed<Data> | null {
  const fields: Partial<Record<string, string>> = {};
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
  }
  if (fields.data === undefined) return null;
  if (fields.event === 'reset') return { reset: true, skipped: null };
  if (fields.event === 'skipped')
    return { reset: true, skipped: (JSON.parse(fields.data) as { count: number }).count };
  // Each event is a JSON-RPC notification.
  const { params } = JSON.parse(fields.data) as { params: Data };
  return { reset: false, id: fields.id ?? null, data: params };
}
