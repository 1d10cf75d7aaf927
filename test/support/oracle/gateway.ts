// A reference gateway for differential tests, built from Node's HTTP server and undici, which have other parsers and
// writers. It has no rate limits, request queue, tunnels or timeouts.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Dispatcher, Pool } from 'undici';
import { readHead } from './head.ts';
import { answerHeaders, forwardedHeaders } from './headers.ts';

const HEAD_BYTES = 32 * 1024;
const SWITCHED_OFF = 0;

/** Listens on a loopback port, and forwards every request to one unix socket. */
export async function startOracle(socketPath: string): Promise<{ port: number } & AsyncDisposable> {
  const pool = new Pool('http://localhost', {
    socketPath,
    // A new connection for each request: this gateway does not retry on a closed idle connection.
    pipelining: 0,
    headersTimeout: SWITCHED_OFF,
    bodyTimeout: SWITCHED_OFF,
    maxHeaderSize: 2 * HEAD_BYTES,
  });
  const server = createServer({
    maxHeaderSize: HEAD_BYTES,
    requestTimeout: SWITCHED_OFF,
    requireHostHeader: false,
    shouldUpgradeCallback: () => false,
  });
  server.maxHeadersCount = 0;
  /** Unfinished answers by connection. */
  const sockets = new Map<Duplex, Set<ServerResponse>>();
  server.on('connection', (socket) => {
    sockets.set(socket, new Set());
    socket.on('close', () => sockets.delete(socket));
  });
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const answers = sockets.get(request.socket)!;
    answers.add(response);
    response.on('close', () => answers.delete(response));
    forward(pool, request, response);
  };
  server.on('request', take);
  server.on('checkExpectation', (_request, response: ServerResponse) => refuse(response, 417));
  server.on('connect', (_request, socket: Socket) =>
    socket.end('HTTP/1.1 405 No\r\nconnection: close\r\n\r\n'),
  );
  server.on('clientError', async (_error, socket) => {
    // Requests before the invalid one are answered first.
    for (const answer of sockets.get(socket) ?? []) if (answer.req.complete) await once(answer, 'close');
    if (socket.writable) socket.end('HTTP/1.1 400 No\r\nconnection: close\r\n\r\n', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      server.close();
      for (const socket of sockets.keys()) socket.destroy();
      await pool.destroy();
    },
  };
}

function refuse(response: ServerResponse, status: number): void {
  response.writeHead(status, { connection: 'close', 'content-length': 0 });
  response.end();
}

function forward(pool: Pool, request: IncomingMessage, response: ServerResponse): void {
  const head = readHead(request);
  if (typeof head === 'number') {
    refuse(response, head);
    return;
  }
  const { method, target } = head;
  const options = {
    path: target,
    method,
    headers: forwardedHeaders(head),
    body: head.hasBody ? request : null,
  };
  pool.dispatch(options, new Relay(request, response));
}

/** Forwards the answer of an app's process to the client. */
class Relay implements Dispatcher.DispatchHandler {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.#request = request;
    this.#response = response;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#response.on('close', () => {
      if (!this.#response.writableFinished) controller.abort(new Error('the client left'));
    });
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, _headers: unknown): void {
    const headers = answerHeaders(controller.rawHeaders as Buffer[], status);
    if (status < 200) {
      if (this.#request.httpVersionMinor > 0) this.#response.writeInformation(status, headers);
      return;
    }
    if (!this.#request.complete) headers.push('connection', 'close');
    this.#response.writeHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#response.write(chunk)) return;
    controller.pause();
    this.#response.once('drain', () => controller.resume());
  }

  onResponseEnd(): void {
    this.#response.end();
  }

  onResponseError(): void {
    const { socket } = this.#request;
    if (!this.#response.headersSent) refuse(this.#response, 502);
    else if (this.#request.httpVersionMinor === 0) socket.resetAndDestroy();
    else socket.destroy();
  }
}
