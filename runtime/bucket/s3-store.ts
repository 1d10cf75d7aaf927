// Stores objects in any service with the S3 API.
import { createHash, hash } from 'node:crypto';
import { createReadStream, createWriteStream, openAsBlob } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Backoff } from '../processes/backoff.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import {
  type BucketFetch,
  bucketFetch,
  bucketUrl,
  innermostCause,
  shownText,
  storeFailure,
} from './client.ts';
import { element, isPlain, LIST_BYTES, listEntries, listFolders, nextToken } from './list-xml.ts';
import type { S3Place } from './place.ts';
import { encodePath } from './proxy/signature.ts';
import { ChangedObject, ifThere, MissingObject, type Store, type Stored } from './store.ts';

/** Timeout of one attempt, in ms: enough for packs of snapshots, which have little more than 16 MiB. */
const DEADLINE_MS = 5 * 60_000;
/** Timeout of one attempt for small objects and lists, in ms: callers wait for these. */
export const SMALL_MS = 5_000;
/** Timeout of one attempt to receive a file, and the longest one to send a file, in ms. */
const FILE_DEADLINE_MS = 20 * 60_000;
/** Longest wait for the next bytes of a file that is read, in ms. */
const PAUSE_MS = 10_000;
/** Slowest upload of a file: its timeout is `PAUSE_MS` plus the time for the file's size at this rate. */
const SLOWEST_BYTES_PER_MS = 256;
/** Maximum attempts when the connection fails or the store is overloaded. The backoff takes 6.5 s in all. */
const TRIES = 6;
/** Maximum bytes of an object in memory: manifests of snapshots are the largest. */
const OBJECT_BYTES = 2 ** 30;
/** Maximum bytes of a small object: a `refs.json` with 20,000 long names is the largest. */
const SMALL_BYTES = 128 * 2 ** 20;
/** Maximum bytes of an object that is read into a file: as many as a store accepts in one request. */
const FILE_BYTES = 5 * 2 ** 30;
/** Maximum bytes of an error response that are read. */
const REFUSAL_BYTES = 64 * 1024;
/** Maximum characters of an error response in a message. */
const REFUSAL_LENGTH = 300;
/** Maximum objects of a list in memory. */
const MOST_LISTED = 5_000_000;
/** Maximum successive pages without an object. A list with more is treated as endless. */
const EMPTY_PAGES = 100;

/** Opens a store of small objects, whose callers wait for each request. */
export function smallObjects(place: S3Place): S3Store {
  return new S3Store(place, { deadlineMs: SMALL_MS, mostBytes: SMALL_BYTES });
}

export class S3Store implements Store {
  readonly #fetch: BucketFetch;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #deadlineMs: number;
  readonly #pauseMs: number;
  readonly #mostBytes: number;

  /**
   * @param options.deadlineMs timeout of one attempt in ms, except for files. Default: `DEADLINE_MS`
   * @param options.pauseMs longest wait for the next bytes of a file, in ms. Default: `PAUSE_MS`
   * @param options.mostBytes maximum bytes of an object in memory. Default: `OBJECT_BYTES`
   */
  constructor(
    place: S3Place,
    { deadlineMs = DEADLINE_MS, pauseMs = PAUSE_MS, mostBytes = OBJECT_BYTES } = {},
  ) {
    this.#deadlineMs = deadlineMs;
    this.#pauseMs = pauseMs;
    this.#mostBytes = mostBytes;
    this.#fetch = bucketFetch(place);
    this.#bucket = bucketUrl(place);
    this.#prefix = place.prefix;
  }

  async list(folder: string): Promise<Stored[]> {
    const found: Stored[] = [];
    for await (const page of this.pages(folder)) {
      found.push(...page);
      if (found.length > MOST_LISTED)
        throw new Error(`the bucket has more than ${MOST_LISTED} objects below ${this.#prefix}${folder}`);
    }
    return found;
  }

  /**
   * Yields the objects of a folder, a page at a time.
   * @param after yields only objects whose names come after this one. Default: all
   * @throws {Error} when the store refuses or does not answer, or when the pages have no end
   */
  async *pages(folder: string, after = ''): AsyncGenerator<Stored[]> {
    const prefix = this.#prefix + folder;
    let empty = 0;
    for (let token: string | null = ''; token !== null; ) {
      const query = new URLSearchParams({ 'list-type': '2', prefix });
      if (token !== '') query.set('continuation-token', token);
      else if (after !== '') query.set('start-after', this.#prefix + after);
      const asked = await this.#ask('GET', `?${query}`, { mostBytes: LIST_BYTES });
      const xml = asked.bytes.toString('utf8');
      const page = listEntries(xml, this.#prefix);
      yield page;
      const next = nextToken(xml);
      empty = page.length === 0 ? empty + 1 : 0;
      if ((next !== null && next === token) || empty > EMPTY_PAGES)
        throw new Error(`the list of ${prefix} in the bucket has no end`);
      token = next;
    }
  }

  /** Returns the names of the first 1,000 folders in a folder. They end with `/`. */
  async folders(folder: string): Promise<string[]> {
    const query = new URLSearchParams({ 'list-type': '2', prefix: this.#prefix + folder, delimiter: '/' });
    const xml = (await this.#ask('GET', `?${query}`, { mostBytes: LIST_BYTES })).bytes.toString('utf8');
    return listFolders(xml, this.#prefix);
  }

  async read(name: string, part?: { offset: number; length: number }): Promise<Buffer<ArrayBuffer>> {
    const range = part && `bytes=${part.offset}-${part.offset + part.length - 1}`;
    return (await this.#ask('GET', this.#path(name), { headers: range ? { range } : {} })).bytes;
  }

  /** Returns an object's bytes and etag. @throws {MissingObject} */
  readTagged(name: string): Promise<Tagged> {
    return this.#ask('GET', this.#path(name));
  }

  /**
   * Writes an object unless another writer has changed it.
   * @param etag of the content to replace; null for a new object
   * @returns the etag of the new content
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
    // An earlier attempt may have written the object, but its answer was lost. Or the store sent no etag.
    const found = await this.readTagged(name).catch((error: unknown) => {
      throw error instanceof MissingObject ? new ChangedObject(name) : error;
    });
    if (!found.bytes.equals(bytes)) throw new ChangedObject(name);
    return found.etag;
  }

  /** Writes a file as an object, without loading it into memory. A store accepts at most 5 GiB in one request. */
  async writeFile(name: string, path: string): Promise<void> {
    const sum = createHash('sha256');
    await pipeline(createReadStream(path), sum);
    const body = await openAsBlob(path);
    const sendMs = this.#pauseMs + Math.ceil(body.size / SLOWEST_BYTES_PER_MS);
    const deadlineMs = Math.min(FILE_DEADLINE_MS, sendMs);
    await this.#ask('PUT', this.#path(name), { body, sum: sum.digest('hex'), deadlineMs });
  }

  /**
   * Reads an object into a new file, without loading it into memory.
   * @throws {MissingObject}; {Error} when it has more bytes than `mostBytes`, or the store refuses or does not answer
   */
  async readFile(name: string, path: string, mostBytes: number = FILE_BYTES): Promise<void> {
    const most = Math.min(mostBytes, FILE_BYTES);
    const take = async (body: AsyncIterable<Uint8Array>) => {
      await pipeline(bounded(body, most), createWriteStream(path, { flush: true, mode: 0o600 }));
    };
    await this.#ask('GET', this.#path(name), { take, deadlineMs: FILE_DEADLINE_MS });
  }

  async has(name: string): Promise<boolean> {
    return (await this.etagOf(name)) !== null;
  }

  /** Returns the etag of an object; null when the object is missing. */
  async etagOf(name: string): Promise<string | null> {
    return (await ifThere(this.#ask('HEAD', this.#path(name))))?.etag ?? null;
  }

  async write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void> {
    await this.#ask('PUT', this.#path(name), { body: bytes });
  }

  async remove(name: string): Promise<void> {
    await ifThere(this.#ask('DELETE', this.#path(name)));
  }

  /** Returns the path of an object in URLs. @throws {Error} for a name that a URL parser would change, such as `a/../b` */
  #path(name: string): string {
    if (!isPlain(name)) throw new Error(`${JSON.stringify(name)} is not the name of an object`);
    return `/${encodePath(this.#prefix + name)}`;
  }

  /**
   * Makes a request, with retries.
   * @returns the body and its etag; no bytes when `take` reads the body
   * @throws {MissingObject}; {ChangedObject}; {Error} with the address and the reason
   */
  async #ask(method: string, path: string, options: Init = {}): Promise<Tagged> {
    const init = { deadlineMs: this.#deadlineMs, mostBytes: this.#mostBytes, ...options };
    const backoff = new Backoff();
    // The query may contain details that a message must not show.
    const [address] = (this.#bucket + path).split('?');
    for (let tries = 1; ; tries++) {
      try {
        return await (init.take ? this.#take(path, init, init.take) : this.#try(method, path, init));
      } catch (error) {
        if (error instanceof MissingObject || error instanceof ChangedObject) throw error;
        const isLast = error instanceof Refused || tries === TRIES;
        if (isLast)
          throw new Error(
            `${method} ${address}: ${causeOf(error, init)}${tries > 1 ? ` (${tries} tries)` : ''}`,
          );
        await sleep(backoff.next(0).delayMs);
      }
    }
  }

  /** As `#try`, for a body that `take` reads. Also aborts when no byte arrives for too long. */
  async #take(path: string, init: Timed, take: NonNullable<Init['take']>): Promise<Tagged> {
    const paused = new AbortController();
    const timer = setTimeout(
      () => paused.abort(new Error(`no byte came for ${this.#pauseMs / 1000} s`)),
      this.#pauseMs,
    );
    const watched = (body: AsyncIterable<Uint8Array>) => take(noting(body, () => timer.refresh()));
    try {
      return await this.#try('GET', path, { ...init, take: watched }, paused.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @throws {MissingObject}; {ChangedObject}; {Refused} when a retry would not help; {Error} */
  async #try(method: string, path: string, init: Timed, signal?: AbortSignal): Promise<Tagged> {
    const { headers = {}, body, take, deadlineMs, mostBytes } = init;
    const late = AbortSignal.timeout(deadlineMs);
    // The store checks this hash of the body.
    const sum = init.sum ?? hash('sha256', (body as Buffer | undefined) ?? '');
    const signed = { method, headers: { ...headers, 'x-amz-content-sha256': sum }, body: body ?? null };
    const answer = await this.#fetch(path, signed, signal ? AbortSignal.any([late, signal]) : late);
    const etag = answer.headers.get('etag') ?? '';
    if (answer.ok && take && answer.body) {
      await take(answer.body);
      return { bytes: Buffer.alloc(0), etag };
    }
    if (answer.ok) {
      const bytes = await bytesOf(answer, mostBytes);
      if (bytes === null) throw new Refused(`it answered more than ${mostBytes} bytes`);
      return { bytes, etag };
    }
    const text = (await bytesOf(answer, REFUSAL_BYTES))?.toString('utf8') ?? '';
    const code = element(text, 'Code');
    if (answer.status === 404 && code !== 'NoSuchBucket') throw new MissingObject(path);
    if (CHANGED.includes(answer.status)) throw new ChangedObject(path);
    const why = `${code} ${element(text, 'Message')}`.trim() || text;
    const words = `answered ${answer.status}: ${shownText(why, REFUSAL_LENGTH)}`;
    const isBusy = answer.status >= 500 || BUSY.includes(answer.status) || code === 'RequestTimeout';
    throw isBusy ? new Error(words) : new Refused(words);
  }
}

/** An object's content, and its etag, which changes with the content. */
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
  /** Reads the body of a successful response. A retry calls it again. */
  take?: (body: AsyncIterable<Uint8Array>) => Promise<void>;
  /** Timeout of one attempt, in ms. Default: the store's timeout. */
  deadlineMs?: number;
  /** Maximum bytes of the response. Default: the store's maximum. */
  mostBytes?: number;
}

type Timed = Init & { deadlineMs: number; mostBytes: number };

/** Statuses below 500 that a retry may fix. */
const BUSY = [408, 429];
/** Statuses of a write whose condition does not hold, or that conflicts with a concurrent write of the object. */
const CHANGED = [409, 412];

/** The store refused the request: a retry would not help. */
class Refused extends Error {}

/** Returns the body of a response; null when it has more than `most` bytes. */
async function bytesOf({ body }: Response, most: number): Promise<Buffer<ArrayBuffer> | null> {
  const bytes = body === null ? Buffer.alloc(0) : await readAtMost(body as AsyncIterable<Buffer>, most);
  return bytes as Buffer<ArrayBuffer> | null;
}

async function* bounded(body: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > most) throw new Refused(`it answered more than ${most} bytes`);
    yield chunk;
  }
}

async function* noting(body: AsyncIterable<Uint8Array>, onChunk: () => void) {
  for await (const chunk of body) {
    onChunk();
    yield chunk;
  }
}

/** Returns why a request failed: for `fetch failed` and `terminated`, their cause. */
function causeOf(error: unknown, { deadlineMs }: Timed): string {
  const cause = innermostCause(error);
  return cause instanceof DOMException && cause.name === 'TimeoutError'
    ? `no whole answer within ${deadlineMs / 1000} s`
    : storeFailure(cause);
}
