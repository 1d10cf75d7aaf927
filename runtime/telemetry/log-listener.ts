// Somebody who follows an app's log: what it wants to see, as server-sent events.
import type { LogLine } from '../../handlers/contract/telemetry.ts';
import { LEVELS, type Level } from './log-lines.ts';
import type { StreamPiece } from './protocol.ts';

/** What a listener asks for. */
export interface LogFollow {
  /** The least. */
  level: Level | null;
  /** A text that lines have in them, in lower or upper case. */
  search: string | null;
  /** The id of the last line that it has seen; null: only what comes from now on. */
  after: number | null;
  /** Over RPC each event is a notification of this method. */
  rpcMethod: string | null;
}

const RESET = 'event: reset\ndata: {"reason":"lines are missing here; read the list again"}\n\n';

export class LogListener {
  readonly #follow: LogFollow;
  readonly #least: number;
  readonly #matches: (line: LogLine) => boolean;
  readonly #push: (pieces: StreamPiece[]) => void;
  #text = '';
  #events = 0;
  #lastId: number | null = null;

  constructor(follow: LogFollow, push: (pieces: StreamPiece[]) => void) {
    this.#follow = follow;
    this.#least = follow.level === null ? 0 : LEVELS.indexOf(follow.level);
    this.#matches = matcher(follow.search ?? undefined);
    this.#push = push;
  }

  /** Shows it a line, together with others that come at the same time. */
  take(line: LogLine): void {
    if (LEVELS.indexOf(line.level) < this.#least || !this.#matches(line)) return;
    const data = JSON.stringify(line);
    const { rpcMethod } = this.#follow;
    const sent =
      rpcMethod === null ? data : `{"jsonrpc":"2.0","method":${JSON.stringify(rpcMethod)},"params":${data}}`;
    if (this.#events === 0) queueMicrotask(() => this.#send());
    this.#text += `id: ${line.id}\ndata: ${sent}\n\n`;
    this.#events++;
    this.#lastId = Number(line.id);
  }

  /** Tells it that it has missed lines which are not there any more, or are too many. */
  reset(): void {
    this.#push([{ text: RESET, events: 0, lastId: null, isLast: false }]);
  }

  /** Ends its stream: the app is gone. */
  end(): void {
    this.#push([{ text: '', events: 0, lastId: null, isLast: true }]);
  }

  #send(): void {
    const piece = { text: this.#text, events: this.#events, lastId: this.#lastId, isLast: false };
    this.#text = '';
    this.#events = 0;
    this.#push([piece]);
  }
}

/** Whether a line has a text in it, in lower or upper case. */
export function matcher(search: string | undefined): (line: { text: string; fields: unknown }) => boolean {
  if (search === undefined) return () => true;
  const wanted = search.toLowerCase();
  return ({ text, fields }) => {
    if (text.toLowerCase().includes(wanted)) return true;
    if (fields === null) return false;
    return (typeof fields === 'string' ? fields : JSON.stringify(fields)).toLowerCase().includes(wanted);
  };
}
