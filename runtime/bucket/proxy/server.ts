// The server of the proxy. Gives each app access only to the names in its own folder of the bucket.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Dispatcher } from 'undici';
import { storeFailure } from '../client.ts';
import type { Setup } from './messages.ts';
import { errorXml, Refused } from './refused.ts';
import type { Reports } from './reports.ts';
import { Store } from './store.ts';
import { type Operation, operationOf, readTarget, type Target } from './target.ts';
import { type Sender, verify } from './verify.ts';
import { Watch } from './watch.ts';

/** Maximum concurrent requests for the data of one app, and for its R2 objects. */
const OF_APP = { data: 64, r2: 128 };
/** Maximum concurrent requests of all apps. R2 gets fewer, so that processes can renew their leases: otherwise they end. */
const OF_ALL = { data: 512, r2: 320 };
const ALL = 512;
const HEAD_BYTES = 16 * 1024;
/** Timeout of a request's head, in ms. */
const HEAD_MS = 10_000;
/** Timeout of an idle connection, in ms. */
const IDLE_MS = 60_000;
/** Timeout of a whole request, in ms. */
const REQUEST_MS = 60 * 60_000;
/** How often Node's server checks these timeouts, in ms. */
const CHECK_MS = 1_000;
/** Longest body of a refused request that is still read, in bytes. After a longer one, the connection is closed. */
const SKIPPED_BYTES = 64 * 1024;
/** An error of the store is read until it has more bytes than this. */
const ERROR_BYTES = 64 * 1024;

/** Headers of an app's request that are passed to the store, besides those that begin with `META`. */
const PASSED = ['content-length', 'content-md5', 'content-type', 'if-match', 'if-none-match', 'range'];
/** The `x-amz-` headers that a request may have, besides those that begin with `META`. */
const OWN = ['x-amz-content-sha256', 'x-amz-date'];
const META = 'x-amz-meta-';
const ANSWERED = [
  'accept-ranges',
  'content-length',
  'content-range',
  'content-type',
  'date',
  'etag',
  'last-modified',
  'retry-after',
];

type Answer = Dispatcher.ResponseData;

export class ProxyServer {
  readonly server: Server;
  readonly #setup: Setup;
  readonly #reports: Reports;
  readonly #store: Store;
  /** Number of running requests, by `<app id>/<folder>`. */
  readonly #running = new Map<string, number>();
  /** Number of running requests of all apps, by folder. */
  readonly #sum = { data: 0, r2: 0 };

  constructor(setup: Setup, reports: Reports) {
    this.#setup = setup;
    this.#reports = reports;
    this.#store = new Store(setup.place, ALL);
    this.server = createServer(
      {
        maxHeaderSize: HEAD_BYTES,
        headersTimeout: HEAD_MS,
        keepAliveTimeout: IDLE_MS,
        requestTimeout: REQUEST_MS,
        connectionsCheckingInterval: CHECK_MS,
      },
      (request, response) => void this.#answer(request, response),
    );
  }

  /** Never rejects. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const watch = new Watch();
    request.on('error', () => {});
    response.on('error', () => {});
    response.on('close', () => {
      if (!response.writableFinished) watch.abort('the client has left');
    });
    try {
      await this.#serve(request, response, watch);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else if (error instanceof Refused) refuse(request, response, error);
      else refuse(request, response, new Refused('SlowDown', 'the store of the bucket does not answer'));
    } finally {
      watch.finish();
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse, watch: Watch): Promise<void> {
    const { place, clusterKey } = this.#setup;
    const headers = headersOf(request);
    const target = readTarget(request.url!);
    const method = request.method!;
    const sender = verify({ method, ...target, headers }, clusterKey, Date.now());
    requireKnown(headers);
    const operation = operationOf(method, target, place, sender);
    requireBody(headers, method, operation);
    const leave = this.#enter(sender);
    try {
      const answer = await this.#send(request, { sender, target, operation, headers, watch });
      if (isError(answer.statusCode)) await this.#fail(answer, response, method, watch);
      else {
        this.#reports.storeIsAway(null);
        await this.#pass(answer, response, sender.appId, watch);
      }
    } finally {
      leave();
    }
  }

  /** Counts a request as running. @returns a function to call at its end @throws {Refused} when too many run */
  #enter({ appId, opens }: Sender): () => void {
    const key = `${appId}/${opens}`;
    const own = this.#running.get(key) ?? 0;
    const sum = this.#sum;
    if (own >= OF_APP[opens] || sum[opens] >= OF_ALL[opens] || sum.data + sum.r2 >= ALL)
      throw new Refused(
        'SlowDown',
        `at most ${OF_APP[opens]} requests of an app run at a time, and ${OF_ALL[opens]} of all`,
      );
    this.#running.set(key, own + 1);
    sum[opens]++;
    return () => {
      const left = this.#running.get(key)! - 1;
      if (left === 0) this.#running.delete(key);
      else this.#running.set(key, left);
      sum[opens]--;
    };
  }

  /** Sends a request to the store. @throws {Error} when the store does not answer, or the client disconnects or pauses */
  async #send(request: IncomingMessage, verified: Verified): Promise<Answer> {
    const { sender, target, operation, headers, watch } = verified;
    const passed = [...headers].filter(([name]) => PASSED.includes(name) || name.startsWith(META));
    const hasBody = operation.mostBytes > 0;
    if (!hasBody) watch.awaitsHead();
    this.#reports.count(sender.appId, operation.counts);
    try {
      return await this.#store.send(
        {
          method: request.method!,
          path: operation.path,
          query: target.query,
          headers: Object.fromEntries(passed.filter(([name]) => hasBody || name !== 'content-length')),
          bodyHash: sender.bodyHash,
          body: hasBody ? Readable.from(this.#bodyOf(request, sender.appId, watch)) : null,
        },
        watch.signal,
      );
    } catch (error) {
      // Not reported when the client has disconnected, or paused in the request's body: the store has not failed.
      if (!watch.signal.aborted || watch.isStoreLate) this.#reports.storeIsAway(storeFailure(error));
      throw error;
    }
  }

  async *#bodyOf(request: IncomingMessage, appId: string, watch: Watch): AsyncGenerator<Buffer> {
    watch.moves();
    for await (const chunk of request as AsyncIterable<Buffer>) {
      this.#reports.count(appId, 'bytesIn', chunk.length);
      yield chunk;
      watch.moves();
    }
    watch.awaitsHead();
  }

  async #pass(answer: Answer, response: ServerResponse, appId: string, watch: Watch): Promise<void> {
    const passed = Object.entries(answer.headers).filter(
      ([name]) => ANSWERED.includes(name) || name.startsWith(META),
    );
    response.writeHead(answer.statusCode, Object.fromEntries(passed));
    watch.awaitsStore();
    const reports = this.#reports;
    await pipeline(
      answer.body,
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          reports.count(appId, 'bytesOut', chunk.length);
          watch.moves();
          yield chunk;
          watch.awaitsStore();
        }
      },
      response,
      { signal: watch.signal },
    );
  }

  /** Sends an error with a message of the proxy: the store's message may contain the real access key. */
  async #fail(answer: Answer, response: ServerResponse, method: string, watch: Watch): Promise<void> {
    const { statusCode: status } = answer;
    watch.awaitsStore();
    const code = /<Code>(\w{1,64})<\/Code>/.exec(await startOf(answer))?.[1] ?? `Status${status}`;
    // 401 and 403 refuse the host's keys, not the app's.
    const isAway = status >= 500 || status === 401 || status === 403 || status < 400;
    this.#reports.storeIsAway(isAway ? `the store answered ${status} ${code}` : null);
    if (isAway) throw new Refused('SlowDown', 'the store of the bucket does not serve requests now');
    const { date } = answer.headers;
    if (typeof date === 'string') response.setHeader('date', date);
    sendError(response, method, status, code, `the store answered ${status}`);
  }
}

interface Verified {
  sender: Sender;
  target: Target;
  operation: Operation;
  headers: ReadonlyMap<string, string>;
  watch: Watch;
}

/** @throws {Refused} when a header occurs twice, because servers differ in which value they use */
function headersOf(request: IncomingMessage): Map<string, string> {
  const headers = new Map<string, string>();
  const { rawHeaders } = request;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!.toLowerCase();
    if (headers.has(name)) throw new Refused('InvalidRequest', `the header ${name} occurs twice`);
    headers.set(name, rawHeaders[at + 1]!);
  }
  return headers;
}

/** @throws {Refused} for an unknown `x-amz-` header, which could change what the store does */
function requireKnown(headers: ReadonlyMap<string, string>): void {
  for (const name of headers.keys())
    if (name.startsWith('x-amz-') && !OWN.includes(name) && !name.startsWith(META))
      throw new Refused('AccessDenied', `the header ${name} is not served`);
}

/** @throws {Refused} unless the length of the body is known and allowed */
function requireBody(headers: ReadonlyMap<string, string>, method: string, { mostBytes }: Operation): void {
  if (headers.has('transfer-encoding'))
    throw new Refused('MissingContentLength', 'a body needs the header content-length');
  const length = headers.get('content-length');
  if (length === undefined && mostBytes > 0)
    throw new Refused('MissingContentLength', `${method} needs the header content-length`);
  if (Number(length ?? 0) > mostBytes)
    throw new Refused('EntityTooLarge', `the body of this request may have at most ${mostBytes} bytes`);
}

function isError(status: number): boolean {
  return status >= 300 && status !== 304;
}

/** Returns the start of an answer's body, without reading the rest. */
async function startOf({ body }: Answer): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > ERROR_BYTES) break;
  }
  return Buffer.concat(chunks).toString('utf8');
}

function refuse(request: IncomingMessage, response: ServerResponse, refused: Refused): void {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers;
  const isLong = encoding !== undefined || Number(length) > SKIPPED_BYTES;
  if (isLong && !request.complete) response.setHeader('connection', 'close');
  sendError(response, request.method!, refused.status, refused.code, refused.message);
}

function sendError(
  response: ServerResponse,
  method: string,
  status: number,
  code: string,
  message: string,
): void {
  const text = errorXml(code, message);
  response.writeHead(status, {
    'content-type': 'application/xml',
    'content-length': Buffer.byteLength(text),
  });
  response.end(method === 'HEAD' ? undefined : text);
}
