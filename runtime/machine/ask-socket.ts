// One HTTP request over a unix socket, on a connection of its own: how the host speaks with processes of its own making.
import { request } from 'node:http';
import { readAtMost } from './read-at-most.ts';

export interface SocketRequest {
  /** Default `GET`. */
  method?: string;
  /** Default `/`. */
  path?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Bytes of the answer that are taken. */
  limitBytes: number;
  signal: AbortSignal;
}

export interface SocketAnswer {
  status: number;
  /** `null`: it was longer than may be. */
  text: string | null;
}

/** Asks whoever listens at `socketPath`. @throws {Error} when there is no whole answer, and once the signal is aborted */
export function askSocket(
  socketPath: string,
  { method = 'GET', path = '/', headers = {}, body = '', limitBytes, signal }: SocketRequest,
): Promise<SocketAnswer> {
  return new Promise((resolve, reject) => {
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    const options = { socketPath, method, path, agent: false, signal };
    const asked = request({ ...options, headers: body.length === 0 ? headers : { ...headers, ...length } });
    asked.once('response', (response) => {
      readAtMost(response, limitBytes).then(
        (bytes) => resolve({ status: response.statusCode!, text: bytes?.toString('utf8') ?? null }),
        reject,
      );
    });
    // It may come again when the connection is ended.
    asked.on('error', reject);
    asked.end(body);
  });
}
