// A store that speaks S3 and keeps its objects in memory, with faults on request. It checks no signature.
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { S3Place } from '../../../runtime/bucket/place.ts';

/** Faults that a test switches on. */
export interface Faults {
  /** Ignores `if-match` and `if-none-match` of writes. */
  ignoresConditions?: boolean;
  /** Answers a range with the whole object. */
  ignoresRanges?: boolean;
  /** Lists have no objects. */
  listsNothing?: boolean;
  /** Answers every request with 503. */
  isBusy?: boolean;
  /** Answers no request, or none for which the function returns true. */
  hangs?: boolean | ((asked: Asked) => boolean);
  /** Carries requests out once this resolves, even those whose client has left. */
  holds?: Promise<void>;
  /** Carries out writes whose name ends with this text, and does not answer them. */
  hangsAfter?: string;
  /** Resets connections. */
  cuts?: boolean;
  /** Carries writes out, and resets the connection instead of an answer. */
  losesReplies?: boolean;
  /** Resets the connection in the middle of each object's body: a write is not carried out, a read is incomplete. */
  halves?: boolean;
  /** Sends the first half of each object, and then nothing. */
  stalls?: boolean;
  /** Answers 429 to a write within a second of the last one of that name, as R2 does. */
  refusesQuickWrites?: boolean;
  /** How far the `date` header of its answers is ahead of the time. */
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
  /** Writes that `hangsAfter` has left without an answer. */
  hanging = 0;
  /** Returns whether a write of a name is answered with 403. */
  refuses: (key: string) => boolean = () => false;
  readonly #server = createServer((request, response) => {
    // A client that leaves in the middle of a body has written nothing.
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

  /** Returns the store's place. Any keys do, because the store checks no signature. */
  place(prefix = ''): S3Place {
    const keys = { accessKey: 'a', secretKey: 's' };
    return { endpoint: this.endpoint, region: 'auto', bucket: 'b', prefix, ...keys };
  }

  /** Resets all connections, also new ones, as when the network fails. Replaces the other faults. */
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

/** Whether a name is before another, in the order of UTF-8. Lists of many names compare often. */
function isBefore(name: string, other: string): boolean {
  if (!LATE.test(name) && !LATE.test(other)) return name < other;
  return Buffer.compare(Buffer.from(name), Buffer.from(other)) < 0;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
