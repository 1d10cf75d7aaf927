// Sends requests to an app's process without a gateway, for tests of code that needs no gateway.
import type { Upstream } from '../../../runtime/edge/upstream/upstream.ts';

/** Sends a request to an upstream as the gateway does. Rejects when the answer is incomplete. */
export function askUpstream(upstream: Upstream, path: string): Promise<{ status: number; text: string }> {
  const ended = upstream.begin();
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  let status = 0;
  let text = '';
  upstream.ask({
    method: 'GET',
    upgrades: false,
    onConnection: (connection) => {
      connection.socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
      connection.sent();
    },
    onInformation: () => {},
    onSwitch: () => {},
    onRoom: () => {},
    onHead: (head) => {
      status = head.status;
    },
    onBody: (pieces, last) => {
      for (const piece of pieces) text += piece.toString();
      if (last) resolve({ status, text });
    },
    onFailure: () => reject(new Error(`no whole answer to ${path}`)),
  });
  return promise.finally(ended);
}
