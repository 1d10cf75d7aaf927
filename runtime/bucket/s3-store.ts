// Stores objects in any service with the S3 API.
import { createHash, hash } from 'node:crypto';
import { createReadStream, createWriteStream, openAsBlob } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AwsClient } from 'aws4fetch';
import { reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import { bucketUrl, innermostCause, s3Client } from './client.ts';
import { element, listEntries, nextToken } from './list-xml.ts';
import type { S3Place } from './place.ts';
import { encodePath } from './proxy/signature.ts';
import { ChangedObject, MissingObject, type Store, type Stored } from './store.ts';

/** Timeout of one attempt, in ms; an object in memory has little more than 16 MiB. */
const DEADLINE_MS = 5 * 60_000;
/** The same for an object that is a file on the disk. */
const FILE_DEADLINE_MS = 20 * 60_000;
/** Maximum attempts when the connection fails or the store is overloaded. The backoff takes 6.5 s in all. */
const TRIES = 6;
/** Maximum characters of an error response that a message shows. */
const REFUSAL_LENGTH = 300;

export class S3Store implements Store {
  readonly #client: AwsClient;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #deadlineMs: number;

  /** @param deadlineMs timeout of one attempt with an object in memory */
  constructor(place: S3Place, deadlineMs = DEADLINE_MS) {
    this.#deadlineMs = deadlineMs;
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
      const xml = (await this.#ask('GET', `?${query}`)).bytes.toString('utf8');
      found.push(...listEntries(xml, this.#prefix));
      token = nextToken(xml);
    }
    return found;
  }

  async read(name: string, part?: { offset: number; length: number }): Promise<Buffer<ArrayBuffer>> {
    const range = part && `bytes=${part.offset}-${part.offset + part.length - 1}`;
    return (await this.#ask('GET', this.#path(name), { headers: range ? { range } : {} })).bytes;
  }

  /** As `read`, with the tag of the object's content. */
  readTagged(name: string): Promise<Tagged> {
    return this.#ask('GET', this.#path(name));
  }

  /**
   * Writes an object unless another writer has changed it.
   * @param etag of the content to replace; null for a new object
   * @returns the tag of the new content
   * @throws {ChangedObject}
   */
  async writeIf(name: string, bytes: Buffer<ArrayBuffer>, etag: string | null): Promise<string> {
    const headers: Record<string, string> = etag === null ? { 'if-none-match': '*' } : { 'if-match': etag };
    try {
      const written = await this.#ask('PUT', this.#path(name), { headers, body: bytes });
      if (written.etag !== '') return written.etag;
    } catch (error) {
      if (!(error instanceof ChangedObject || error instanceof MissingObject)) throw error;
    }
    // The answer to an earlier attempt may have been lost.
    const found = await this.readTagged(name).catch((error: unknown) => {
      throw error instanceof MissingObject ? new ChangedObject(name) : error;
    });
    if (!found.bytes.equals(bytes)) throw new ChangedObject(name);
    return found.etag;
  }

  /** Writes a file as an object, without loading it. The store takes at most 5 GB at once. */
  async writeFile(name: string, path: string): Promise<void> {
    const sum = createHash('sha256');
    await pipeline(createReadStream(path), sum);
    const file = { body: await openAsBlob(path), sum: sum.digest('hex'), deadlineMs: FILE_DEADLINE_MS };
    await this.#ask('PUT', this.#path(name), file);
  }

  /** Reads an object into a new file, without loading it. @throws {MissingObject} */
  async readFile(name: string, path: string): Promise<void> {
    const take = async (body: ReadableStream) => {
      await pipeline(Readable.fromWeb(body), createWriteStream(path, { flush: true, mode: 0o600 }));
    };
    await this.#ask('GET', this.#path(name), { take, deadlineMs: FILE_DEADLINE_MS });
  }

  /** Whether there is an object with this name. */
  async has(name: string): Promise<boolean> {
    return this.#ask('HEAD', this.#path(name)).then(
      () => true,
      (error: unknown) => {
        if (error instanceof MissingObject) return false;
        throw error;
      },
    );
  }

  async write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void> {
    await this.#ask('PUT', this.#path(name), { body: bytes });
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
  async #ask(method: string, path: string, init: Init = {}): Promise<Tagged> {
    const backoff = new Backoff();
    // The query may contain details that a message must not show.
    const [address] = (this.#bucket + path).split('?');
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try(method, path, init);
      } catch (error) {
        if (error instanceof MissingObject || error instanceof ChangedObject) throw error;
        const isLast = error instanceof Refused || tries === TRIES;
        if (isLast)
          throw new Error(
            `${method} ${address}: ${causeOf(error, init.deadlineMs ?? this.#deadlineMs)}${tries > 1 ? ` (${tries} tries)` : ''}`,
          );
        await sleep(backoff.next(0).delayMs);
      }
    }
  }

  /** @throws {MissingObject}; {ChangedObject}; {Refused} when a retry would not help; {Error} */
  async #try(method: string, path: string, init: Init): Promise<Tagged> {
    const { headers = {}, body, take, deadlineMs = this.#deadlineMs } = init;
    // The store checks this hash of the body.
    const sum = init.sum ?? hash('sha256', (body as Buffer | undefined) ?? '');
    const request = await this.#client.sign(this.#bucket + path, {
      method,
      headers: { ...headers, 'x-amz-content-sha256': sum },
      body: body ?? null,
      redirect: 'error',
      signal: AbortSignal.timeout(deadlineMs),
    });
    const answer = await fetch(request);
    const etag = answer.headers.get('etag') ?? '';
    if (answer.ok && take && answer.body) {
      await take(answer.body as ReadableStream);
      return { bytes: Buffer.alloc(0), etag };
    }
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (answer.ok) return { bytes, etag };
    const text = bytes.toString('utf8');
    const code = element(text, 'Code');
    if (answer.status === 404 && code !== 'NoSuchBucket') throw new MissingObject(path);
    if (CHANGED.includes(answer.status)) throw new ChangedObject(path);
    const why = `${code} ${element(text, 'Message')}`.trim() || text;
    const words = `answered ${answer.status}: ${why.slice(0, REFUSAL_LENGTH)}`;
    const isBusy = answer.status >= 500 || BUSY.includes(answer.status) || code === 'RequestTimeout';
    throw isBusy ? new Error(words) : new Refused(words);
  }
}

/** An object's content, and a tag that changes with it. */
export interface Tagged {
  bytes: Buffer<ArrayBuffer>;
  etag: string;
}

interface Init {
  headers?: Record<string, string>;
  /** A `Blob` is read as it is sent; it needs `sum`. */
  body?: Buffer<ArrayBuffer> | Blob;
  /** The body's SHA-256, if known. */
  sum?: string;
  /** Takes the body of a success. It may be called again after a failure. */
  take?: (body: ReadableStream) => Promise<void>;
  /** Timeout of one attempt. Default: that of the store. */
  deadlineMs?: number;
}

/** Statuses below 500 that a retry may fix. */
const BUSY = [408, 429];
/** The condition of a write does not hold, or another writer is at it. */
const CHANGED = [409, 412];

/** The store refused the request: a retry would not help. */
class Refused extends Error {}

/** Returns the cause of `fetch failed` and `terminated`. */
function causeOf(error: unknown, deadlineMs: number): string {
  const cause = innermostCause(error);
  return cause instanceof DOMException && cause.name === 'TimeoutError'
    ? `no whole answer within ${deadlineMs / 1000} s`
    : reason(cause);
}
