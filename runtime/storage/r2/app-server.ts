// Answers the R2 bindings of one app, at the app's own socket.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerHttp, type HttpAnswerer } from '../../app-services/app-service-http.ts';
import type { SocketHandle } from '../../app-services/listening-socket.ts';
import type { Quota } from '../../disk/quota.ts';
import { log, reason } from '../../log.ts';
import { discard } from '../../sockets/read-at-most.ts';
import { describeObject, describePage, sendError, sendJson } from './answers.ts';
import type { Body, Found, ObjectStore, OpenStores } from './bucket/object-store.ts';
import { ResponseWriter, splitBody } from './bytes/body.ts';
import { duringTransfer } from './bytes/transfers.ts';
import { internalError, invalidRequest, R2Error, unavailable } from './errors.ts';
import { Gate } from './gate.ts';
import { BUCKET_HEADER, METADATA_SIZE_HEADER, REQUEST_HEADER } from './headers.ts';
import type { ServiceOptions } from './messages.ts';
import { parseRequest, type R2Request, type RequestOf } from './requests.ts';

/** Idle timeout of a connection, in ms. workerd closes an unused connection after 5 s. */
const SILENCE_MS = 60_000;
/** Time limit for a whole request to arrive, in ms. */
const REQUEST_MS = 6 * 60 * 60_000;
/** Maximum bytes of a request's head. It has JSON with keys of up to 1,024 bytes, each up to six times as long in JSON. */
const HEADER_BYTES = 256 * 1024;
const METADATA_BYTES = 4 * 2 ** 20;
/** Maximum number of an app's connections. */
const CONNECTIONS = 2_000;
/** Maximum concurrent request bodies of an app. It is high, because slow clients may send many of them. */
const WRITES = 128;
/**
 * Maximum concurrent requests of an app that may take some milliseconds of CPU time. Further ones wait, so that other
 * apps get turns.
 */
const LONG = 2;
const BUCKET = /^[0-9a-z]{1,64}$/;

export class AppServer {
  readonly #stores: OpenStores;
  readonly #room: Quota;
  readonly #writes = new Gate(WRITES);
  readonly #long = new Gate(LONG);

  private constructor(stores: OpenStores, room: Quota) {
    this.#stores = stores;
    this.#room = room;
  }

  /** Listens at a socket that only the app can reach. */
  static async listen(
    listener: SocketHandle,
    stores: OpenStores,
    room: Quota,
    { silenceMs = SILENCE_MS }: Pick<ServiceOptions, 'silenceMs'> = {},
  ): Promise<HttpAnswerer> {
    const server = new AppServer(stores, room);
    const limits = {
      maxHeaderSize: HEADER_BYTES,
      headersTimeout: silenceMs,
      requestTimeout: REQUEST_MS,
      keepAliveTimeout: silenceMs,
      highWaterMark: HEADER_BYTES,
      silenceMs,
      connections: CONNECTIONS,
    };
    const answerer = await answerHttp(
      listener,
      limits,
      (request, response) => void server.#answer(request, response),
    );
    return {
      close: async () => {
        await answerer.close();
        await stores.close();
      },
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let metadata: string | null = null;
    try {
      await this.#stores.during((store) =>
        request.method === 'PUT'
          ? this.#write(store, request, response)
          : read(store, request, response, this.#long, (object) => {
              metadata = object;
            }),
      );
    } catch (error) {
      const refusal = error instanceof R2Error ? error : failure(error);
      await discard(request);
      sendError(response, refusal, metadata);
    }
  }

  async #write(store: ObjectStore, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const bucket = bucketOf(request);
    const metadataSize = Number(request.headers[METADATA_SIZE_HEADER]);
    const size = Number(request.headers['content-length']) - metadataSize;
    if (!(metadataSize <= METADATA_BYTES && size >= 0)) throw invalidRequest();
    const body = await splitBody(request, metadataSize);
    if (body === null) throw invalidRequest();
    try {
      await this.#carryOut(store, bucket, body.metadata, { size, bytes: body.rest }, response);
    } catch (error) {
      await body.leave();
      throw error;
    }
  }

  async #carryOut(
    store: ObjectStore,
    bucket: string,
    metadata: Buffer,
    body: Body,
    response: ServerResponse,
  ): Promise<void> {
    const asked = parseRequest(metadata.toString('utf8'));
    switch (asked.method) {
      case 'put': {
        const object = await this.#bounded(store, body, () => store.put(bucket, asked, body));
        return sendJson(response, describeObject(object));
      }
      case 'uploadPart': {
        const etag = await this.#bounded(store, body, () => store.uploadPart(bucket, asked, body));
        return sendJson(response, JSON.stringify({ etag }));
      }
      case 'createMultipartUpload':
        return sendJson(response, JSON.stringify({ uploadId: await store.createUpload(bucket, asked) }));
      case 'completeMultipartUpload': {
        const object = await this.#long.during(() => store.completeUpload(bucket, asked));
        return sendJson(response, describeObject(object));
      }
      case 'abortMultipartUpload':
        await store.abortUpload(bucket, asked);
        return sendJson(response, '');
      case 'delete':
        await this.#long.during(() => store.delete(bucket, asked));
        return sendJson(response, '');
      default:
        throw invalidRequest();
    }
  }

  /** Calls `write` when its turn comes, if the body is within the quota. */
  #bounded<T>(store: ObjectStore, { size }: Body, write: () => Promise<T>): Promise<T> {
    return this.#writes.during(() => this.#room.during(size, () => store.keptBytes(), write));
  }
}

async function read(
  store: ObjectStore,
  request: IncomingMessage,
  response: ServerResponse,
  long: Gate,
  onUnmet: (metadata: string) => void,
): Promise<void> {
  const header = request.headers[REQUEST_HEADER];
  if (request.method !== 'GET' || typeof header !== 'string') throw invalidRequest();
  // Node decodes headers as latin1, but workerd writes UTF-8.
  const asked: R2Request = parseRequest(Buffer.from(header, 'latin1').toString('utf8'));
  if (asked.method === 'usage') return sendJson(response, JSON.stringify(await store.usage()));
  const bucket = bucketOf(request);
  switch (asked.method) {
    case 'head': {
      const object = await store.head(bucket, asked);
      return sendJson(response, describeObject(object, { offset: 0, length: object.size }));
    }
    case 'list':
      return long.during(async () => sendJson(response, describePage(await store.list(bucket, asked))));
    case 'get':
      return sendObject(store, bucket, asked, response, onUnmet);
    default:
      throw invalidRequest();
  }
}

async function sendObject(
  store: ObjectStore,
  bucket: string,
  asked: RequestOf<'get'>,
  response: ServerResponse,
  onUnmet: (metadata: string) => void,
): Promise<void> {
  const found = await store.get(bucket, asked, (object) =>
    onUnmet(describeObject(object, { offset: 0, length: object.size })),
  );
  try {
    await sendBytes(found, response);
  } finally {
    found.release();
  }
}

async function sendBytes({ object, part, open }: Found, response: ServerResponse): Promise<void> {
  const content = await open();
  const metadata = Buffer.from(describeObject(object, part), 'utf8');
  response.writeHead(200, {
    [METADATA_SIZE_HEADER]: metadata.length,
    'content-length': metadata.length + part.length,
  });
  if (Buffer.isBuffer(content)) {
    response.end(Buffer.concat([metadata, content]));
    return;
  }
  response.write(metadata);
  await duringTransfer(async (pieceBytes) => {
    const writer = new ResponseWriter(response, pieceBytes);
    await content(writer);
    await writer.end();
  });
}

/** @throws {R2Error} when the request names no bucket */
function bucketOf({ headers }: IncomingMessage): string {
  const bucket = headers[BUCKET_HEADER];
  if (typeof bucket !== 'string' || !BUCKET.test(bucket)) throw invalidRequest();
  return bucket;
}

function failure(error: unknown): R2Error {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'SQLITE_FULL')
    return unavailable('The disk of this machine is full, so the object could not be written.');
  // ECONNRESET: the client has disconnected. That is no failure of the bucket, so it is not logged.
  if (code !== 'ECONNRESET') log('error', 'a bucket operation failed', { error: reason(error) });
  return internalError();
}
