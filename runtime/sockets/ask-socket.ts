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
export async function askSocket(socketPath: string, asked: SocketRequest): Promise<SocketAnswer> {
  const { status, bytes } = await askSocketForBytes(socketPath, asked);
  return { status, text: bytes?.toString('utf8') ?? null };
}

/** The same, for an answer that is passed on as it is. */
export function askSocketForBytes(
  socketPath: string,
  { method = 'GET', path = '/', headers = {}, body = '', limitBytes, signal }: SocketRequest,
): Promise<{ status: number; bytes: Buffer | null }> {
  return new Promise((resolve, reject) => {
    const length = { 'content-length': String(Buffer.byteLength(body)) };
    const options = { socketPath, method, path, agent: false, signal };
    const asked = request({ ...options, headers: body.length === 0 ? headers : { ...headers, ...length } });
    asked.once('response', (response) => {
      readAtMost(response, limitBytes).then(
        (bytes) => resolve({ status: response.statusCode!, bytes }),
        reject,
      );
    });
    // It may come again when the connection is ended.
    asked.on('error', reject);
    asked.end(body);
  });
}
