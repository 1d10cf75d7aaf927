// Asks the bucket service as an app's own binding does. No app's process is started for it.
import { type IncomingMessage, request } from 'node:http';
import type { Readable } from 'node:stream';
import type { UsageRow } from '../../../sqlite/storage/objects.ts';
import { readAtMost } from '../../machine/read-at-most.ts';
import { R2Error } from './errors.ts';
import { BUCKET_HEADER, ERROR_HEADER, METADATA_SIZE_HEADER, REQUEST_HEADER } from './headers.ts';

/** Longest time without a byte, in ms. */
const SILENCE_MS = 20_000;
const ANSWER_BYTES = 16 * 2 ** 20;

/** An object as the service describes it. */
export interface DescribedObject {
  name: string;
  size: number;
  etag: string;
  /** In ms since 1970. */
  uploaded: number;
  httpFields: { contentType?: string; contentDisposition?: string };
  customFields: { k: string; v: string }[];
}

/** A bucket of an app, at the app's socket. */
export class BucketClient {
  readonly #socket: string;
  readonly #bucket: string;

  constructor(socket: string, bucket: string) {
    this.#socket = socket;
    this.#bucket = bucket;
  }

  /** @throws {R2Error} */
  async head(key: string): Promise<DescribedObject> {
    return (await this.#get({ method: 'head', object: key })) as DescribedObject;
  }

  /** @throws {R2Error} */
  async list(options: { prefix?: string; cursor?: string; delimiter?: string; limit: number }): Promise<{
    objects: DescribedObject[];
    delimitedPrefixes: string[];
    cursor?: string;
  }> {
    return (await this.#get({ method: 'list', ...options })) as {
      objects: DescribedObject[];
      delimitedPrefixes: string[];
      cursor?: string;
    };
  }

  /**
   * A part of an object's bytes, of the version that has this etag. Whoever gets the stream reads or destroys it.
   * @throws {R2Error}
   */
  async bytes(key: string, etag: string, part: { offset: number; length: number }): Promise<Readable> {
    const asked = {
      method: 'get',
      object: key,
      onlyIf: { etagMatches: [{ type: 'strong', value: etag }] },
      ...(part.length > 0 && { range: part }),
    };
    const response = await this.#send('GET', header(asked));
    const size = Number(response.headers[METADATA_SIZE_HEADER]);
    for (let left = size; left > 0; ) {
      const chunk = (response.read(Math.min(left, response.readableLength)) as Buffer | null) ?? null;
      if (chunk !== null && chunk.length > 0) left -= chunk.length;
      else await new Promise((resolve) => response.once('readable', resolve));
    }
    return response;
  }

  /** @throws {R2Error} */
  async delete(key: string): Promise<void> {
    await this.#put({ method: 'delete', object: key }, Buffer.alloc(0));
  }

  /** @throws {R2Error} */
  async put(
    key: string,
    bytes: Buffer,
    described: Pick<DescribedObject, 'httpFields' | 'customFields'>,
  ): Promise<DescribedObject> {
    return JSON.parse(
      await this.#put({ method: 'put', object: key, ...described }, bytes),
    ) as DescribedObject;
  }

  async #get(asked: object): Promise<unknown> {
    return JSON.parse(await whole(await this.#send('GET', header(asked))));
  }

  async #put(asked: object, bytes: Buffer): Promise<string> {
    const metadata = Buffer.from(JSON.stringify(asked), 'utf8');
    const body = Buffer.concat([metadata, bytes]);
    return whole(await this.#send('PUT', { [METADATA_SIZE_HEADER]: String(metadata.length) }, body));
  }

  #send(method: string, headers: Record<string, string>, body?: Buffer): Promise<IncomingMessage> {
    return send(this.#socket, method, { ...headers, [BUCKET_HEADER]: this.#bucket }, body);
  }
}

/** What each bucket of an app keeps that ever had an object; `bucket` is a storage id. */
export async function usageAt(socket: string): Promise<UsageRow[]> {
  return JSON.parse(await whole(await send(socket, 'GET', header({ method: 'usage' })))) as UsageRow[];
}

function header(asked: object): Record<string, string> {
  return { [REQUEST_HEADER]: Buffer.from(JSON.stringify(asked), 'utf8').toString('latin1') };
}

/** A read that the service's end cut is asked once more: the next process takes it. @throws {R2Error} */
function send(...asked: Parameters<typeof sendOnce>): Promise<IncomingMessage> {
  return sendOnce(...asked).catch((error: NodeJS.ErrnoException) => {
    if (asked[1] === 'GET' && error.code === 'ECONNRESET') return sendOnce(...asked);
    throw error;
  });
}

/** @throws {R2Error} */
function sendOnce(
  socketPath: string,
  method: string,
  headers: Record<string, string>,
  body?: Buffer,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const length = { 'content-length': String(body?.length ?? 0) };
    const asked = request({
      socketPath,
      method,
      path: '/',
      agent: false,
      headers: { ...headers, ...length },
    });
    asked.setTimeout(SILENCE_MS, () => asked.destroy(new Error('the bucket service does not answer')));
    asked.on('error', reject);
    asked.on('response', (response) => {
      const error = response.headers[ERROR_HEADER];
      if (response.statusCode === 200) return resolve(response);
      response.resume();
      const { message = 'no reason given', v4code = 0 } = typeof error === 'string' ? JSON.parse(error) : {};
      reject(new R2Error(response.statusCode!, v4code, Buffer.from(message, 'latin1').toString('utf8')));
    });
    asked.end(body);
  });
}

async function whole(response: IncomingMessage): Promise<string> {
  const bytes = await readAtMost(response, ANSWER_BYTES);
  if (bytes === null) throw new Error('the bucket service answered too much');
  return bytes.toString('utf8');
}
