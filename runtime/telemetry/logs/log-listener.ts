// A client that follows an app's log as server-sent events, with a filter.
import type { TailedPart } from '../../../handlers/contract/host/host-calls.ts';
import type { LogLine } from '../../../handlers/contract/telemetry/logs.ts';
import { type EventSender, eventOf } from '../event-sender.ts';
import { LEVELS, type Level } from './log-lines.ts';

/** What a client wants to follow. */
export interface LogFollow {
  /** The lowest level that the client wants; null: all levels. */
  level: Level | null;
  /** A text that lines must contain, case-insensitive; null: all lines. */
  search: string | null;
  /** The id of the last line that the client has seen; null: it wants only new lines. */
  after: number | null;
  /** Method of the JSON-RPC notifications that are sent as events; null: events have only the line. */
  rpcMethod: string | null;
  /** Whether lines also have the data that only Wrangler's tail shows. */
  isTail: boolean;
}

const RESET = 'event: reset\ndata: {"reason":"lines are missing here; read the list again"}\n\n';

export class LogListener {
  readonly events: EventSender;
  readonly #rpcMethod: string | null;
  readonly #isTail: boolean;
  readonly #least: number;
  readonly #matches: (line: LogLine) => boolean;

  constructor({ level, search, rpcMethod, isTail }: LogFollow, events: EventSender) {
    this.events = events;
    this.#rpcMethod = rpcMethod;
    this.#isTail = isTail;
    this.#least = level === null ? 0 : LEVELS.indexOf(level);
    this.#matches = matcher(search ?? undefined);
  }

  /** Sends a line, if it passes the filter. */
  take(line: LogLine, tail?: TailedPart): void {
    if (LEVELS.indexOf(line.level) < this.#least || !this.#matches(line)) return;
    const shown = this.#isTail && tail ? { ...line, tail } : line;
    this.events.send(() => eventOf(shown, line.id, this.#rpcMethod), Number(line.id));
  }

  /** Tells the client that lines are missing, because they were deleted or are too many. */
  reset(): void {
    this.events.say(RESET);
  }
}

/** Returns a function that searches a line's text and fields for a text, ignoring case; `undefined` matches every line. */
export function matcher(search: string | undefined): (line: { text: string; fields: unknown }) => boolean {
  if (search === undefined) return () => true;
  const wanted = search.toLowerCase();
  return ({ text, fields }) => {
    if (text.toLowerCase().includes(wanted)) return true;
    if (fields === null) return false;
    return (typeof fields === 'string' ? fields : JSON.stringify(fields)).toLowerCase().includes(wanted);
  };
}
