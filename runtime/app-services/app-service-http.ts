// HTTP at the socket of one app, for the programs of services for apps.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerOptions } from 'node:http';
import { finished } from 'node:stream/promises';
import type { Held } from './budget.ts';
import type { SocketHandle } from './listening-socket.ts';

/** What an app may have of a service. Of Node's own limits, times are in ms. */
export interface HttpLimits
  extends Pick<
    ServerOptions,
    'maxHeaderSize' | 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout' | 'highWaterMark'
  > {
  /** Longest time in which nothing moves on a connection, in ms. */
  silenceMs: number;
  /** Connections of the app. */
  connections: number;
}

/** Answers an app's requests. */
export interface HttpAnswerer {
  /** Ends what is under way. */
  close(): Promise<void>;
}

/** Answers the requests at a socket to which only one app can come. Resolves when it listens. */
export async function answerHttp(
  door: SocketHandle,
  { silenceMs, connections, ...limits }: HttpLimits,
  answer: RequestListener,
): Promise<HttpAnswerer> {
  const server = createServer(limits, answer);
  server.timeout = silenceMs;
  server.maxConnections = connections;
  // As many may wait: an app whose connection finds no room gets an error at once.
  server.listen({ fd: door.fd }, connections);
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

/**
 * All of a body as text. It is read to its end in any case, and held in memory only as far as it is allowed.
 * @throws {Error} what `tooLarge` makes when it has more than `bytes`, or the refusal of the budget that `held` is of
 */
export async function bodyOf(
  request: IncomingMessage,
  { bytes: most, tooLarge, held }: { bytes: number; tooLarge: () => Error; held: Held },
): Promise<string> {
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
  return Buffer.concat(chunks).toString('utf8');
}
