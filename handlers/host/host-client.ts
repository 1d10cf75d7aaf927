// A typed client of the host, over the binding `HOST`. `handlers/contract/host/host-routes.ts` lists the calls.
import type { Bindings } from '../bindings.ts';
import { type ErrorCode, errorCodes } from '../contract/errors.ts';
import { CALL_DEADLINE_MS } from '../contract/host/deadlines.ts';
import type { WantedApp } from '../contract/host/host-calls.ts';
import type { Bytes, HostCall, HostCalls, PassedOn } from '../contract/host/host-routes.ts';
import { afterChange, Problem } from '../problem.ts';
import { type CallRule, callRules } from './call-rules.ts';

/** Added to the timeout of a wake for the deadline `start`, in ms. The app may have to drain, or wait until it may start. */
const START_SLACK_MS = 30_000;
/** Maximum characters of an error response that are parsed and logged. */
const ERROR_LENGTH = 1_000;

/** The code with which the host refuses calls that need disk space while too little is free. */
const NO_ROOM: ErrorCode = 'insufficient_storage';

/** The host refused a state or a deletion of an app, because it knows a newer generation of the app. */
export class StaleGeneration extends Error {}

/** The words of a path that begin with a colon, as in `/apps/:id`. */
type WordsOf<Path extends string> = Path extends `${string}:${infer Word}/${infer Rest}`
  ? Word | WordsOf<Rest>
  : Path extends `${string}:${infer Word}`
    ? Word
    : never;
type Words<Name extends HostCall> = Record<WordsOf<Name>, string>;
type BodyOf<Name extends HostCall> = HostCalls[Name]['body'] extends Bytes
  ? Blob | ReadableStream<Uint8Array>
  : HostCalls[Name]['body'];
type AnswerOf<Name extends HostCall> =
  HostCalls[Name]['answer'] extends PassedOn<infer Json> ? Json : HostCalls[Name]['answer'];
/** The calls that answer with bytes. */
export type BytesCall = {
  [Name in HostCall]: HostCalls[Name]['answer'] extends Bytes ? Name : never;
}[HostCall];

/** Parameters of a query. Parameters with the value undefined are left out. */
type Query = Record<string, string | number | boolean | undefined>;
interface Extras {
  query?: Query;
  /** Content type of the body. Default JSON. */
  contentType?: string;
  /** Replaces the deadline of the call's rule. */
  deadlineMs?: number;
}
/** The arguments of a call besides the words of its path. `body` is required if the call has a body. */
type Given<Name extends HostCall> = HostCalls[Name]['body'] extends null
  ? [Extras?]
  : [Extras & { body: BodyOf<Name> }];

interface Sent {
  /** The query with its question mark; empty without a query. */
  search: string;
  body: BodyInit | null;
  headers: Record<string, string>;
}

/** Makes calls to the host. The methods throw a `Problem` `host_unavailable` when the host does not answer in time. */
export class HostClient {
  readonly #env: Bindings;
  readonly #onChange: () => void;

  /** @param onChange is called before each call whose HTTP method is not GET */
  constructor(env: Bindings, onChange: () => void = () => {}) {
    this.#env = env;
    this.#onChange = onChange;
  }

  /** Returns a client of the same host with another `onChange`. */
  watched(onChange: () => void): HostClient {
    return new HostClient(this.#env, onChange);
  }

  /**
   * Makes a call that answers with JSON, or with no content: then returns null.
   * @param words the values of the path's parameters
   * @throws {Problem} one of the call's `refusals`, `insufficient_storage`, or `host_unavailable`; {StaleGeneration}
   */
  async call<Name extends Exclude<HostCall, BytesCall>>(
    name: Name,
    words: Words<Name>,
    ...given: Given<Name>
  ): Promise<AnswerOf<Name>> {
    const response = await this.#checked(name, words, given[0]);
    return (response.status === 204 ? null : await response.json()) as AnswerOf<Name>;
  }

  /** Makes a call that answers with bytes. @throws {Problem} the same errors as `call` */
  async bytes<Name extends BytesCall>(
    name: Name,
    words: Words<Name>,
    ...given: Given<Name>
  ): Promise<Response> {
    return this.#checked(name, words, given[0]);
  }

  /**
   * Makes a call and returns its answer with any status.
   * @throws {Problem} `host_unavailable` when the host does not answer
   */
  async pass<Name extends BytesCall>(name: Name, words: Words<Name>, sent: Sent): Promise<Response> {
    return this.#pass(name, words, sent, callRules[name] ?? {});
  }

  /** Returns why the host cannot write now, when its disk is full; null when it can write. */
  async diskFull(): Promise<string | null> {
    const { full } = await this.call('GET /disk', {});
    return full && sentence(full);
  }

  async #checked(
    name: HostCall,
    words: object,
    { query, body, contentType = 'application/json', deadlineMs }: Extras & { body?: unknown } = {},
  ): Promise<Response> {
    const rule: CallRule = { ...callRules[name], ...(deadlineMs !== undefined && { deadlineMs }) };
    const given = Object.entries({ home: homeIn(name, body), ...query }).filter(
      ([, value]) => value !== undefined,
    );
    const search =
      given.length === 0 ? '' : `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
    const isBytes = body instanceof Blob || body instanceof ReadableStream;
    const sent = {
      search,
      body: body === undefined || isBytes ? (body ?? null) : JSON.stringify(body),
      headers: { 'content-type': contentType },
    };
    try {
      const response = await this.#pass(name, words, sent, rule);
      if (response.ok) return response;
      throw problemOf(name, response.status, (await response.text()).slice(0, ERROR_LENGTH), rule);
    } catch (error) {
      // A host that did not answer, or answered with a 5xx, may still have made the change.
      throw rule.changes && error instanceof Problem && error.status >= 500 ? afterChange(error) : error;
    }
  }

  #pass(name: HostCall, words: object, sent: Sent, rule: CallRule): Promise<Response> {
    const [method, pattern] = name.split(' ') as [string, string];
    const path = pattern.replace(/:(\w+)/g, (_, word: string) => (words as Record<string, string>)[word]!);
    return this.#send(method, path + sent.search, sent, rule);
  }

  async #send(
    method: string,
    path: string,
    { body, headers }: Sent,
    { deadlineMs = CALL_DEADLINE_MS, endless }: CallRule,
  ): Promise<Response> {
    if (method !== 'GET') this.#onChange();
    const ms =
      deadlineMs === 'start' ? Number(this.#env.RUNNER_WAKE_TIMEOUT_S) * 1000 + START_SLACK_MS : deadlineMs;
    const head = endless ? new AbortController() : null;
    const timer = head && setTimeout(() => head.abort(new Error('no answer in time')), ms);
    try {
      return await this.#env.HOST.fetch(`http://host${path}`, {
        method,
        body,
        headers: { ...headers, authorization: `Bearer ${this.#env.HOST_SECRET}` },
        signal: head?.signal ?? AbortSignal.timeout(ms),
        redirect: 'manual',
      });
    } catch (error) {
      console.error(`the host did not answer ${method} ${path}: ${(error as Error).message}`);
      throw new Problem('host_unavailable');
    } finally {
      if (timer !== null) clearTimeout(timer);
    }
  }
}

/** Returns the host that a wanted state is for; undefined for other calls, and in a Cellar of one host. */
function homeIn(name: HostCall, body: unknown): string | undefined {
  return name === 'PUT /apps/:id' ? (body as WantedApp).home : undefined;
}

/** Converts an error response of the host to the error to throw. */
function problemOf(name: HostCall, status: number, text: string, { refusals = [] }: CallRule): Error {
  const { code, detail } = errorOf(text);
  const refusal = [NO_ROOM, ...refusals].find((each) => each === code);
  if (refusal) return new Problem(refusal, sentence(String(detail)));
  if (status === 409 && code === 'stale_generation') return new StaleGeneration(text);
  console.error(`the host answered ${name} with ${status}: ${text}`);
  return new Problem(
    'host_unavailable',
    `The host failed at this operation and answered with status ${status}; the log of Cellar has the reason.`,
  );
}

/**
 * Returns a response of the host's git, unless the host itself refused the request with 507 or 503.
 * @throws {Problem} `insufficient_storage` for 507, `host_unavailable` for 503
 */
export async function refuseRefused(response: Response): Promise<Response> {
  const code = ([NO_ROOM, 'host_unavailable'] as const).find(
    (each) => errorCodes[each].status === response.status,
  );
  const isText = response.headers.get('content-type')?.startsWith('text/') === true;
  if (code === undefined || isText) return response;
  throw new Problem(code, sentence(String(errorOf(await response.text()).detail)));
}

/** Returns the host's words as a sentence: with a capital letter and a full stop. */
export function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

function errorOf(text: string): { code?: unknown; detail?: unknown } {
  try {
    return JSON.parse(text) as { code?: unknown; detail?: unknown };
  } catch {
    return {};
  }
}
