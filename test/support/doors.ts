// Sockets of apps at a service of the host, and requests to them.
import { request } from 'node:http';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { makeListeningSocket, type SocketHandle } from '../../runtime/app-services/listening-socket.ts';
import { temporaryDirectory } from './temporary.ts';

/** Makes the socket of an app, which goes with the test. */
export function doorOf(t: TestContext): { door: SocketHandle; socket: string } {
  const directory = temporaryDirectory(t);
  const socket = join(directory, 'app.sock');
  return { door: makeListeningSocket(directory, socket), socket };
}

/** Posts a body to a socket. */
export function post(
  socketPath: string,
  path: string,
  {
    headers,
    body,
    signal,
  }: { headers: Record<string, string>; body: string; signal?: AbortSignal | undefined },
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const asked = request(
    { socketPath, path, method: 'POST', headers, ...(signal && { signal }) },
    (response) => {
      textOf(response).then((text) => resolve({ status: response.statusCode!, text }), reject);
    },
  );
  asked.on('error', reject);
  asked.end(body);
  return promise;
}
