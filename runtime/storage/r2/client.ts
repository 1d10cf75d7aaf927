// Calls the bucket service as an app's own binding does, without starting the app's process.
import { type IncomingMessage, request } from 'node:http';
import type { Readable } from 'node:stream';
import type { UsageRow } from '../../../sqlite/storage/objects.ts';
import { Refusal } from '../../refusal.ts';
import { readAtMost } from '../../sockets/read-at-most.ts';
import { badUpload, noSuchUpload, type R2Error } from './errors.ts';
import { BUCKET_HEADER, ERROR_HEADER, METADATA_SIZE_HEADER, REQUEST_HEADER } from './headers.ts';

/** Idle timeout of a request that streams no body, in ms. */
const SILENCE_MS = 20_000;
/** Idle timeout of a request that streams a client's body, in ms. The service's own timeout is 10 s longer. */
const BODY_SILENCE_MS = 50_000;
const ANSWER_BYTES = 16 * 2 ** 20;
const UNEQUAL_PARTS = 'all parts but the last have the same size, and the last has no more';

/** The service's description of an object. */
export interface DescribedObject {
  name: string;
  size: number;
  etag: string;
  /** In ms since 1970. */
  uploaded: number;
  httpFields: {
    contentType?: string | undefined;
    contentLanguage?: string | undefined;
    contentDisposition?: string | undefined;
    contentEncoding?: string | undefined;
    cacheControl?: string | undefined;
    /** In ms since 1970. */
    cacheExpiry?: number | undefined;
  };
  customFields: { k: string; v: string }[];
}

type Described = Pick<DescribedObject, 'httpFields' | 'customFields'>;

/** The bytes of an object or a part, and their number. */
export interface Body {
  size: number;
  bytes: Readable;
}

interface Sent {
  metadata: Buffer;
  body: Body | null;
  /** Whether the request completes or aborts an upload. R2 then reports a missing upload as an internal error. */
  endsUpload: boolean;
}

/**
 * Client of one bucket, through the app's socket. Methods throw a `Refusal` when the service refuses a request, and an
 * `Error` when it does not answer.
 */
export class BucketClient {
  readonly #socket: string;
  readonly #bucket: string;

  constructor(socket: string, bucket: string) {
    this.#socket = socket;
    this.#bucket = bucket;
  }

  async head(key: string): Promise<DescribedObject> {
    return (await this.#get({ method: 'head', object: key })) as DescribedObject;
  }

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
   * Returns a range of an object's bytes, if the object still has this etag. The caller must read or destroy the stream.
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
      else if (response.destroyed || response.readableEnded)
        throw new Error('the bucket service ended in the middle of its answer');
      else await new Promise<void>((resolve) => response.once('readable', resolve).once('close', resolve));
    }
    return response;
  }

  async delete(key: string): Promise<void> {
    await this.#put({ method: 'delete', object: key });
  }

  async put(key: string, body: Body, described: Described): Promise<DescribedObject> {
    const asked = { method: 'put', object: key, ...described };
    return JSON.parse(await this.#put(asked, body)) as DescribedObject;
  }

  /** Creates a multipart upload. @returns the upload's id */
  async createUpload(key: string, described: Described): Promise<string> {
    const asked = { method: 'createMultipartUpload', object: key, ...described };
    return (JSON.parse(await this.#put(asked)) as { uploadId: string }).uploadId;
  }

  /** @returns the etag of the part */
  async uploadPart(key: string, uploadId: string, partNumber: number, body: Body): Promise<string> {
    const asked = { method: 'uploadPart', object: key, uploadId, partNumber };
    return (JSON.parse(await this.#put(asked, body)) as { etag: string }).etag;
  }

  async completeUpload(
    key: string,
    uploadId: string,
    parts: { part: number; etag: string }[],
  ): Promise<DescribedObject> {
    const asked = { method: 'completeMultipartUpload', object: key, uploadId, parts };
    return JSON.parse(await this.#put(asked)) as DescribedObject;
  }

  async abortUpload(key: string, uploadId: string): Promise<void> {
    await this.#put({ method: 'abortMultipartUpload', object: key, uploadId });
  }

  async #get(asked: object): Promise<unknown> {
    return JSON.parse(await whole(await this.#send('GET', header(asked))));
  }

  async #put(asked: { method: string; [field: string]: unknown }, body: Body | null = null): Promise<string> {
    const metadata = Buffer.from(JSON.stringify(asked), 'utf8');
    const headers = { [METADATA_SIZE_HEADER]: String(metadata.length) };
    const endsUpload = /^(complete|abort)MultipartUpload$/.test(asked.method);
    return whole(await this.#send('PUT', headers, { metadata, body, endsUpload }));
  }

  #send(method: string, headers: Record<string, string>, sent?: Sent): Promise<IncomingMessage> {
    return send(this.#socket, method, { ...headers, [BUCKET_HEADER]: this.#bucket }, sent);
  }
}

/** Returns the usage of an app's buckets; `bucket` is a storage id. A bucket without objects may be missing. */
export async function usageAt(socket: string): Promise<UsageRow[]> {
  return JSON.parse(await whole(await send(socket, 'GET', header({ method: 'usage' })))) as UsageRow[];
}

function header(asked: object): Record<string, string> {
  return { [REQUEST_HEADER]: Buffer.from(JSON.stringify(asked), 'utf8').toString('latin1') };
}

/** Sends a request as `sendOnce`. Retries a read once when the service's process has ended: the next process answers. */
function send(...asked: Parameters<typeof sendOnce>): Promise<IncomingMessage> {
  return sendOnce(...asked).catch((error: NodeJS.ErrnoException) => {
    if (asked[1] === 'GET' && error.code === 'ECONNRESET') return sendOnce(...asked);
    throw error;
  });
}

/** @throws {Refusal} when the service refuses the request; {Error} when it does not answer */
function sendOnce(
  socketPath: string,
  method: string,
  headers: Record<string, string>,
  sent?: Sent,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { metadata, body, endsUpload } = sent ?? { metadata: null, body: null, endsUpload: false };
    const length = (metadata?.length ?? 0) + (body?.size ?? 0);
    const asked = request({
      socketPath,
      method,
      path: '/',
      agent: false,
      // With the default `close`, the service would close the connection after its answer, and break off a running body.
      headers: { ...headers, connection: 'keep-alive', 'content-length': String(length) },
    });
    const isComing = () => body !== null && !body.bytes.readableEnded;
    asked.setTimeout(body === null ? SILENCE_MS : BODY_SILENCE_MS, () =>
      asked.destroy(
        isComing()
          ? new Refusal(408, 'request_timeout', 'the body did not arrive in time')
          : new Error('the bucket service does not answer'),
      ),
    );
    asked.on('error', reject);
    asked.on('response', (response) => {
      const error = response.headers[ERROR_HEADER];
      if (response.statusCode === 200) return resolve(response);
      response.resume();
      const { message = 'no reason given', v4code = 0 } = typeof error === 'string' ? JSON.parse(error) : {};
      const text = Buffer.from(message, 'latin1').toString('utf8');
      reject(refusalOf({ status: response.statusCode!, code: v4code, message: text }, endsUpload));
    });
    if (metadata !== null) asked.write(metadata);
    if (body === null) {
      asked.end();
      return;
    }
    const breakOff = () => {
      if (isComing()) asked.destroy(new Refusal(400, 'bad_request', 'the body was broken off'));
    };
    // A stream that was already destroyed emits no more events.
    if (body.bytes.destroyed) breakOff();
    else body.bytes.once('error', breakOff).once('close', breakOff).pipe(asked);
  });
}

async function whole(response: IncomingMessage): Promise<string> {
  const bytes = await readAtMost(response, ANSWER_BYTES);
  if (bytes === null) throw new Error('the answer of the bucket service is too large');
  return bytes.toString('utf8');
}

/** Translates an error of the service to a refusal for the control plane. */
function refusalOf(
  { status, code, message: sentence }: Pick<R2Error, 'status' | 'code' | 'message'>,
  endsUpload: boolean,
): Refusal {
  // The host's refusals have no full stop.
  const message = sentence.replace(/\.$/, '');
  if (status === 404) return new Refusal(404, 'storage_not_found', 'the bucket has no such object');
  if (status === 412) return new Refusal(409, 'transition_conflict', 'the object was changed meanwhile');
  if (status === 503) return new Refusal(507, 'insufficient_storage', message);
  if (status === 504) return new Refusal(503, 'host_unavailable', message);
  if (code === 100100) return new Refusal(403, 'quota_exceeded', message);
  if (code === noSuchUpload().code) return new Refusal(404, 'storage_not_found', 'there is no such upload');
  if (status < 500) return new Refusal(400, 'invalid_input', message);
  if (code === badUpload().code) return new Refusal(400, 'invalid_input', UNEQUAL_PARTS);
  if (endsUpload)
    return new Refusal(404, 'storage_not_found', 'there is no such upload, or it could not be ended');
  return new Refusal(500, 'internal_error', message);
}
