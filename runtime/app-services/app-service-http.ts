// Serves HTTP at the socket of one app, for the services for apps.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { ReservedMemory } from './budget.ts';
import type { SocketHandle } from './listening-socket.ts';

/** Limits of an app's HTTP server. The fields of `ServerOptions` are in ms for timeouts, and in bytes for sizes. */
export interface HttpLimits
  extends Pick<
    ServerOptions,
    'maxHeaderSize' | 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout' | 'highWaterMark'
  > {
  /** Idle timeout of a connection, in ms. */
  silenceMs: number;
  /** Maximum connections of the app. Node accepts and closes those above it; they do not wait in the listen backlog. */
  connections: number;
}

/** The running HTTP server of one app. */
export interface HttpAnswerer {
  /** Ends the server and all requests. */
  close(): Promise<void>;
}

/**
 * Serves HTTP at the socket of one app. Resolves when it listens.
 * @param upgrade handles requests to upgrade, such as to a WebSocket, and closes their connections. Default: `answer` gets
 *   them
 */
export async function answerHttp(
  listener: SocketHandle,
  { silenceMs, connections, ...limits }: HttpLimits,
  answer: RequestListener,
  upgrade?: (request: IncomingMessage, client: Duplex, head: Buffer) => void,
): Promise<HttpAnswerer> {
  const server = createServer(limits, answer);
  if (upgrade !== undefined)
    server.on('upgrade', (request: IncomingMessage, client: Socket, head: Buffer) => {
      client.setTimeout(0);
      upgrade(request, client, head);
    });
  server.timeout = silenceMs;
  server.maxConnections = connections;
  // The second argument is the size of the listen backlog. Connecting to a Unix socket with a full backlog fails at once.
  server.listen({ fd: listener.fd }, connections);
  await once(server, 'listening');
  return {
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface BodyLimits {
  bytes: number;
  tooLarge: () => Error;
  held: ReservedMemory;
}

/** Returns a whole body as text. For the limits and errors see `bytesOf`. */
export async function bodyOf(request: IncomingMessage, limits: BodyLimits): Promise<string> {
  return (await bytesOf(request, limits)).toString('utf8');
}

/**
 * Returns a whole body. Always reads it to its end, but buffers only as much as is allowed.
 * @throws {Error} `tooLarge()` for more than `bytes`; the budget's refusal when `held` cannot take the body
 */
export async function bytesOf(
  request: IncomingMessage,
  { bytes: most, tooLarge, held }: BodyLimits,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= most && held.take(chunk.length)) chunks.push(chunk);
    else chunks.length = 0;
  });
  await finished(request, { writable: false });
  if (bytes > most) throw tooLarge();
  held.check();
  return Buffer.concat(chunks);
}
