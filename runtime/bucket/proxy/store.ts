// The store behind the proxy: signs requests with the real keys and sends them.
import type { Readable } from 'node:stream';
import { type Dispatcher, Pool } from 'undici';
import type { S3Place } from '../place.ts';
import { authorizationOf, encodePath, encodeQuery, type Signed, signatureDate } from './signature.ts';

/** Longest wait for a connection, in ms. */
const CONNECT_MS = 5_000;

export interface StoreRequest {
  method: string;
  path: string;
  query: ReadonlyMap<string, string>;
  /** Headers to pass on, in lower case. */
  headers: Record<string, string>;
  bodyHash: string;
  /** Null for a request without a body. */
  body: Readable | Buffer | null;
}

export class Store {
  readonly #place: S3Place;
  readonly #host: string;
  readonly #basePath: string;
  readonly #pool: Pool;

  /** @param connections maximum of concurrent connections */
  constructor(place: S3Place, connections: number) {
    const { origin, host, pathname } = new URL(place.endpoint);
    this.#place = place;
    this.#host = host;
    this.#basePath = pathname.replace(/\/$/, '');
    this.#pool = new Pool(origin, {
      connections,
      allowH2: false,
      connect: { timeout: CONNECT_MS },
      // The caller limits the time of each request, through `signal`.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /** Ends all requests. */
  close(): Promise<void> {
    return this.#pool.destroy();
  }

  /** Sends a request. Does not follow redirects. The body of the answer must be read or destroyed. */
  send(request: StoreRequest, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const { method, headers, bodyHash, body } = request;
    const { region } = this.#place;
    const path = this.#basePath + encodePath(request.path);
    const query = encodeQuery(request.query);
    const date = signatureDate(new Date());
    const all = { ...headers, host: this.#host, 'x-amz-content-sha256': bodyHash, 'x-amz-date': date };
    // Proxies on the way may change the length and the type, so the signature does not cover them.
    const covered = Object.entries(all).filter(([name]) => !/^content-(length|type)$/.test(name));
    const signed: Signed = { method, path, query, headers: covered.sort(), bodyHash, date, region };
    return this.#pool.request({
      method,
      path: query === '' ? path : `${path}?${query}`,
      headers: { ...all, authorization: authorizationOf(signed, this.#place) },
      body,
      signal,
    });
  }
}
