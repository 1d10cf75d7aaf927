// Uploads: held back, answered early, broken and cancelled.
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import {
  RawClient,
  stableCount,
  startGateway,
  startRawUpstream,
  startWorkerd,
  until,
} from '../support/edge/peers.ts';

const BIG = 200 * 1024 * 1024;
const CHUNK = Buffer.alloc(64 * 1024, 'x');
const APP = 'export default { async fetch(request) { return new Response(await request.text()); } };';

test('an early answer to an upload reaches the client, and both connections end', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write('HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig');
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${BIG}\r\n\r\n`);
  const sending = (): void => {
    while (client.socket.writable && client.socket.write(CHUNK));
  };
  client.socket.on('drain', sending);
  let error: Error | undefined;
  client.socket.on('error', (cause) => {
    error = cause;
  });
  sending();
  const received = await client.end();
  assert.equal(error, undefined, 'the answer came with an end, not with a reset');
  assert.match(
    received,
    /^HTTP\/1\.1 413 Content Too Large\r\n[\s\S]*connection: close\r\n(?:[\s\S]*\r\n)?\r\nbig$/i,
  );
  await until(() => upstream.sockets.size === 0, 'the connection to the process ended');
  assert.equal(front.upstream.active, 0);
});

test('an answer that a process sends before it closes is read, though writes to it fail by then', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.end('HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig', () =>
      socket.destroy(),
    );
  });
  await using front = await startGateway(upstream.socketPath);
  for (let i = 0; i < 50; i++) {
    using client = new RawClient(front.port);
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${BIG}\r\n\r\n`);
    const sending = (): void => {
      while (client.socket.writable && client.socket.write(CHUNK));
    };
    client.socket.on('drain', sending);
    sending();
    assert.match(await client.end(), /^HTTP\/1\.1 413 [\s\S]*\r\n\r\nbig$/);
  }
});

test('an upload continues to its end though the process has begun to answer and reads no more of it', async () => {
  const { promise, resolve } = Promise.withResolvers<Socket>();
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.removeAllListeners('data');
    socket.pause();
    resolve(socket);
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  // The client reads the answer only after it has sent everything.
  client.socket.pause();
  client.send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${1024 * CHUNK.length}\r\n\r\n`);
  for (let i = 0; i < 1024; i++) client.send(CHUNK);
  const process = await promise;
  assert.ok((await stableCount(() => client.socket.writableLength)) > 0, 'the upload waits for the process');
  process.write('HTTP/1.1 200 OK\r\n\r\n');
  process.write(Buffer.alloc(1024 * CHUNK.length));
  assert.ok((await stableCount(() => process.writableLength)) > 0, 'the answer waits for the client');
  process.destroy();
  await until(() => client.socket.writableLength === 0, 'all was sent');
});

test('a 100 is sent when the request is forwarded, and the body after it', async () => {
  await using cell = await startWorkerd(APP);
  await using gateway = await startGateway(cell.socketPath);
  using client = new RawClient(gateway.port);
  client.send('POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n');
  await client.expect('HTTP/1.1 100 Continue\r\n\r\n');
  client.send('body');
  await client.expect('\r\n\r\nbody');
});

test('a refused request with Expect is answered without a 100', async () => {
  await using upstream = await startRawUpstream(() => {});
  await using front = await startGateway(upstream.socketPath, {
    resolve: () => ({
      kind: 'proxy',
      backend: {
        site: 'app',
        admit: () => ({ kind: 'refuse', status: 503, code: 'stopped', detail: 'Stopped.' }),
      },
    }),
  });
  using client = new RawClient(front.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n');
  const received = await client.end();
  assert.match(received, /^HTTP\/1\.1 503 /);
});

test('a client that disconnects during its upload cancels the request', async () => {
  await using upstream = await startRawUpstream(() => {});
  await using front = await startGateway(upstream.socketPath);
  const client = new RawClient(front.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n');
  await until(() => upstream.requests.length === 1, 'the request arrived');
  client.socket.destroy();
  await until(() => upstream.sockets.size === 0, 'the connection to the process ended');
  assert.equal(front.upstream.active, 0);
});

test('a body with an invalid chunk is answered with 400 and aborted for the process', async () => {
  await using upstream = await startRawUpstream(() => {});
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n');
  await until(() => upstream.requests.length === 1, 'the request arrived');
  client.send('zz\r\n');
  assert.match(await client.end(), /^HTTP\/1\.1 400 /);
  await until(() => upstream.sockets.size === 0, 'the connection to the process ended');
});
