// A typed client of Cellar's API, for programs. Uses JSON-RPC for operations that return bytes and for parameters that a
// URL's path cannot carry, and REST for all others.

import type * as z from 'zod';
import { errorCodes, type ProblemBody } from '../handlers/contract/errors.ts';
import { clientTimeoutMs } from '../handlers/contract/host/deadlines.ts';
import {
  type OperationName,
  operationsByName,
  type Params,
  type Result,
} from '../handlers/contract/index.ts';
import { type Operation, pathNames } from '../handlers/contract/operation.ts';
import { cutText } from '../handlers/contract/text.ts';

/** Thrown for an error response of Cellar. `problem` is its body. */
export class Refused extends Error {
  readonly problem: ProblemBody;
  constructor(problem: ProblemBody) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** Options of one call. `idempotencyKey` makes a changing operation run once, however often it is sent. */
export interface CallOptions {
  signal?: AbortSignal;
  idempotencyKey?: string;
}

/** Thrown for a response that does not fit Cellar's API, such as the error page of a proxy. */
export class UnexpectedAnswer extends Error {
  readonly status: number;
  /** @param text the response body, or the part of it that does not fit */
  constructor(status: number, text: string, options?: ErrorOptions) {
    super(
      `answered ${status}, but not in the format of Cellar's API: ${cutText(text.trim(), 200, '…')}`,
      options,
    );
    this.status = status;
  }
}

/** An item of a stream: an event, or a reset because events were dropped. After a reset, read the list again. */
export type StreamedEvent<Data> =
  | { reset: false; id: string | null; data: Data }
  | { reset: true; reason: string };

/** Node's `fetch` fails if the response headers take longer than this, in ms. A signal cannot extend it. */
const NODE_PATIENCE_MS = 300_000;
/** The path of JSON-RPC. */
const RPC = '/rpc';

interface ApiRequest {
  method: string;
  path: string;
  body: string | null;
}

/** Calls a Cellar's API. */
export class CellarClient {
  readonly #url: string;
  readonly #token: string;
  readonly #agent: string | undefined;

  /**
   * @param options.url the API's address, such as `http://127.0.0.1:8080`
   * @param options.agent the program's `User-Agent`
   */
  constructor(options: { url: string; token: string; agent?: string }) {
    this.#url = options.url;
    this.#token = options.token;
    this.#agent = options.agent;
  }

  /**
   * Runs an operation that is not a stream. Without a signal, the call times out after `clientTimeoutMs`. Pass a signal if
   * `RUNNER_WAKE_TIMEOUT_S` of the Cellar is longer than the default.
   * @throws {Refused} an error of Cellar
   * @throws {UnexpectedAnswer}
   * @throws {TypeError} when the API cannot be reached
   * @throws the signal's reason when the call is aborted: `TimeoutError` for a timeout
   */
  async call<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    options: CallOptions = {},
  ): Promise<Result<Name>> {
    const operation = operationsByName.get(name)!;
    const deadlineMs = clientTimeoutMs(name);
    const signal = options.signal ?? AbortSignal.timeout(deadlineMs);
    const send = deadlineMs > NODE_PATIENCE_MS ? await patientFetch() : fetch;
    const request = requestOf(operation, params as Record<string, unknown>);
    const response = await this.#send(request, { ...options, signal }, send);
    if (response.status === 204) return null as Result<Name>;
    if (!response.ok) throw await refusalOf(response);
    const text = await response.text();
    return read(response, text, () => {
      const body: unknown = JSON.parse(text);
      return outputOf<Name>(operation, request.path === RPC ? resultOf(body) : body);
    });
  }

  /**
   * Follows a stream until the server ends it. To resume, pass the id of the last event as `last_event_id`.
   * @throws {Refused} an error of Cellar
   * @throws {UnexpectedAnswer}
   * @throws {TypeError} when the API cannot be reached, or the connection breaks
   * @throws the reason of `signal` when it aborts
   */
  async *stream<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<StreamedEvent<Result<Name>>> {
    const operation = operationsByName.get(name)!;
    const request = requestOf(operation, params as Record<string, unknown>);
    const response = await this.#send(request, options, fetch);
    if (!response.ok) throw await refusalOf(response);
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      const answer = await response.text();
      if (request.path === RPC) read(response, answer, () => resultOf(JSON.parse(answer)));
      throw new UnexpectedAnswer(response.status, answer);
    }
    let text = '';
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + part).split('\n\n');
      text = blocks.pop()!;
      for (const block of blocks) {
        const { id, event, data } = fieldsOf(block);
        if (data === undefined) continue;
        yield read(response, data, () => {
          const sent: unknown = JSON.parse(data);
          if (event === 'reset') return { reset: true, reason: (sent as { reason: string }).reason };
          if (event === 'skipped') {
            const { count } = sent as { count: number };
            return { reset: true, reason: `${count} events came faster than they were read` };
          }
          return { reset: false, id: id ?? null, data: outputOf<Name>(operation, sent) };
        });
      }
    }
  }

  #send(
    { method, path, body }: ApiRequest,
    { signal, idempotencyKey }: CallOptions,
    send: typeof fetch,
  ): Promise<Response> {
    return send(this.#url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(this.#agent !== undefined && { 'user-agent': this.#agent }),
        ...(body !== null && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      body,
      ...(signal && { signal }),
    });
  }
}

/** Made once, so that requests share connections. */
let patient: Promise<typeof fetch> | null = null;

/**
 * Returns a `fetch` without timeouts, for requests that may take longer than `NODE_PATIENCE_MS`. It uses a proxy where Node's
 * own does. Its forms are those of undici.
 */
export function patientFetch(): Promise<typeof fetch> {
  patient ??= makePatientFetch();
  return patient;
}

async function makePatientFetch(): Promise<typeof fetch> {
  const undici = await import('undici');
  const Dispatcher = process.env.NODE_USE_ENV_PROXY === '1' ? undici.EnvHttpProxyAgent : undici.Agent;
  const dispatcher = new Dispatcher({ headersTimeout: 0, bodyTimeout: 0 });
  return ((url: string, init: object) =>
    undici.fetch(url, { ...init, dispatcher })) as unknown as typeof fetch;
}

/**
 * Returns the result of `take`, which parses `text`: the response body, or the data of one event.
 * @throws {Refused} from `take`
 * @throws {UnexpectedAnswer} when `take` throws another error: the text does not fit the contract
 */
function read<Value>({ status }: Response, text: string, take: () => Value): Value {
  try {
    return take();
  } catch (error) {
    throw error instanceof Refused ? error : new UnexpectedAnswer(status, text, { cause: error });
  }
}

export async function refusalOf(response: Response): Promise<Refused | UnexpectedAnswer> {
  const text = await response.text();
  try {
    const problem = JSON.parse(text) as ProblemBody;
    if (problem.code in errorCodes) return new Refused(problem);
  } catch {
    // The body is not an error document of Cellar.
  }
  return new UnexpectedAnswer(response.status, text);
}

/** Returns the result in an RPC answer. @throws {Refused} when the answer is an error */
function resultOf(body: unknown): unknown {
  const { error, result } = body as { error?: { data: ProblemBody }; result?: unknown };
  if (error !== undefined && error.data.code in errorCodes) throw new Refused(error.data);
  return result;
}

/** Returns a validated output. Fields that a newer Cellar added are no fault. @throws {z.ZodError} */
function outputOf<Name extends OperationName>({ output }: Operation, body: unknown): Result<Name> {
  const { data, error } = output.safeParse(body);
  if (error !== undefined && !error.issues.every(isAddition)) throw error;
  return (error === undefined ? data : body) as Result<Name>;
}

/** Whether an issue is only about unknown fields. */
function isAddition(issue: z.core.$ZodIssue): boolean {
  if (issue.code === 'invalid_union') return issue.errors.some((issues) => issues.every(isAddition));
  return issue.code === 'unrecognized_keys';
}

function requestOf(operation: Operation, params: Record<string, unknown>): ApiRequest {
  const template = restPath(operation);
  const inPath = template === null ? [] : pathNames(template);
  if (template === null || !inPath.every((name) => isSegment(params[name]))) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: operation.name, params });
    return { method: 'POST', path: RPC, body };
  }
  const rest = Object.entries(params).filter(
    ([name, value]) => !inPath.includes(name) && value !== undefined,
  );
  const path = template.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(params[name])));
  if (operation.method === 'POST' || operation.method === 'PATCH') {
    return { method: operation.method, path, body: JSON.stringify(Object.fromEntries(rest)) };
  }
  const query = new URLSearchParams(rest.map(([name, value]) => [restName(operation, name), String(value)]));
  return { method: operation.method, path: rest.length > 0 ? `${path}?${query}` : path, body: null };
}

/**
 * Whether a value can be a segment of a URL's path. `fetch` removes `.` and `..`, also in percent-encoding, so the path would
 * lead to another operation.
 */
function isSegment(value: unknown): boolean {
  const text = String(value ?? '');
  return text.isWellFormed() && !['', '.', '..'].includes(text);
}

/** Returns the REST path; null for operations that return bytes. REST sends them raw; `output` describes RPC's base64. */
function restPath({ path, kind }: Operation): string | null {
  return kind === 'bytes' ? null : path;
}

function restName({ queryNames = {} }: Operation, field: string): string {
  return Object.entries(queryNames).find(([, input]) => input === field)?.[0] ?? field;
}

function fieldsOf(block: string): Partial<Record<string, string>> {
  const lines = block.split('\n').filter((line) => !line.startsWith(':'));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart()]),
  );
}
