// Bytes that wait to be written, or for their process, stay unchanged although all sockets are read into one buffer.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Backend } from '../../../runtime/edge/upstream/backend.ts';
import {
  call,
  RawClient,
  stableCount,
  startGateway,
  startRawUpstream,
  temporary,
  until,
  within,
} from '../../support/edge/peers.ts';

const CLIENTS = 8;
/** More than the system's buffers hold. */
const BODY_BYTES = 8 * 1024 * 1024;
const DEADLINE_MS = 30_000;

const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
/** A different body for each client. No two parts in a row are equal, so a part in a wrong place fails the test. */
const bodies = Array.from({ length: CLIENTS }, () => {
  const part = randomBytes(4_096);
  return Buffer.concat(
    Array.from({ length: BODY_BYTES / part.length }, (_, i) =>
      Buffer.concat([part.subarray(i % 7), part.subarray(0, i % 7)]),
    ),
  );
});

test('bodies that wait on the way up and down arrive unchanged', async (t) => {
  using directory = temporary();
  const socketPath = join(directory.path, 'process.sock');
  const begun: [IncomingMessage, ServerResponse][] = [];
  const server = createServer((message, response) => begun.push([message.pause(), response]));
  server.listen(socketPath);
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  // Every second request is queued first, with the received part of its body.
  const { promise: ready, resolve: release } = Promise.withResolvers<void>();
  let asked = 0;
  const backend: Backend = {
    site: 'app',
    admit: () =>
      asked++ % 2 === 0 ? { kind: 'hold', ready } : { kind: 'forward', upstream: front.upstream },
  };
  await using front = await startGateway(socketPath, {
    resolve: () => ({ kind: 'proxy', backend }),
    holdTimeoutMs: DEADLINE_MS,
  });

  const uploads = bodies.map((body, i): ClientRequest => {
    const framing = i % 3 === 0 ? {} : { headers: { 'content-length': body.length } };
    const options = { port: front.port, host: '127.0.0.1', method: 'POST', agent: false, ...framing };
    const upload = request(options);
    upload.end(body);
    return upload;
  });
  const written = () => uploads.reduce((sum, { socket }) => sum + (socket?.bytesWritten ?? 0), 0);
  await until(() => asked >= CLIENTS, 'all have come');
  await stableCount(written);
  release();
  await until(() => begun.length === CLIENTS, 'all are at the process');
  await stableCount(written);
  const received = await within(
    Promise.all(begun.map(async ([message]) => Buffer.concat(await message.toArray()))),
    'the bodies',
    DEADLINE_MS,
  );
  const sent = bodies.map(digest);
  assert.deepEqual(received.map(digest).sort(), sent.toSorted());

  const answers = Promise.all(
    uploads.map(async (upload) => ((await once(upload, 'response')) as [IncomingMessage])[0].pause()),
  );
  for (const [i, [, response]] of begun.entries()) response.end(received[i]);
  const messages = await within(answers, 'the heads');
  await stableCount(() => begun.reduce((sum, [, { socket }]) => sum + (socket?.bytesWritten ?? 0), 0));
  const back = await within(
    Promise.all(messages.map(async (message) => Buffer.concat(await message.toArray()))),
    'the answers',
    DEADLINE_MS,
  );
  assert.deepEqual(back.map(digest), sent);
});

test('the first part of a head is kept while other answers arrive', async () => {
  let finish: (() => void) | undefined;
  await using upstream = await startRawUpstream((head, socket) => {
    if (head.startsWith('GET /other')) {
      socket.write('HTTP/1.1 200 OK\r\nX-Other: other\r\nContent-Length: 5\r\n\r\nother');
    } else {
      socket.write('HTTP/1.1 200 OK\r\nX-First: first\r\nContent-');
      finish = () => socket.write('Length: 5\r\n\r\nfirst');
    }
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => finish !== undefined, 'it has come');
  assert.equal((await call(front.port, '/other')).body, 'other');
  finish!();
  await client.expect('\r\n\r\nfirst');
  assert.match(client.received, /^HTTP\/1\.1 200 OK\r\n[\s\S]*x-first: first\r\n/i);
});

test('bytes that wait in tunnels arrive unchanged', async () => {
  const ends: Socket[] = [];
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.removeAllListeners('data');
    socket.pause();
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n');
    ends.push(socket);
  });
  await using front = await startGateway(upstream.socketPath);
  const clients = await Promise.all(
    bodies.map(async (body) => {
      const client = connect(front.port, '127.0.0.1');
      client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n');
      const [head] = await within(once(client, 'data') as Promise<[Buffer]>, 'the switch');
      assert.match(head.toString(), /^HTTP\/1\.1 101 /);
      client.pause();
      client.write(body);
      return client;
    }),
  );
  const moved = () => [...clients, ...ends].reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  await stableCount(moved);
  for (const end of ends) end.pipe(end);
  await stableCount(moved);
  const back = clients.map(async (client) => {
    const hash = createHash('sha256');
    let left = BODY_BYTES;
    for await (const chunk of client as AsyncIterable<Buffer>) {
      hash.update(chunk);
      left -= chunk.length;
      if (left <= 0) break;
    }
    return hash.digest('hex');
  });
  assert.deepEqual(await within(Promise.all(back), 'what comes back', DEADLINE_MS), bodies.map(digest));
});
