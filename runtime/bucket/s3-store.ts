// Stores objects in any service with the S3 API.
import { hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AwsClient } from 'aws4fetch';
import { reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import { bucketUrl, innermostCause, s3Client } from './client.ts';
import { element, listEntries, nextToken } from './list-xml.ts';
import type { S3Place } from './place.ts';
import { encodePath, UNSIGNED } from './proxy/signature.ts';
import { Store as SignedRequests } from './proxy/store.ts';
import { Watch } from './proxy/watch.ts';
import { MissingObject, type Store, type Stored } from './store.ts';

/** Timeout of one attempt, in ms; an object has little more than 16 MiB. */
const DEADLINE_MS = 5 * 60_000;
/** Larger files are written as they are read, in pieces of this size. In bytes. */
const WHOLE_BYTES = 16 * 2 ** 20;
const PIECE_BYTES = 2 ** 20;
/** Maximum attempts when the connection fails or the store is overloaded. The backoff takes 6.5 s in all. */
const TRIES = 6;
/** Maximum characters of an error response that a message shows. */
const REFUSAL_LENGTH = 300;

export class S3Store implements Store {
  readonly #client: AwsClient;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #place: S3Place;

  constructor(place: S3Place) {
    this.#place = place;
    this.#client = s3Client(place);
    this.#bucket = bucketUrl(place);
    this.#prefix = place.prefix;
  }

  async list(folder: string): Promise<Stored[]> {
    const found: Stored[] = [];
    const prefix = this.#prefix + folder;
    for (let token: string | null = ''; token !== null; ) {
      const query = new URLSearchParams({ 'list-type': '2', prefix });
      if (token !== '') query.set('continuation-token', token);
      const xml = (await this.#ask('GET', `?${query}`)).toString('utf8');
      found.push(...listEntries(xml, this.#prefix));
      token = nextToken(xml);
    }
    return found;
  }

  async read(name: string, part?: { offset: number; length: number }): Promise<Buffer<ArrayBuffer>> {
    const range = part && `bytes=${part.offset}-${part.offset + part.length - 1}`;
    return this.#ask('GET', this.#path(name), { headers: range ? { range } : {} });
  }

  async write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void> {
    await this.#ask('PUT', this.#path(name), { body: bytes });
  }

  /** Writes a file, also one that is too large for the memory. @throws {Error} with the address and the reason */
  async writeFile(name: string, path: string): Promise<void> {
    const { size } = await stat(path);
    if (size <= WHOLE_BYTES) return this.write(name, await readFile(path));
    await this.#often(`PUT ${this.#bucket}${this.#path(name)}`, () => this.#writeLarge(name, path, size));
  }

  async remove(name: string): Promise<void> {
    await this.#ask('DELETE', this.#path(name));
  }

  #path(name: string): string {
    return `/${encodePath(this.#prefix + name)}`;
  }

  /**
   * Makes a request, with retries.
   * @returns the response body
   * @throws {MissingObject}; {Error} with the address and the reason
   */
  async #ask(method: string, path: string, init: Init = {}): Promise<Buffer<ArrayBuffer>> {
    // The query may contain details that a message must not show.
    const [address] = (this.#bucket + path).split('?');
    return this.#often(`${method} ${address}`, () => this.#try(method, path, init));
  }

  /** @param words what is done, for messages */
  async #often<T>(words: string, attempt: () => Promise<T>): Promise<T> {
    const backoff = new Backoff();
    for (let tries = 1; ; tries++) {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof MissingObject) throw error;
        const isLast = error instanceof Refused || tries === TRIES;
        if (isLast) throw new Error(`${words}: ${causeOf(error)}${tries > 1 ? ` (${tries} tries)` : ''}`);
        await sleep(backoff.next(0).delayMs);
      }
    }
  }

  /** @throws {MissingObject}; {Refused} when a retry would not help; {Error} */
  async #try(method: string, path: string, { headers = {}, body }: Init): Promise<Buffer<ArrayBuffer>> {
    // The store checks this hash of the body.
    const sum = hash('sha256', body ?? '');
    const request = await this.#client.sign(this.#bucket + path, {
      method,
      headers: { ...headers, 'x-amz-content-sha256': sum },
      body: body ?? null,
      redirect: 'error',
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    const answer = await fetch(request);
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (answer.ok) return bytes;
    throw refusalOf(answer.status, bytes.toString('utf8'), path);
  }

  /** Writes a file as it is read: `fetch` cannot send a body of known length from a stream. */
  async #writeLarge(name: string, path: string, size: number): Promise<void> {
    const store = new SignedRequests(this.#place, 1);
    const watch = new Watch();
    const file = createReadStream(path, { highWaterMark: PIECE_BYTES });
    const pieces = async function* () {
      for await (const piece of file as AsyncIterable<Buffer>) {
        watch.moves();
        yield piece;
      }
      watch.awaitsHead();
    };
    try {
      const answer = await store.send(
        {
          method: 'PUT',
          path: `/${this.#place.bucket}/${this.#prefix}${name}`,
          query: new Map(),
          headers: { 'content-length': String(size) },
          bodyHash: UNSIGNED,
          body: Readable.from(pieces(), { objectMode: false }),
        },
        watch.signal,
      );
      const text = await answer.body.text();
      if (answer.statusCode >= 300) throw refusalOf(answer.statusCode, text, name);
    } finally {
      watch.finish();
      file.destroy();
      await store.close();
    }
  }
}

/** Returns the error for an answer of the store. */
function refusalOf(status: number, text: string, path: string): Error {
  const code = element(text, 'Code');
  if (status === 404 && code !== 'NoSuchBucket') return new MissingObject(path);
  const why = `${code} ${element(text, 'Message')}`.trim() || text;
  const words = `answered ${status}: ${why.slice(0, REFUSAL_LENGTH)}`;
  const isBusy = status >= 500 || BUSY.includes(status) || code === 'RequestTimeout';
  return isBusy ? new Error(words) : new Refused(words);
}

interface Init {
  headers?: Record<string, string>;
  body?: Buffer<ArrayBuffer>;
}

/** Statuses below 500 that a retry may fix. */
const BUSY = [408, 429];

/** The store refused the request: a retry would not help. */
class Refused extends Error {}

/** Returns the cause of `fetch failed` and `terminated`. */
function causeOf(error: unknown): string {
  const cause = innermostCause(error);
  return cause instanceof DOMException && cause.name === 'TimeoutError'
    ? `no whole answer within ${DEADLINE_MS / 1000} s`
    : reason(cause);
}
