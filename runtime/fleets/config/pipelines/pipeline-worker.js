// Pipelines: each pipeline is a Durable Object that collects records, and writes them into R2 as batches of
// newline-delimited JSON.

import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';

/** Maximum size of the records of one `send()`, in bytes. */
const SEND_BYTES = 1024 * 1024;
/** Maximum size of a batch, in bytes. Once this many bytes wait, a batch is written at once. */
const BATCH_BYTES = 8 * 1024 * 1024;
/** Time after which a smaller batch is written, in ms. Also the pause after a failed write. */
const BATCH_MS = 60_000;
/** Maximum size of the waiting records, in bytes. Above it, `send()` fails. Records wait for example while R2 fails. */
const WAITING_BYTES = 64 * 1024 * 1024;

const encoder = new TextEncoder();

export class CellarPipeline extends DurableObject {
  #bytes = 0;
  /** Whether R2 refused the latest object. Then only the alarm tries again, not each `send()`. */
  #hasFailed = false;

  constructor(context, env) {
    super(context, env);
    context.storage.sql.exec(
      'CREATE TABLE IF NOT EXISTS chunks (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, bytes INTEGER NOT NULL)',
    );
    this.#count();
  }

  /** Stores lines. They are durable when the call resolves. */
  async add(pipeline, text, bytes) {
    const { storage } = this.ctx;
    if (this.#bytes + bytes > WAITING_BYTES)
      throw new Error(
        `the bucket of the pipeline ${pipeline} cannot be written now, and ${WAITING_BYTES / 1024 / 1024} MiB of records wait already`,
      );
    storage.sql.exec('INSERT INTO chunks (text, bytes) VALUES (?, ?)', text, bytes);
    this.#bytes += bytes;
    storage.put('pipeline', pipeline);
    const now = Date.now();
    const due = await storage.getAlarm();
    if (this.#bytes >= BATCH_BYTES && !this.#hasFailed) await storage.setAlarm(now);
    else if (due === null) await storage.setAlarm(now + BATCH_MS);
  }

  async alarm() {
    const { storage } = this.ctx;
    const pipeline = await storage.get('pipeline');
    const bucket = this.env[`bucket ${pipeline}`];
    // The live release does not bind the pipeline, or nothing waits. The next `send()` sets the alarm again.
    if (bucket === undefined || this.#bytes === 0) return;
    const { key, last } = await this.#batch(pipeline);
    const lines = [...storage.sql.exec('SELECT text FROM chunks WHERE id <= ? ORDER BY id', last)];
    try {
      await bucket.put(key, lines.map(({ text }) => text).join(''), {
        httpMetadata: { contentType: 'application/x-ndjson' },
      });
    } catch (error) {
      // Does not throw, because workerd would stop retrying the alarm after six attempts.
      console.error(`the pipeline ${pipeline} could not write ${key}: ${error.message}`);
      this.#hasFailed = true;
      await storage.setAlarm(Date.now() + BATCH_MS);
      return;
    }
    this.#hasFailed = false;
    storage.sql.exec('DELETE FROM chunks WHERE id <= ?', last);
    await storage.delete('batch');
    this.#count();
    if (this.#bytes > 0) await storage.setAlarm(Date.now() + (this.#bytes >= BATCH_BYTES ? 0 : BATCH_MS));
  }

  /**
   * Returns the batch to write: its object's key, and its last chunk. It is stored, so that a retry writes the same object.
   */
  async #batch(pipeline) {
    const { storage } = this.ctx;
    const begun = await storage.get('batch');
    if (begun !== undefined) return begun;
    let bytes = 0;
    let last = 0;
    for (const chunk of storage.sql.exec('SELECT id, bytes FROM chunks ORDER BY id')) {
      if (bytes > 0 && bytes + chunk.bytes > BATCH_BYTES) break;
      bytes += chunk.bytes;
      last = chunk.id;
    }
    const [day, time] = new Date().toISOString().split('T');
    const key = `${pipeline}/event_date=${day}/hr=${time.slice(0, 2)}/${crypto.randomUUID()}.ndjson`;
    await storage.put('batch', { key, last });
    return { key, last };
  }

  #count() {
    const { bytes } = this.ctx.storage.sql.exec('SELECT coalesce(sum(bytes), 0) AS bytes FROM chunks').one();
    this.#bytes = bytes;
  }
}

/** The entrypoint behind the bindings. */
export class PipelineEntrypoint extends WorkerEntrypoint {
  async send(records) {
    if (!Array.isArray(records)) throw new TypeError('send() takes a list of records.');
    const lines = records.map((record, i) => {
      if (typeof record !== 'object' || record === null || Array.isArray(record))
        throw new TypeError(`send(): record ${i} must be an object.`);
      return `${JSON.stringify(record)}\n`;
    });
    if (lines.length === 0) return;
    const text = lines.join('');
    const bytes = encoder.encode(text).length;
    if (bytes > SEND_BYTES)
      throw new RangeError(
        `send(): the records have ${bytes} bytes; at most ${SEND_BYTES} are allowed in one call.`,
      );
    const { pipeline } = this.ctx.props;
    await this.env.PIPELINES.get(this.env.PIPELINES.idFromName(pipeline)).add(pipeline, text, bytes);
  }
}

export default { fetch: () => new Response('Call send() of the pipeline.', { status: 405 }) };
