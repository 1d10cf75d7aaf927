// Bodies both ways: large, slow, cut off, early, and cancelled by their client.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import {
  call,
  RawClient,
  serveForAllTests,
  stableCount,
  startGateway,
  startGatewayProcess,
  startRawUpstream,
  until,
  within,
} from '../support/edge/peers.ts';

const BIG = 200 * 1024 * 1024;
const CHUNK = Buffer.alloc(64 * 1024, 'x');

const APP = `
const encoder = new TextEncoder();
const chunk = new Uint8Array(65536).fill(120);
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/sink') {
      let size = 0;
      for await (const part of request.body) size += part.byteLength;
      return new Response(String(size));
    }
    if (pathname === '/big') {
      let left = ${BIG};
      return new Response(new ReadableStream({
        pull(controller) {
          controller.enqueue(chunk.slice());
          left -= chunk.byteLength;
          if (left === 0) controller.close();
        },
      }));
    }
    if (pathname === '/events') {
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      writer.write(encoder.encode('data: one\\n\\n'));
      (async () => {
        await scheduler.wait(300);
        await writer.write(encoder.encode('data: two\\n\\n'));
        await writer.close();
      })();
      return new Response(readable, { headers: { 'content-type': 'text/event-stream' } });
    }
    return new Response(await request.text());
  },
};
`;

const shared = serveForAllTests(APP);

/** Peak resident memory of a process so far, in bytes. */
function peakMemory(pid: number): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024;
}

async function answerTo(port: number, method: string, path: string): Promise<IncomingMessage> {
  const sent = request({ port, method, path, host: '127.0.0.1', agent: false }).end();
  const [response] = (await within(once(sent, 'response'), `the head of ${path}`)) as [IncomingMessage];
  return response;
}

test('200 MB go up and down with less than 60 MB of memory', async () => {
  await using process = await startGatewayProcess(shared.cell.socketPath);
  await call(process.port, '/echo', { method: 'POST', body: 'warm' });
  const before = peakMemory(process.pid);

  const upload = request({
    port: process.port,
    method: 'POST',
    path: '/sink',
    host: '127.0.0.1',
    agent: false,
  });
  const answered = once(upload, 'response') as Promise<[IncomingMessage]>;
  for (let sent = 0; sent < BIG; sent += CHUNK.length) {
    if (!upload.write(CHUNK)) await once(upload, 'drain');
  }
  upload.end();
  const [sink] = await answered;
  assert.equal(Buffer.concat(await sink.toArray()).toString(), String(BIG));

  let received = 0;
  for await (const chunk of await answerTo(process.port, 'GET', '/big')) received += chunk.length;
  assert.equal(received, BIG);
  const grown = peakMemory(process.pid) - before;
  assert.ok(grown < 60 * 1024 * 1024, `grew by ${Math.round(grown / 1024 / 1024)} MB`);
});

test('a slow client stops the process by backpressure, and sent bytes are not kept here', async () => {
  let written = 0;
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${BIG}\r\n\r\n`);
    const fill = (): void => {
      while (written < BIG && socket.write(CHUNK)) written += CHUNK.length;
    };
    socket.on('drain', fill);
    fill();
  });
  await using front = await startGateway(upstream.socketPath);
  const response = await answerTo(front.port, 'GET', '/');
  // When the process can write no more, the buffers of the sockets and of the gateway are full.
  await stableCount(() => written);
  assert.ok(written < 16 * 1024 * 1024, `the process got rid of ${written} bytes`);
  response.destroy();
});

test('an event arrives before its stream ends', async () => {
  const response = await answerTo(shared.gateway.port, 'GET', '/events');
  const [first] = await within(once(response, 'data'), 'the first event');
  assert.equal(String(first), 'data: one\n\n');
  assert.equal(response.complete, false);
  const rest = await within(response.toArray(), 'the rest of the stream');
  assert.equal(Buffer.concat(rest).toString(), 'data: two\n\n');
});

test('a head without a body arrives at once', async () => {
  const upstreamSockets: Socket[] = [];
  await using upstream = await startRawUpstream((_head, socket) => {
    upstreamSockets.push(socket);
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n');
  });
  await using front = await startGateway(upstream.socketPath);
  const response = await answerTo(front.port, 'GET', '/');
  upstreamSockets[0]!.write('3\r\nabc\r\n0\r\n\r\n');
  assert.equal(Buffer.concat(await response.toArray()).toString(), 'abc');
});

test('an answer cut off by the process is cut off for the client, by length, in chunks and in HTTP/1.0', async () => {
  await using upstream = await startRawUpstream((head, socket) => {
    const framing = head.startsWith('GET /length') ? 'content-length: 100' : 'transfer-encoding: chunked';
    socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${framing.startsWith('c') ? '' : '5\r\n'}first`);
    // A turn later, so that the gateway has begun to forward the answer.
    setImmediate(() => socket.end());
  });
  await using front = await startGateway(upstream.socketPath);
  for (const path of ['/length', '/chunks']) {
    const response = await answerTo(front.port, 'GET', path);
    await assert.rejects(response.toArray(), { code: 'ECONNRESET' }, path);
    assert.equal(response.complete, false, path);
  }
  using old = new RawClient(front.port);
  let error: Error | undefined;
  old.socket.on('error', (cause) => {
    error = cause;
  });
  old.send('GET /chunks HTTP/1.0\r\nHost: a\r\n\r\n');
  await old.end();
  assert.match(String(error), /ECONNRESET/);
});

test('a process that closes before it answers is a 502, a missing one a 503 with Retry-After', async () => {
  await using upstream = await startRawUpstream((_head, socket) => socket.destroy());
  await using front = await startGateway(upstream.socketPath);
  const broken = await call(front.port, '/');
  assert.equal(broken.status, 502);
  assert.equal(broken.headers['content-type'], 'application/problem+json');
  const { detail, ...problem } = JSON.parse(broken.body);
  assert.deepEqual(problem, {
    type: 'about:blank',
    title: 'Bad Gateway',
    status: 502,
    code: 'bad_gateway',
  });
  assert.match(detail, /closed the connection/);
  assert.equal(upstream.requests.length, 1);

  const page = await call(front.port, '/', { headers: { accept: 'text/html,*/*;q=0.8' } });
  assert.equal(page.status, 502);
  assert.match(page.body, /^<!doctype html>/);

  await upstream[Symbol.asyncDispose]();
  const absent = await call(front.port, '/', { method: 'POST', body: 'lost' });
  assert.equal(absent.status, 503);
  assert.equal(absent.headers['retry-after'], '1');
  assert.equal(JSON.parse(absent.body).code, 'app_unavailable');
  assert.equal(front.upstream.active, 0);
});

test('a 103 is forwarded to HTTP/1.1 clients only', async () => {
  await using upstream = await startRawUpstream((_head, socket) => {
    socket.write(
      'HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
    );
  });
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await client.expect('\r\n\r\nok');
  assert.match(client.received, /^HTTP\/1\.1 103 Early Hints\r\nlink: <\/a\.css>; rel=preload\r\n/);
  using old = new RawClient(front.port);
  assert.match(await old.send('GET / HTTP/1.0\r\nHost: a\r\n\r\n').end(), /^HTTP\/1\.1 200 OK\r\n/);
});

test('a client that disconnects cancels its request', async () => {
  await using upstream = await startRawUpstream(() => {});
  await using front = await startGateway(upstream.socketPath);
  const client = new RawClient(front.port);
  client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => upstream.requests.length === 1, 'the request arrived');
  assert.equal(front.upstream.active, 1);
  client.socket.destroy();
  await until(() => upstream.sockets.size === 0, 'the connection to the process ended');
  assert.equal(front.upstream.active, 0);
});

test('pipelined requests are processed one at a time and answered in order', async () => {
  const waiting: Socket[] = [];
  await using upstream = await startRawUpstream((head, socket) => {
    if (head.startsWith('GET /slow')) waiting.push(socket);
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfast');
  });
  await using front = await startGateway(upstream.socketPath);
  const client = new RawClient(front.port);
  client.send('GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /fast HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 1, 'the first arrived');
  assert.equal((await call(front.port, '/other')).body, 'fast');
  assert.equal(upstream.requests.length, 2, 'the second has not been passed on');
  waiting[0]!.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nslow');
  await client.expect('\r\n\r\nfast');
  assert.ok(client.received.indexOf('\r\n\r\nslow') < client.received.indexOf('\r\n\r\nfast'));

  client.send('GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /left HTTP/1.1\r\nHost: a\r\n\r\n');
  await until(() => waiting.length === 2, 'the next arrived');
  client.socket.destroy();
  await until(() => front.upstream.active === 0, 'it is cancelled');
  assert.equal(upstream.requests.filter((head) => head.startsWith('GET /left')).length, 0);
});

test('a GET on a closing idle connection is retried once; a POST or a request on a fresh connection is not', async () => {
  let reset = false;
  const waiting: Socket[] = [];
  await using upstream = await startRawUpstream((head, socket) => {
    if (reset) socket.destroy();
    else if (head.startsWith('GET /first')) waiting.push(socket);
    else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  });
  await using front = await startGateway(upstream.socketPath);
  const firsts = [1, 2, 3].map(() => call(front.port, '/first'));
  await until(() => waiting.length === 3, 'three connections are in use');
  for (const socket of waiting) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  for (const reply of await Promise.all(firsts)) assert.equal(reply.status, 200);
  reset = true;
  // All three idle connections are reused ones. The gateway tries a request on two of them and no more.
  assert.equal((await call(front.port, '/2')).status, 502);
  assert.equal(upstream.requests.filter((head) => head.startsWith('GET /2')).length, 2);
  for (const socket of upstream.sockets) socket.destroy();
  await until(() => upstream.sockets.size === 0, 'the last idle connection has ended');
  assert.equal((await call(front.port, '/3')).status, 502);
  assert.equal(upstream.requests.filter((head) => head.startsWith('GET /3')).length, 1);
  reset = false;
  assert.equal((await call(front.port, '/4')).status, 200);
  reset = true;
  assert.equal((await call(front.port, '/5', { method: 'POST', body: 'once' })).status, 502);
  assert.equal(upstream.requests.filter((head) => head.startsWith('POST /5')).length, 1);
});
