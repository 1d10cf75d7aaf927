// Reads server-sent events.

export interface SentEvent {
  id?: string;
  event?: string;
  data?: string;
}

/** Longest wait for an event, in ms. */
const DEADLINE_MS = 60_000;

/** Reads one stream. Each read waits at most `DEADLINE_MS`. */
export class EventReader {
  readonly response: Response;
  readonly #abort: AbortController;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = '';

  private constructor(response: Response, abort: AbortController) {
    this.response = response;
    this.#abort = abort;
    this.#reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  }

  static async open(url: string, init: RequestInit = {}): Promise<EventReader> {
    const abort = new AbortController();
    return new EventReader(await fetch(url, { ...init, signal: abort.signal }), abort);
  }

  /** Returns the next block; `{}` for a comment, null at the end of the stream. */
  async block(): Promise<SentEvent | null> {
    while (!this.#text.includes('\n\n')) {
      const late = new Error(`no event within ${DEADLINE_MS} ms`);
      const timer = setTimeout(() => this.#abort.abort(late), DEADLINE_MS);
      const { done, value } = await this.#reader.read().finally(() => clearTimeout(timer));
      if (done) return null;
      this.#text += value;
    }
    const end = this.#text.indexOf('\n\n');
    const lines = this.#text.slice(0, end).split('\n');
    this.#text = this.#text.slice(end + 2);
    const fields = lines
      .filter((line) => !line.startsWith(':'))
      .map((line) => line.split(/: (.*)/s).slice(0, 2));
    return Object.fromEntries(fields) as SentEvent;
  }

  /** Returns the next `count` events with data. */
  async take(count: number): Promise<SentEvent[]> {
    const events: SentEvent[] = [];
    while (events.length < count) {
      const block = await this.block();
      if (block === null) throw new Error(`the stream ended after ${events.length} events`);
      if (block.data !== undefined) events.push(block);
    }
    return events;
  }

  close(): void {
    this.#abort.abort();
  }
}
