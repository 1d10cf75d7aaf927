// Sends one HTTP request to a process of the host, over a new connection to its unix socket.
import { request } from 'node:http';
import type { Readable } from 'node:stream';
import { readAtMost } from './read-at-most.ts';

/** A streamed request body of `size` bytes. Abort the request's signal when the source ends early. */
export interface StreamedBody {
  size: number;
  bytes: Readable;
}

export interface SocketRequest {
  /** Default `GET`. */
  method?: string;
  /** Default `/`. */
  path?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array | StreamedBody;
  /** Maximum bytes of the response's body. */
  limitBytes: number;
  signal: AbortSignal;
}

export interface SocketAnswer {
  status: number;
  /** The response's body; null if it was longer than `limitBytes`. */
  text: string | null;
}

/** Sends a request to `socketPath`. @throws {Error} without a complete response; the signal's reason once it has aborted */
export async function askSocket(socketPath: string, asked: SocketRequest): Promise<SocketAnswer> {
  const { status, bytes } = await askSocketForBytes(socketPath, asked);
  return { status, text: bytes?.toString('utf8') ?? null };
}

/** Like `askSocket`, but returns bytes: decoding as text would change a binary response. */
export function askSocketForBytes(
  socketPath: string,
  { method = 'GET', path = '/', headers = {}, body = '', limitBytes, signal }: SocketRequest,
): Promise<{ status: number; bytes: Buffer | null }> {
  return new Promise((resolve, reject) => {
    const streamed = typeof body === 'object' && 'size' in body ? body : null;
    const size = streamed?.size ?? Buffer.byteLength(body as string | Uint8Array);
    const length = { 'content-length': String(size) };
    const options = { socketPath, method, path, agent: false, signal };
    const asked = request({ ...options, headers: size === 0 ? headers : { ...headers, ...length } });
    asked.once('response', (response) => {
      readAtMost(response, limitBytes).then(
        (bytes) => resolve({ status: response.statusCode!, bytes }),
        reject,
      );
    });
    // `error` may fire again when the connection is closed.
    asked.on('error', (error) => {
      streamed?.bytes.unpipe(asked);
      reject(signal.aborted ? signal.reason : error);
    });
    if (streamed) streamed.bytes.pipe(asked);
    else asked.end(body);
  });
}
