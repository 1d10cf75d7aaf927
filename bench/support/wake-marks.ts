// Loaded into a host before anything else, to see a wake from outside: Node tells of requests and connections, and when a
// request goes to an app that was woken, the times are printed as one line.
import { subscribe } from 'node:diagnostics_channel';
import { writeSync } from 'node:fs';
import type { Socket } from 'node:net';

/** When a wake got where, as ms since 1970 with fractions. */
export interface Marks {
  /** The control plane is asked for the wake. */
  asked: number;
  /** The control plane has decided and written it down, and sends the host what is wanted. */
  told: number;
  /** The process listens and the host agrees: the request goes there. */
  forwarded: number;
}

let marks: Partial<Marks> = {};
const now = () => performance.timeOrigin + performance.now();

subscribe('undici:request:create', (message) => {
  const { request } = message as { request: { path: string } };
  // The app's rest before it has left a time, too.
  if (request.path === '/internal/wake') marks = { asked: now() };
});
subscribe('http.server.request.start', (message) => {
  const { request } = message as { request: { method: string; url: string } };
  if (request.method === 'PUT' && request.url.startsWith('/apps/')) marks.told = now();
});
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: Socket };
  socket.once('connect', () => {
    // Apps listen on unix sockets, which have no address.
    if (marks.asked === undefined || marks.told === undefined || socket.remoteAddress !== undefined) return;
    marks.forwarded = now();
    writeSync(1, `marks ${JSON.stringify(marks)}\n`);
    marks = {};
  });
});
