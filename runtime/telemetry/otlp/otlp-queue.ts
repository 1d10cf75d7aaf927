// What waits to be sent by an exporter of OpenTelemetry's: bounded, in batches, one after another.

/** What OpenTelemetry's exporters have in common. `code` 0 says that all was taken. */
interface Exporter<Item> {
  export(items: Item[], done: (result: { code: number; error?: Error }) => void): void;
  shutdown(): Promise<void>;
}

/** Items that may wait; what comes beyond is dropped. */
const WAITING = 8_192;
/** Items of one batch. */
const BATCH = 512;
/** An item waits no longer for others, in ms. */
const EVERY_MS = 1_000;

export class OtlpQueue<Item> {
  readonly #exporter: Exporter<Item>;
  #waiting: Item[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  #dropped = 0;

  /** @param exporter tries again by itself what the endpoint could not take, within a deadline */
  constructor(exporter: Exporter<Item>) {
    this.#exporter = exporter;
  }

  /** Items that found no room, or that the endpoint did not take. */
  get dropped(): number {
    return this.#dropped;
  }

  add(item: Item): void {
    if (this.#waiting.length >= WAITING) {
      this.#dropped++;
      return;
    }
    this.#waiting.push(item);
    if (this.#waiting.length >= BATCH) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), EVERY_MS);
  }

  /** Sends what waits, once, and ends. */
  async close(): Promise<void> {
    this.#send();
    await this.#sending;
    await this.#exporter.shutdown();
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#sending !== null || this.#waiting.length === 0) return;
    this.#sending = this.#sendAll().finally(() => {
      this.#sending = null;
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      const { promise, resolve } = Promise.withResolvers<number>();
      this.#exporter.export(batch, ({ code }) => resolve(code));
      if ((await promise) !== 0) this.#dropped += batch.length;
    }
  }
}
