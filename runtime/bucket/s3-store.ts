// Stores objects in any service with the S3 API.
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AwsClient } from 'aws4fetch';
import { reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import { bucketUrl, innermostCause, s3Client } from './client.ts';
import type { S3Place } from './place.ts';
import { encodePath } from './proxy/signature.ts';
import { MissingObject, type Store, type Stored } from './store.ts';

/** Timeout of one attempt, in ms; an object has little more than 16 MiB. */
const DEADLINE_MS = 5 * 60_000;
/** Maximum attempts when the connection fails or the store is overloaded. The backoff takes 6.5 s in all. */
const TRIES = 6;
/** Maximum characters of an error response that a message shows. */
const REFUSAL_LENGTH = 300;

export class S3Store implements Store {
  readonly #client: AwsClient;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor(place: S3Place) {
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
      for (const [, entry] of xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const name = element(entry!, 'Key').slice(this.#prefix.length);
        const writtenAt = Date.parse(element(entry!, 'LastModified'));
        found.push({
          name,
          bytes: Number(element(entry!, 'Size')),
          writtenAt,
          etag: element(entry!, 'ETag').replaceAll('"', ''),
        });
      }
      token = element(xml, 'NextContinuationToken') || null;
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
    const backoff = new Backoff();
    // The query may contain details that a message must not show.
    const [address] = (this.#bucket + path).split('?');
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try(method, path, init);
      } catch (error) {
        if (error instanceof MissingObject) throw error;
        const isLast = error instanceof Refused || tries === TRIES;
        if (isLast)
          throw new Error(`${method} ${address}: ${causeOf(error)}${tries > 1 ? ` (${tries} tries)` : ''}`);
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
    const text = bytes.toString('utf8');
    const code = element(text, 'Code');
    if (answer.status === 404 && code !== 'NoSuchBucket') throw new MissingObject(path);
    const why = `${code} ${element(text, 'Message')}`.trim() || text;
    const words = `answered ${answer.status}: ${why.slice(0, REFUSAL_LENGTH)}`;
    const isBusy = answer.status >= 500 || BUSY.includes(answer.status) || code === 'RequestTimeout';
    throw isBusy ? new Error(words) : new Refused(words);
  }
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

/** Returns the text of an XML element without child elements; empty when there is none. */
function element(xml: string, name: string): string {
  const [, text = ''] = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml) ?? [];
  const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  return text.replace(/&(\w+);/g, (entity, word: string) => entities[word] ?? entity);
}
