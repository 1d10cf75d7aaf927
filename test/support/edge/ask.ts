// A request for a process without a gateway before it, for tests of what lies behind.
import type { Upstream } from '../../../runtime/edge/upstream/upstream.ts';

/** Asks a process as the gateway does. Rejects when there is no whole answer. */
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
