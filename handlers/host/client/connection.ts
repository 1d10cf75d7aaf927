// Calls over the HOST binding. Each carries the secret and has a timeout. A refusal of the host becomes a `Problem`.
import type { Bindings } from '../../bindings.ts';
import type { ErrorCode } from '../../contract/errors.ts';
import { CALL_DEADLINE_MS, READ_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { HostCall, HostCalls } from '../../contract/host/host-routes.ts';
import { afterChange, Problem } from '../../problem.ts';

/** The host's code for a write that is refused because its disk is short of space. */
export const NO_ROOM: ErrorCode = 'insufficient_storage';

/** The host refused a state because it has a newer one. */
export class StaleGeneration extends Error {}

/** Query parameters of a call; undefined values are left out. */
export type Query = Record<string, string | number | boolean | undefined>;

/** Options of a call. Times in ms. */
export interface Options<Name extends HostCall> {
  body?: HostCalls[Name]['body'];
  /** Raw bytes instead of `body`. */
  bytes?: Blob | ReadableStream<Uint8Array>;
  /** Type of the body. Default JSON. */
  contentType?: string;
  query?: Query;
  deadlineMs?: number;
  /** Replaces the timeout for the whole answer. */
  signal?: AbortSignal;
  missing?: boolean;
  /** Codes of the host that are passed on to the caller with the host's message. */
  refusals?: readonly ErrorCode[];
}

const READ_REFUSALS = [
  'host_unavailable',
  'storage_not_found',
  'invalid_input',
  'query_failed',
  'query_timeout',
  'answer_too_large',
  'storage_unreadable',
  'workflow_not_found',
  'workflow_instance_not_found',
] as const;

/** The host behind its binding. Calls throw a `Problem` `host_unavailable` when it cannot be reached in time. */
export class HostConnection {
  readonly #env: Bindings;

  constructor(env: Bindings) {
    this.#env = env;
  }

  /** Makes a call whose answer is JSON. @throws {Problem} `host_unavailable`, or one of `refusals` */
  async json<Name extends HostCall>(
    name: Name,
    words: string[],
    options?: Options<Name>,
  ): Promise<HostCalls[Name]['answer']> {
    return (await this.call(name, words, options)).json();
  }

  /**
   * Makes a call.
   * @param words the path parameters, in order
   * @throws {Problem} `host_unavailable`, or one of `refusals`; {StaleGeneration}
   */
  async call<Name extends HostCall>(
    name: Name,
    words: string[],
    options: Options<Name> = {},
  ): Promise<Response> {
    const given = Object.entries(options.query ?? {}).filter(([, value]) => value !== undefined);
    const search =
      given.length === 0 ? '' : `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
    const body = options.body === undefined ? (options.bytes ?? null) : JSON.stringify(options.body);
    const signal = options.signal ?? AbortSignal.timeout(options.deadlineMs ?? CALL_DEADLINE_MS);
    const headers = { 'content-type': options.contentType ?? 'application/json' };
    const response = await this.send(name, words, search, body, signal, headers);
    if (response.ok || (options.missing && response.status === 404)) return response;
    const text = (await response.text()).slice(0, 1000);
    const refusal = [NO_ROOM, ...(options.refusals ?? [])].find((code) => code === codeOf(text));
    if (refusal) throw new Problem(refusal, detailOf(text));
    if (response.status === 409 && codeOf(text) === 'stale_generation') throw new StaleGeneration(text);
    console.error(`the host answered ${name} (${words}) with ${response.status}: ${text}`);
    throw new Problem(
      'host_unavailable',
      `The host could not carry this out (it answered ${response.status}).`,
    );
  }

  /** Makes a call and returns the response with any status. @throws {Problem} `host_unavailable` without a response */
  async send(
    name: HostCall,
    words: string[],
    search: string,
    body: BodyInit | null,
    signal: AbortSignal,
    headers: Record<string, string>,
  ): Promise<Response> {
    const [method, pattern] = name.split(' ') as [string, string];
    const left = [...words];
    const path = pattern.replace(/:\w+/g, () => left.shift()!);
    try {
      return await this.#env.HOST.fetch(`http://host${path}${search}`, {
        method,
        body,
        headers: { ...headers, authorization: `Bearer ${this.#env.HOST_SECRET}` },
        signal,
        redirect: 'manual',
      });
    } catch (error) {
      console.error(`the host did not answer ${method} ${path}: ${(error as Error).message}`);
      throw new Problem('host_unavailable');
    }
  }

  /** Reads an app's storage. @throws {Problem} with the host's message */
  async look<Answer>(
    name: Extract<HostCall, `${string}/storage${string}` | `${string}/workflows${string}`>,
    appId: string,
    body?: object,
  ): Promise<Answer> {
    const options = { refusals: READ_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    const bytes = body && new Blob([JSON.stringify(body)]);
    return (await this.call(name, [appId], { ...options, ...(bytes && { bytes }) })).json();
  }
}

/** Marks the error of a call that the host may have carried out: it did not respond, or responded with a 5xx. */
export function maybeDone(error: unknown): never {
  throw error instanceof Problem && error.status >= 500 ? afterChange(error) : error;
}

function codeOf(text: string): unknown {
  return problemOf(text).code;
}

/** Returns the host's message as a sentence. */
export function detailOf(text: string): string {
  return sentence(String(problemOf(text).detail));
}

export function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

function problemOf(text: string): { code?: unknown; detail?: unknown } {
  try {
    return JSON.parse(text) as { code?: unknown; detail?: unknown };
  } catch {
    return {};
  }
}
