// A store that speaks S3 and keeps its objects in memory, with faults on request. It checks no signature.
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { S3Place } from '../../../runtime/bucket/place.ts';

/** Faults that a test switches on. */
export interface Faults {
  /** Ignores the headers `if-match` and `if-none-match` of writes. */
  ignoresConditions?: boolean;
  /** Ignores the header `range`: answers with the whole object. */
  ignoresRanges?: boolean;
  /** Answers each list request with an empty list. */
  listsNothing?: boolean;
  /** Answers every request with 503. */
  isBusy?: boolean;
  /** True: leaves all requests without an answer. A function: leaves the requests for which it returns true. */
  hangs?: boolean | ((asked: Asked) => boolean);
  /** Delays all requests until this resolves. Then runs also requests whose client has disconnected. */
  holds?: Promise<void>;
  /** Stores an object whose name ends with this text, but does not answer the write. */
  hangsAfter?: string;
  /** Resets each new connection. */
  cuts?: boolean;
  /** Stores each written object, but resets the connection instead of answering. */
  losesReplies?: boolean;
  /** Resets the connection in the middle of each object's body. A write then stores nothing, and a read is incomplete. */
  halves?: boolean;
  /** Sends the first half of each object, and then nothing. */
  stalls?: boolean;
  /** Answers 429 if the object was written less than a second ago, as R2 does. */
  refusesQuickWrites?: boolean;
  /** Added to the time in the `date` header of answers, in ms. */
  clockMs?: number;
  delayMs?: number;
}

interface Kept {
  body: Buffer;
  etag: string;
  at: string;
}

/** One request, as the store saw it. */
export interface Asked {
  method: string;
  key: string;
}

export class MemoryStore {
  readonly objects = new Map<string, Kept>();
  readonly asked: Asked[] = [];
  faults: Faults = {};
  /** Number of writes that got no answer because of `hangsAfter`. */
  hanging = 0;
  /** Returns whether the store answers a write of this name with 403. */
  refuses: (key: string) => boolean = () => false;
  readonly #server = createServer((request, response) => {
    // Rejects if the client disconnects in the middle of a body. Nothing is stored then.
    this.#answer(request, response).catch(() => response.destroy());
  });
  readonly #sockets = new Set<Socket>();

  async start(): Promise<this> {
    this.#server.on('connection', (socket) => {
      if (this.faults.cuts) return void socket.resetAndDestroy();
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Returns the store's place. Its keys are arbitrary, because the store does not check signatures. */
  place(prefix = ''): S3Place {
    const keys = { accessKey: 'a', secretKey: 's' };
    return { endpoint: this.endpoint, region: 'auto', bucket: 'b', prefix, ...keys };
  }

  /** Simulates a network failure: resets all open and new connections. Switches all other faults off. */
  cut(): void {
    this.faults = { cuts: true };
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { faults } = this;
    const url = new URL(request.url!, 'http://store');
    const key = decodeURIComponent(url.pathname).split('/').slice(2).join('/');
    const asked = { method: request.method!, key: key || (url.searchParams.get('prefix') ?? '') };
    this.asked.push(asked);
    if (faults.halves && request.method === 'PUT' && request.headers['content-length'] !== '0') {
      await once(request, 'data');
      request.socket.resetAndDestroy();
      return;
    }
    const body = await buffer(request);
    if (faults.delayMs) await new Promise((resolve) => setTimeout(resolve, faults.delayMs));
    await faults.holds;
    if (typeof faults.hangs === 'function' ? faults.hangs(asked) : faults.hangs) return;
    const date = new Date(Date.now() + (faults.clockMs ?? 0));
    response.setHeader('date', date.toUTCString());
    if (faults.isBusy) return this.#fail(response, 503, 'SlowDown');
    if (key === '' && request.method === 'GET') return this.#list(response, url.searchParams);
    if (key === '' && request.method === 'POST') {
      for (const [, name] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) this.objects.delete(name!);
      response.writeHead(200).end('<DeleteResult/>');
      return;
    }
    if (request.method === 'PUT') return this.#put(response, key, body, request.headers);
    if (request.method === 'DELETE') {
      this.objects.delete(key);
      response.writeHead(204).end();
      return;
    }
    this.#get(response, key, faults.ignoresRanges ? undefined : request.headers.range);
  }

  #put(response: ServerResponse, key: string, body: Buffer, headers: IncomingMessage['headers']): void {
    const found = this.objects.get(key);
    if (this.faults.refusesQuickWrites && found && Date.now() - Date.parse(found.at) < 1_000) {
      this.#fail(response, 429, 'TooManyRequests');
      return;
    }
    if (!this.faults.ignoresConditions) {
      const isStale = headers['if-match'] !== undefined && headers['if-match'] !== found?.etag;
      if (isStale || (headers['if-none-match'] === '*' && found)) {
        this.#fail(response, found ? 412 : 404, found ? 'PreconditionFailed' : 'NoSuchKey');
        return;
      }
    }
    if (this.refuses(key)) {
      this.#fail(response, 403, 'AccessDenied');
      return;
    }
    const etag = `"${hash('md5', body)}"`;
    this.objects.set(key, { body, etag, at: new Date().toISOString() });
    if (this.faults.hangsAfter && key.endsWith(this.faults.hangsAfter)) {
      this.hanging++;
      return;
    }
    if (this.faults.losesReplies) response.socket?.resetAndDestroy();
    else response.writeHead(200, { etag }).end();
  }

  #get(response: ServerResponse, key: string, range: string | undefined): void {
    const found = this.objects.get(key);
    if (!found) {
      this.#fail(response, 404, 'NoSuchKey');
      return;
    }
    const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
    const { body, etag, at } = found;
    const headers = { etag, 'last-modified': new Date(at).toUTCString() };
    if (from === '' && to === '') {
      response.writeHead(200, { ...headers, 'content-length': body.length });
      if (response.req.method === 'HEAD') response.end();
      else this.#send(response, body);
      return;
    }
    const first = from === '' ? Math.max(0, body.length - Number(to)) : Number(from);
    const last = from === '' || to === '' ? body.length - 1 : Math.min(Number(to), body.length - 1);
    const part = body.subarray(first, last + 1);
    const contentRange = `bytes ${first}-${last}/${body.length}`;
    response.writeHead(206, { ...headers, 'content-range': contentRange, 'content-length': part.length });
    this.#send(response, part);
  }

  #send(response: ServerResponse, body: Buffer): void {
    const { halves, stalls } = this.faults;
    if (!(halves || stalls)) return void response.end(body);
    response.write(body.subarray(0, body.length / 2), () => {
      if (halves) response.socket?.resetAndDestroy();
    });
  }

  #list(response: ServerResponse, query: URLSearchParams): void {
    const prefix = query.get('prefix') ?? '';
    const delimiter = query.get('delimiter');
    const after = query.get('continuation-token') ?? query.get('start-after') ?? '';
    const most = Number(query.get('max-keys') ?? 1_000);
    const names = [...this.objects.keys()]
      .filter((name) => name.startsWith(prefix) && isBefore(after, name))
      .sort((a, b) => (isBefore(a, b) ? -1 : 1));
    const contents: string[] = [];
    const folders = new Set<string>();
    let next = '';
    for (const name of this.faults.listsNothing ? [] : names) {
      if (contents.length + folders.size >= most) break;
      next = name;
      const end = delimiter === null ? -1 : name.indexOf(delimiter, prefix.length);
      if (end >= 0) folders.add(name.slice(0, end + 1));
      else contents.push(name);
    }
    const isCut = next !== '' && names.some((name) => isBefore(next, name));
    const entry = (name: string) => {
      const { at, etag, body } = this.objects.get(name)!;
      return `<Contents><Key>${escaped(name)}</Key><LastModified>${at}</LastModified><ETag>${escaped(etag)}</ETag><Size>${body.length}</Size></Contents>`;
    };
    response.writeHead(200, { 'content-type': 'application/xml' });
    response.end(
      `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Prefix>${escaped(prefix)}</Prefix><IsTruncated>${isCut}</IsTruncated>${
        isCut ? `<NextContinuationToken>${escaped(next)}</NextContinuationToken>` : ''
      }${contents.map(entry).join('')}${[...folders].map((folder) => `<CommonPrefixes><Prefix>${escaped(folder)}</Prefix></CommonPrefixes>`).join('')}</ListBucketResult>`,
    );
  }

  #fail(response: ServerResponse, status: number, code: string): void {
    response.writeHead(status, { 'content-type': 'application/xml' });
    response.end(
      response.req.method === 'HEAD'
        ? undefined
        : `<Error><Code>${code}</Code><Message>${code}</Message></Error>`,
    );
  }
}

/** Characters whose order in UTF-16 may differ from that in UTF-8. */
const LATE = /[\ud800-\uffff]/;

/** Whether a name is before another in UTF-8 order. Fast for ASCII, because a sort calls this function very often. */
function isBefore(name: string, other: string): boolean {
  if (!LATE.test(name) && !LATE.test(other)) return name < other;
  return Buffer.compare(Buffer.from(name), Buffer.from(other)) < 0;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
