// Clients that disconnect at any moment: their requests leave nothing, and other clients are not disturbed.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { call, serveForAllTests, until, within } from '../../support/edge/peers.ts';
import { randomCases } from '../../support/random.ts';

const APP = `
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/big') return new Response('x'.repeat(3_000_000));
    if (pathname === '/early') return new Response('early');
    if (pathname === '/silent') await scheduler.wait(60_000);
    if (request.headers.get('upgrade') === 'websocket') {
      const [client, server] = Object.values(new WebSocketPair());
      server.accept();
      server.send('hello');
      return new Response(null, { status: 101, webSocket: client });
    }
    return new Response(await request.text());
  },
};
`;

const shared = serveForAllTests(APP);

const UPLOAD = `Content-Length: 200000\r\n\r\n${'x'.repeat(200_000)}`;
const CHUNKS = `Transfer-Encoding: chunked\r\n\r\n${`1000\r\n${'x'.repeat(4_096)}\r\n`.repeat(50)}0\r\n\r\n`;
const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n' +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
const requests = [
  'GET /big HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /silent HTTP/1.1\r\nHost: a\r\n\r\n',
  'GET /silent HTTP/1.0\r\nHost: a\r\n\r\n',
  `POST /echo HTTP/1.1\r\nHost: a\r\n${UPLOAD}`,
  `POST /echo HTTP/1.1\r\nHost: a\r\n${CHUNKS}`,
  `POST /early HTTP/1.1\r\nHost: a\r\n${UPLOAD}`,
  `GET /ws HTTP/1.1\r\nHost: a\r\n${UPGRADE}`,
  'GET /big HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(4),
];

interface Client {
  request: string;
  /** The share of the request that is sent before the client disconnects, 0 to 1. */
  sent: number;
  /** The bytes of the answer that are read before that. */
  taken: number;
  /** The event loop turns that the client stays connected if it reads nothing. */
  turns: number;
  way: 'destroy' | 'reset' | 'end';
}

const client: fc.Arbitrary<Client> = fc.record({
  request: fc.constantFrom(...requests),
  sent: fc.oneof(
    fc.constant(1),
    fc.nat(100).map((percent) => percent / 100),
  ),
  taken: fc.oneof(fc.constant(0), fc.nat(300), fc.nat(3_000_000)),
  turns: fc.nat(8),
  way: fc.constantFrom('destroy' as const, 'reset' as const, 'end' as const),
});

async function leave({ request, sent, taken, turns, way }: Client): Promise<void> {
  const socket = connect({ port: shared.gateway.port, host: '127.0.0.1', allowHalfOpen: true });
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  let received = 0;
  const enough = new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      received += chunk.length;
      if (received >= taken) resolve();
    });
    socket.on('end', () => {
      resolve();
      socket.end();
    });
  });
  socket.on('error', () => {});
  socket.write(request.slice(0, Math.floor(request.length * sent)));
  // A client that reads nothing disconnects after a few turns of the event loop.
  const late = (async () => {
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
  })();
  await (taken === 0
    ? late
    : Promise.race([enough, closed, new Promise((resolve) => setTimeout(resolve, 20))]));
  if (way === 'end') socket.end();
  // A socket that is ending cannot be reset.
  else if (way === 'destroy' || socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
  await within(closed, 'the end of the connection');
}

test('clients that disconnect at any moment leave nothing behind', async () => {
  const property = fc.asyncProperty(fc.array(client, { minLength: 1, maxLength: 20 }), async (clients) => {
    await Promise.all(clients.map(leave));
    const { upstream } = shared.gateway;
    await until(() => upstream.active === 0 && upstream.tunnels === 0, 'no request is left');
    const reply = await call(shared.gateway.port, '/echo', { method: 'POST', body: 'still here' });
    assert.deepEqual([reply.status, reply.body], [200, 'still here']);
  });
  await fc.assert(property, randomCases(40));
});
