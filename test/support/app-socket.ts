// Unix sockets on which a service of the host listens for one app, and requests to them.
import { request } from 'node:http';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { makeListeningSocket, type SocketHandle } from '../../runtime/app-services/listening-socket.ts';
import { temporaryDirectory } from './temporary.ts';

/** Makes the listening socket of an app in a temporary directory, which is removed when the test ends. */
export function listeningSocketOf(t: TestContext): { handle: SocketHandle; socket: string } {
  const directory = temporaryDirectory(t);
  const socket = join(directory, 'app.sock');
  return { handle: makeListeningSocket(directory, socket), socket };
}

/** Sends a POST request to a unix socket. */
export function post(
  socketPath: string,
  path: string,
  {
    headers,
    body,
    signal,
  }: { headers: Record<string, string>; body: string | Uint8Array; signal?: AbortSignal | undefined },
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const sent = request(
    { socketPath, path, method: 'POST', headers, ...(signal && { signal }) },
    (response) => {
      textOf(response).then((text) => resolve({ status: response.statusCode!, text }), reject);
    },
  );
  sent.on('error', reject);
  sent.end(body);
  return promise;
}
