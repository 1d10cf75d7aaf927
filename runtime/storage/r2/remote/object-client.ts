// Reads and writes an app's R2 objects in the bucket, through the bucket proxy. Requests have an idle timeout (`Watch`).
import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { innermostCause } from '../../../bucket/client.ts';
import { listEntries, nextToken } from '../../../bucket/list-xml.ts';
import type { S3Place } from '../../../bucket/place.ts';
import { UNSIGNED } from '../../../bucket/proxy/signature.ts';
import { Store } from '../../../bucket/proxy/store.ts';
import { Watch } from '../../../bucket/proxy/watch.ts';
import { MissingObject, type Stored } from '../../../bucket/store.ts';
import { logRarely, reason } from '../../../log.ts';
import { Backoff } from '../../../processes/backoff.ts';
import { bucketAway, internalError, R2Error } from '../errors.ts';
import { Gate } from '../gate.ts';

/**
 * Maximum concurrent streams, which last as long as their clients need. The proxy allows an app `STREAMS` + `SHORT`
 * requests.
 */
const STREAMS = 96;
/** Maximum concurrent short requests. */
const SHORT = 32;
/** Maximum attempts. The delays sum to 6.5 s, because R2 refuses a second write of a name within a second. */
const TRIES = 6;
/** A failure later than this after the start of the first attempt is not retried, in ms. */
const TRYING_MS = 15_000;
const ERROR_BYTES = 64 * 1024;
/** Maximum bytes of an object that is read as a whole, and of a page of a list. */
const WHOLE_BYTES = 16 * 2 ** 20;
/** Statuses below 500 after which another attempt may succeed. */
const BUSY = [408, 429];
const PAGE_NAMES = 1_000;

/** Condition of a write: the object has this etag (`ifMatch`), or does not exist (`ifNoneMatch`). */
export type WriteCondition = { ifMatch: string } | { ifNoneMatch: true };

/** The condition of a write was not met. */
export class Conflict extends Error {
  /** Whether an earlier attempt of the same write may have written the object. */
  readonly isUnsure: boolean;

  constructor(isUnsure: boolean) {
    super('the condition of a write was not met');
    this.isUnsure = isUnsure;
  }
}

/** The store did not carry out a request, and may do so later. */
class Busy extends Error {}

/** The store refuses a request, or its answer is too large, so another attempt would not help. */
class Refused extends Error {}

interface Asked {
  method: string;
  name: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: Buffer;
}

export interface Page {
  objects: Stored[];
  /** Token for the next page; null at the end of the list. */
  next: string | null;
}

export class ObjectClient {
  readonly #place: S3Place;
  readonly #store: Store;
  readonly #streams = new Gate(STREAMS);
  readonly #short = new Gate(SHORT);

  /** @param place the place of the app's R2 objects at the bucket proxy */
  constructor(place: S3Place) {
    this.#place = place;
    this.#store = new Store(place, STREAMS + SHORT);
  }

  /** Prefix of all names of this app's objects. Each app has its own. */
  get prefix(): string {
    return this.#place.prefix;
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  /** Returns how many bytes longer a name may be; negative when the name is too long. */
  room(name: string): number {
    return 1_024 - Buffer.byteLength(this.#place.prefix + name);
  }

  /** Reads a small object. @throws {MissingObject}; {R2Error} when the bucket does not answer */
  async read(name: string): Promise<{ etag: string; bytes: Buffer }> {
    const { headers, bytes } = await this.#ask({ method: 'GET', name });
    return { etag: headerOf(headers, 'etag'), bytes };
  }

  /** Writes a small object. @throws {Conflict}; {R2Error} when the bucket does not answer, or refuses the request */
  async write(name: string, body: Buffer, condition?: WriteCondition): Promise<void> {
    const headers: Record<string, string> = {};
    if (condition && 'ifMatch' in condition) headers['if-match'] = condition.ifMatch;
    else if (condition) headers['if-none-match'] = '*';
    await this.#ask({ method: 'PUT', name, headers, body }, condition !== undefined);
  }

  /** Removes an object. A missing one is not an error. @throws {R2Error} when the bucket does not answer */
  async remove(name: string): Promise<void> {
    await this.#ask({ method: 'DELETE', name }).catch((error: unknown) => {
      if (!(error instanceof MissingObject)) throw error;
    });
  }

  /**
   * Lists a page of names below a prefix, in order.
   * @param from `after`: the list begins after this name. `token`: the `next` of the previous page. Default: from the start
   * @throws {R2Error} when the bucket does not answer
   */
  async list(prefix: string, from: { after?: string | null; token?: string } = {}): Promise<Page> {
    const own = this.#place.prefix;
    const query: Record<string, string> = {
      'list-type': '2',
      prefix: own + prefix,
      'max-keys': `${PAGE_NAMES}`,
    };
    if (from.after) query['start-after'] = own + from.after;
    if (from.token) query['continuation-token'] = from.token;
    const { bytes } = await this.#ask({ method: 'GET', name: '', query });
    const xml = bytes.toString('utf8');
    return { objects: listEntries(xml, own), next: nextToken(xml) };
  }

  /** Yields all objects below a prefix, a page at a time. */
  async *pages(prefix: string): AsyncGenerator<Stored[]> {
    for (let page = await this.list(prefix); ; ) {
      yield page.objects;
      if (page.next === null) return;
      const next = await this.list(prefix, { token: page.next });
      if (next.next === page.next) throw away(new Error(`the list of ${prefix} has no end`));
      page = next;
    }
  }

  /**
   * Writes a large object as its bytes arrive, without retries. After a failure, the bucket has the whole object or nothing.
   * @param body exactly `size` bytes
   * @throws what `body` throws; {R2Error} when the bucket does not answer
   */
  writeStream(name: string, size: number, body: AsyncIterable<Buffer>): Promise<void> {
    return this.#streams.during(async () => {
      const watch = new Watch();
      let broken: unknown = null;
      const chunks = async function* () {
        try {
          for await (const chunk of body) {
            watch.moves();
            yield chunk;
            watch.end();
          }
        } catch (error) {
          broken = error;
          throw error;
        }
        watch.awaitsHead();
      };
      try {
        const headers = { 'content-length': String(size) };
        const stream = Readable.from(chunks(), { objectMode: false });
        const answer = await this.#send({ method: 'PUT', name, headers }, UNSIGNED, stream, watch);
        if (answer.statusCode >= 300) throw failureOf(answer.statusCode, await textOf(answer, watch), name);
        await answer.body.dump();
      } catch (error) {
        throw broken ?? away(error);
      } finally {
        watch.finish();
      }
    });
  }

  /**
   * Passes a part of an object to `read` as a stream. Resolves with the result of `read`.
   * @throws {MissingObject} before `read` is called; what `read` throws; {R2Error} when the bucket does not answer
   */
  readStream<T>(
    name: string,
    { offset, length }: { offset: number; length: number },
    read: (chunks: AsyncIterable<Buffer>) => Promise<T>,
  ): Promise<T> {
    return this.#streams.during(async () => {
      const headers = { range: `bytes=${offset}-${offset + length - 1}` };
      const { answer, watch } = await this.#tryOften(async () => {
        const watch = new Watch();
        const answer = await this.#begin({ method: 'GET', name, headers }, watch);
        return { answer, watch };
      });
      try {
        return await read(watched(answer, length, watch));
      } finally {
        watch.end();
        answer.body.destroy();
      }
    });
  }

  #ask(asked: Asked, isConditional = false) {
    return this.#short.during(() =>
      this.#tryOften(async (isUnsure) => {
        const watch = new Watch();
        try {
          const answer = await this.#begin(asked, watch, isConditional && { isUnsure });
          return { headers: answer.headers, bytes: await wholeOf(answer, watch, WHOLE_BYTES) };
        } finally {
          watch.end();
        }
      }),
    );
  }

  /**
   * Tries a request until it succeeds or is refused, within the limits of `TRIES` and `TRYING_MS`.
   * @param attempt called with whether an earlier attempt may have been carried out
   */
  async #tryOften<T>(attempt: (isUnsure: boolean) => Promise<T>): Promise<T> {
    const backoff = new Backoff();
    const from = performance.now();
    let isUnsure = false;
    for (let tries = 1; ; tries++) {
      try {
        return await attempt(isUnsure);
      } catch (error) {
        if (error instanceof MissingObject || error instanceof Conflict) throw error;
        if (!(error instanceof Busy)) isUnsure = true;
        const isLate = performance.now() - from > TRYING_MS;
        if (error instanceof Refused || tries === TRIES || isLate) throw away(error);
        await sleep(backoff.next(0).delayMs);
      }
    }
  }

  /** Sends a request once. @returns the answer, whose body must be read or destroyed @throws {Error} for an error status */
  async #begin(
    asked: Asked,
    watch: Watch,
    conditional: { isUnsure: boolean } | false = false,
  ): Promise<Dispatcher.ResponseData> {
    const { body, name } = asked;
    const length = body === undefined ? {} : { 'content-length': String(body.length) };
    const headers = { ...asked.headers, ...length };
    watch.awaitsHead();
    try {
      const sum = hash('sha256', body ?? '');
      const answer = await this.#send({ ...asked, headers }, sum, body === undefined ? null : body, watch);
      const { statusCode: status } = answer;
      if (status < 300) return answer;
      const text = await textOf(answer, watch);
      // With `if-match`, a missing object is a conflict too.
      if (conditional && (status === 412 || status === 409 || status === 404))
        throw new Conflict(conditional.isUnsure);
      if (status === 404) throw new MissingObject(name);
      throw failureOf(status, text, name);
    } catch (error) {
      watch.end();
      throw error;
    }
  }

  #send(
    { method, name, query = {}, headers = {} }: Asked,
    bodyHash: string,
    body: Readable | Buffer | null,
    watch: Watch,
  ): Promise<Dispatcher.ResponseData> {
    const { bucket, prefix } = this.#place;
    const isList = 'list-type' in query;
    return this.#store.send(
      {
        method,
        path: isList ? `/${bucket}` : `/${bucket}/${prefix}${name}`,
        query: new Map(Object.entries(query)),
        headers,
        bodyHash,
        body,
      },
      watch.signal,
    );
  }
}

/** Yields the body of an answer. @throws {Error} when it has another length, or the store is silent */
async function* watched(
  { body }: Dispatcher.ResponseData,
  length: number,
  watch: Watch,
): AsyncGenerator<Buffer> {
  let left = length;
  watch.awaitsStore();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    // The timeout stops while the client reads the chunk: only the store's silence is limited.
    watch.end();
    left -= chunk.length;
    yield chunk;
    watch.awaitsStore();
  }
  watch.end();
  if (left !== 0) throw new Error('the bucket answered another length');
}

async function wholeOf({ body }: Dispatcher.ResponseData, watch: Watch, most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  watch.awaitsStore();
  for await (const chunk of body as AsyncIterable<Buffer>) {
    watch.awaitsStore();
    chunks.push(chunk);
    size += chunk.length;
    if (size > most) throw new Refused(`the bucket answered more than ${most} bytes`);
  }
  return Buffer.concat(chunks);
}

/** Returns an error's text; an empty text when it is too large: the status alone says whether to try again. */
async function textOf(answer: Dispatcher.ResponseData, watch: Watch): Promise<string> {
  const bytes = await wholeOf(answer, watch, ERROR_BYTES).catch((error: unknown) => {
    if (error instanceof Refused) return '';
    throw error;
  });
  return bytes.toString();
}

function failureOf(status: number, text: string, name: string): Error {
  const code = /<Code>(\w{1,64})<\/Code>/.exec(text)?.[1] ?? '';
  const words = `${name}: the bucket answered ${status} ${code}`.trim();
  if (BUSY.includes(status)) return new Busy(words);
  return status < 500 ? new Refused(words) : new Error(words);
}

/** Logs why a request failed, and returns the error for the app. */
function away(error: unknown): R2Error {
  if (error instanceof R2Error) return error;
  logRarely('warn', 'an R2 operation of an app failed, because the bucket does not serve it', {
    error: reason(innermostCause(error)),
  });
  if (error instanceof Refused) return internalError();
  return bucketAway();
}

function headerOf(headers: Dispatcher.ResponseData['headers'], name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}
