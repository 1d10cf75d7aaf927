// A typed client over the contract, for programs that use Cellar: REST where it answers JSON, else RPC.
import type { ProblemBody } from '../handlers/contract/errors.ts';
import {
  type OperationName,
  operationsByName,
  type Params,
  type Result,
} from '../handlers/contract/index.ts';
import { type Operation, pathNames } from '../handlers/contract/operation.ts';

/** A refusal, with the problem as it was sent. */
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

/** One event of a stream. */
export interface StreamedEvent<Data> {
  id: string | null;
  data: Data;
}

const DEADLINE_MS = 60_000;

/** Calls a Cellar's API. */
export class CellarClient {
  readonly #url: string;
  readonly #token: string;

  /** @param options.url the API's address, such as `http://127.0.0.1:8080` */
  constructor(options: { url: string; token: string }) {
    this.#url = options.url;
    this.#token = options.token;
  }

  /**
   * Runs an operation that is no stream.
   * @throws {Refused} {TypeError} when the API cannot be reached
   */
  async call<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    options: CallOptions = {},
  ): Promise<Result<Name>> {
    const operation = operationsByName.get(name)!;
    const signal = options.signal ?? AbortSignal.timeout(DEADLINE_MS);
    const response = await this.#send(operation, params, { ...options, signal });
    if (response.status === 204) return null as Result<Name>;
    const body = (await response.json()) as unknown;
    if (!response.ok) throw new Refused(body as ProblemBody);
    if (restPath(operation) !== null) return operation.output.parse(body) as Result<Name>;
    const { error, result } = body as { error?: { data: ProblemBody }; result?: unknown };
    if (error) throw new Refused(error.data);
    return operation.output.parse(result) as Result<Name>;
  }

  /**
   * Follows a stream until `signal` aborts or the connection ends. Pass the last id as `last_event_id` to go on.
   * @throws {Refused} {TypeError} when the API cannot be reached or the connection breaks
   */
  async *stream<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    options: { signal?: AbortSignal } = {},
  ): AsyncGenerator<StreamedEvent<Result<Name>>> {
    const operation = operationsByName.get(name)!;
    const response = await this.#send(operation, params, options);
    if (!response.ok) throw new Refused((await response.json()) as ProblemBody);
    let text = '';
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + part).split('\n\n');
      text = blocks.pop()!;
      for (const block of blocks) {
        const { id, event, data } = fieldsOf(block);
        if (data === undefined || event === 'reset') continue;
        yield { id: id ?? null, data: operation.output.parse(JSON.parse(data)) as Result<Name> };
      }
    }
  }

  #send(operation: Operation, params: object, { signal, idempotencyKey }: CallOptions): Promise<Response> {
    const { method, path, body } = requestOf(operation, params as Record<string, unknown>);
    return fetch(this.#url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        ...(body !== null && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      body,
      ...(signal && { signal }),
    });
  }
}

function requestOf(
  operation: Operation,
  params: Record<string, unknown>,
): { method: string; path: string; body: string | null } {
  const template = restPath(operation);
  if (template === null) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: operation.name, params });
    return { method: 'POST', path: '/rpc', body };
  }
  const inPath = pathNames(template);
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

/** Bytes are described as the contract says only over RPC: REST sends them as they are. */
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
