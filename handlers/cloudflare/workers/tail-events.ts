// Builds the events of `wrangler tail`: an app's requests, each with its log lines, and log lines without a request.
import * as z from 'zod';
import type { TailedLine, TailedRequest } from '../../contract/host/host-calls.ts';
import { uuidOf } from '../../contract/id.ts';

/** How long an ended request is buffered for its late log lines, in ms. */
const LATE_LINES_MS = 500;
/** How long log lines are buffered until their request ends, in ms. Then they are sent without it. */
const LINE_WAIT_MS = 3_000;
/** Maximum buffered events. Above this limit, the oldest is sent early. */
const BUFFER_LIMIT = 1_000;
/** Refusal reason of the gateway for a request whose process exceeded its CPU limit. */
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
  /** The latest time at which the event is sent, in ms since 1970. */
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
  /** The app's URL, whose scheme and port are used in events. */
  url: string;
  /** Sends an event in Cloudflare's format. */
  send: (event: object) => void;
}

export class TailEvents {
  readonly #options: TailEventsOptions;
  /** Buffered events by trace id, the oldest first. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(options: TailEventsOptions) {
    this.#options = options;
  }

  line(line: TailedLine, now: number): void {
    if (line.source !== 'app' && line.source !== 'workerd') return;
    if (line.trace_id === null) this.#show({ lines: [line], request: null });
    else this.#of(line.trace_id, now + LINE_WAIT_MS).lines.push(line);
  }

  request(request: TailedRequest, now: number): void {
    const waiting = this.#of(request.trace_id, now + LATE_LINES_MS);
    waiting.request = request;
    waiting.until = now + LATE_LINES_MS;
  }

  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Sends the events whose time has come. Must be called several times a second. */
  tick(now: number): void {
    for (const [id, waiting] of this.#waiting) if (waiting.until <= now) this.#shown(id, waiting);
  }

  #of(id: string, until: number): Waiting {
    const known = this.#waiting.get(id);
    if (known) return known;
    const [oldest] = this.#waiting;
    if (oldest !== undefined && this.#waiting.size >= BUFFER_LIMIT) this.#shown(...oldest);
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

/** Returns the `event` of a log line without a request. With `type` and `message`, Wrangler prints only the line. */
function lineEvent({ trace_id: traceId }: TailedLine): object {
  return { type: 'log', message: '', traceId };
}

/** Returns the exception of a log line, in a list; empty without one. As in workerd, `stack` has no name and message. */
function exceptionOf({ tail, text, at }: TailedLine): object[] {
  if (tail?.exception === undefined) return [];
  const { name, message, hasStack } = tail.exception;
  const from = text.search(/^ {4,}at /m);
  const stack = hasStack && from !== -1 ? { stack: text.slice(from) } : {};
  return [{ ...stack, name, message, timestamp: Date.parse(at) }];
}

/** Returns the log entry of a line, in a list; empty for an exception. */
function logOf({ tail, level, text, at }: TailedLine): object[] {
  if (tail?.exception !== undefined) return [];
  const message = tail?.values === undefined ? [text] : (JSON.parse(tail.values) as unknown[]);
  return [{ level: level === 'info' ? 'log' : level, message, timestamp: Date.parse(at) }];
}

function outcomeOf({ lines, request }: Event): Outcome {
  if (request?.status === 499) return 'canceled';
  if (request?.refused === EXCEEDED_CPU) return 'exceededCpu';
  // The app's process ended, or was not running.
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
