// What a tail shows: the requests of an app, each with its lines of the log, and lines that are of no request.
import * as z from 'zod';
import type { TailedLine, TailedRequest } from '../../contract/host/host-calls.ts';
import { uuidOf } from '../../contract/id.ts';

/** How long after a request's end its lines may still come, in ms. */
const LATE_MS = 500;
/** Lines whose request goes on are shown by themselves after that time, in ms. */
const ALONE_MS = 3_000;
/** Requests and lines that wait: with more, the oldest are shown as they are. */
const WAITING = 1_000;
/** Why the gateway refuses a request whose process has exceeded its limit of CPU time. */
const EXCEEDED_CPU = 'exceeded_cpu';

export const Filter = z.union([
  z.strictObject({ query: z.string() }),
  z.strictObject({ outcome: z.array(z.string()) }),
  z.strictObject({ sampling_rate: z.number().min(0).max(1) }),
  z.strictObject({ method: z.array(z.string()) }),
  z.strictObject({ scriptVersion: z.string() }),
]);
export type Filter = z.output<typeof Filter>;

type Outcome = 'ok' | 'exception' | 'exceededCpu' | 'canceled' | 'unknown';

interface Waiting {
  lines: TailedLine[];
  request: TailedRequest | null;
  /** When it is shown, whatever comes until then, in ms since 1970. */
  until: number;
}

/** An event before it is filtered. */
interface Event {
  lines: TailedLine[];
  request: TailedRequest | null;
}

export interface TailEventsOptions {
  slug: string;
  filters: readonly Filter[];
  /** The app's address, of which the scheme and the port are taken. */
  url: string;
  /** Sends an event as Cloudflare has it. */
  send: (event: object) => void;
}

export class TailEvents {
  readonly #options: TailEventsOptions;
  /** What waits, by the id of its trace, in the order of time. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(options: TailEventsOptions) {
    this.#options = options;
  }

  line(line: TailedLine, now: number): void {
    if (line.source !== 'app' && line.source !== 'workerd') return;
    if (line.trace_id === null) this.#show({ lines: [line], request: null });
    else this.#of(line.trace_id, now + ALONE_MS).lines.push(line);
  }

  request(request: TailedRequest, now: number): void {
    const waiting = this.#of(request.trace_id, now + LATE_MS);
    waiting.request = request;
    waiting.until = now + LATE_MS;
  }

  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Shows what has waited long enough. To be called several times a second. */
  tick(now: number): void {
    for (const [id, waiting] of this.#waiting) if (waiting.until <= now) this.#shown(id, waiting);
  }

  #of(id: string, until: number): Waiting {
    const known = this.#waiting.get(id);
    if (known) return known;
    const [oldest] = this.#waiting;
    if (oldest !== undefined && this.#waiting.size >= WAITING) this.#shown(...oldest);
    const waiting = { lines: [], request: null, until };
    this.#waiting.set(id, waiting);
    return waiting;
  }

  #shown(id: string, waiting: Waiting): void {
    this.#waiting.delete(id);
    if (waiting.request !== null) this.#show(waiting);
    else for (const line of waiting.lines) this.#show({ lines: [line], request: null });
  }

  #show(event: Event): void {
    const { slug, filters, send } = this.#options;
    const outcome = outcomeOf(event);
    if (!filters.every((filter) => passes(filter, event, outcome))) return;
    const { lines, request } = event;
    const timestamp = request?.at ?? Date.parse(lines[0]!.at);
    const release = request?.release ?? lines[0]?.release ?? null;
    send({
      outcome,
      scriptName: slug,
      ...(release !== null && { scriptVersion: { id: uuidOf(release) } }),
      exceptions: lines.flatMap(exceptionOf),
      logs: lines.flatMap(logOf),
      eventTimestamp: timestamp,
      event: request === null ? lineEvent(lines[0]!) : this.#requestEvent(request),
      diagnosticsChannelEvents: [],
    });
  }

  #requestEvent({ method, host, path, status, user_agent: agent }: TailedRequest): object {
    const { protocol, port } = new URL(this.#options.url);
    const headers = agent === '' ? {} : { 'user-agent': agent };
    const url = `${protocol}//${host}${port && `:${port}`}${path}`;
    return { request: { method, url, headers, cf: {} }, response: { status } };
  }
}

/** Not of a request: with a type and a message Wrangler prints the line alone. */
function lineEvent({ trace_id: traceId }: TailedLine): object {
  return { type: 'log', message: '', traceId };
}

/** The exception that a line is about. Its stack is without the name and the message before it, as workerd has it. */
function exceptionOf({ tail, text, at }: TailedLine): object[] {
  if (tail?.exception === undefined) return [];
  const { name, message, hasStack } = tail.exception;
  const from = text.search(/^ {4,}at /m);
  const stack = hasStack && from !== -1 ? { stack: text.slice(from) } : {};
  return [{ ...stack, name, message, timestamp: Date.parse(at) }];
}

/** What a line of the log prints. */
function logOf({ tail, level, text, at }: TailedLine): object[] {
  if (tail?.exception !== undefined) return [];
  const message = tail?.values === undefined ? [text] : (JSON.parse(tail.values) as unknown[]);
  return [{ level: level === 'info' ? 'log' : level, message, timestamp: Date.parse(at) }];
}

function outcomeOf({ lines, request }: Event): Outcome {
  if (request?.status === 499) return 'canceled';
  if (request?.refused === EXCEEDED_CPU) return 'exceededCpu';
  // The process ended, or was not there.
  if (request !== null && request.refused !== null && request.status >= 500) return 'unknown';
  return lines.some(({ tail }) => tail?.exception?.isUncaught) ? 'exception' : 'ok';
}

function passes(filter: Filter, { lines, request }: Event, outcome: Outcome): boolean {
  if ('query' in filter) return lines.some(({ text }) => text.includes(filter.query));
  if ('outcome' in filter) return filter.outcome.includes(outcome);
  if ('method' in filter)
    return request !== null && filter.method.some((each) => each.toUpperCase() === request.method);
  if ('scriptVersion' in filter) {
    const release = request?.release ?? lines[0]?.release ?? null;
    return release !== null && uuidOf(release) === filter.scriptVersion;
  }
  return Math.random() < filter.sampling_rate;
}
