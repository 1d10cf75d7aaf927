// What a tail shows: the requests of an app, each with its lines of the log, and lines that are of no request.
import * as z from 'zod';
import type { TailedRequest } from '../contract/host-calls.ts';
import { uuidOf } from '../contract/id.ts';
import type { LogLine } from '../contract/logs.ts';

/** How long after a request's end its lines may still come, in ms. */
const LATE_MS = 500;
/** Lines whose request goes on are shown by themselves after that time, in ms. */
const ALONE_MS = 3_000;
/** Requests and lines that wait: with more, the oldest are shown as they are. */
const WAITING = 1_000;

export const Filter = z.union([
  z.strictObject({ query: z.string() }),
  z.strictObject({ outcome: z.array(z.string()) }),
  z.strictObject({ sampling_rate: z.number().min(0).max(1) }),
  z.strictObject({ method: z.array(z.string()) }),
  z.strictObject({ scriptVersion: z.string() }),
]);
export type Filter = z.output<typeof Filter>;

type Outcome = 'ok' | 'exception' | 'canceled';

interface Waiting {
  lines: LogLine[];
  request: TailedRequest | null;
  /** When it is shown, whatever comes until then, in ms since 1970. */
  until: number;
}

/** An event before it is filtered. */
interface Event {
  lines: LogLine[];
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

  line(line: LogLine, now: number): void {
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
      exceptions: [],
      logs: lines.map(({ level, text, at }) => ({
        level: level === 'info' ? 'log' : level,
        message: [text],
        timestamp: Date.parse(at),
      })),
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
function lineEvent({ trace_id: traceId }: LogLine): object {
  return { type: 'log', message: '', traceId };
}

function outcomeOf({ lines, request }: Event): Outcome {
  if (request === null) return lines.some(({ level }) => level === 'error') ? 'exception' : 'ok';
  if (request.status === 499) return 'canceled';
  return request.status >= 500 ? 'exception' : 'ok';
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
