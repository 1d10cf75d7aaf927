// A bounded queue in front of an OpenTelemetry exporter. Sends batches one after another.

/** The common interface of OpenTelemetry's exporters. `code` 0: success. */
interface Exporter<Item> {
  export(items: Item[], done: (result: { code: number; error?: Error }) => void): void;
  shutdown(): Promise<void>;
}

/** Maximum queued items. Further items are dropped. */
const WAITING = 8_192;
/** Maximum items of one batch. */
const BATCH = 512;
/** Maximum time that an item waits for a full batch, in ms. */
const EVERY_MS = 1_000;

export class OtlpQueue<Item> {
  readonly #exporter: Exporter<Item>;
  #waiting: Item[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  #dropped = 0;

  /** @param exporter must itself retry, within a time limit */
  constructor(exporter: Exporter<Item>) {
    this.#exporter = exporter;
  }

  /** Number of items dropped because the queue was full, or because an export failed. */
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

  /** Sends the queued items once, and ends the exporter. */
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
