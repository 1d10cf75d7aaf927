// Real peers of the gateway: workerd on a unix socket, raw sockets that misbehave, raw clients.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';
import { createRequire } from 'node:module';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { after, before } from 'node:test';
import { Gateway, type GatewayOptions } from '../../../runtime/edge/gateway.ts';
import type { Backend } from '../../../runtime/edge/upstream/backend.ts';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import { until as poll } from '../../../runtime/threads/until.ts';

const DEADLINE_MS = 60_000;
/** A count is stable if `turns` polls in a row, `ms` milliseconds apart, return the same value. */
const STABLE = { turns: 30, ms: 10 };
/** Longest wait for a stable count, in ms. */
const STABLE_DEADLINE_MS = 60_000;
const WORKERD = createRequire(import.meta.url)('workerd').default as string;

/** A temporary directory, removed when the caller's scope ends. */
export function temporary(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'edge-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Resolves as `promise` does. Rejects with `what` in the message after `ms`. */
export async function within<T>(promise: Promise<T>, what: string, ms = DEADLINE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Polls every 2 ms and resolves once `condition` holds. For conditions without an event. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const holds = await poll(condition, { everyMs: 2, timeoutMs: DEADLINE_MS });
  if (!holds) throw new Error(`not so within ${DEADLINE_MS} ms: ${what}`);
}

/** Resolves with a count once it no longer changes, such as the number of sent bytes when every buffer is full. */
export async function stableCount(count: () => number): Promise<number> {
  const deadline = performance.now() + STABLE_DEADLINE_MS;
  let seen = count();
  for (let turns = 0; turns < STABLE.turns; turns++) {
    if (performance.now() > deadline)
      throw new Error(`the count still changes after ${STABLE_DEADLINE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, STABLE.ms));
    if (count() !== seen) turns = 0;
    seen = count();
  }
  return seen;
}

/** Starts workerd and a gateway before the first test of a file, and stops them after the last. */
export function serveForAllTests(module: string): {
  cell: Awaited<ReturnType<typeof startWorkerd>>;
  gateway: Awaited<ReturnType<typeof startGateway>>;
} {
  const parts = {} as ReturnType<typeof serveForAllTests>;
  before(async () => {
    parts.cell = await startWorkerd(module);
    parts.gateway = await startGateway(parts.cell.socketPath);
  });
  after(async () => {
    await parts.gateway[Symbol.asyncDispose]();
    await parts.cell[Symbol.asyncDispose]();
  });
  return parts;
}

/**
 * Starts workerd with one module, on a unix socket and, for clients without unix sockets, on a TCP port.
 * @param assets static files, served before the module; by name
 */
export async function startWorkerd(
  module: string,
  assets: Record<string, string> = {},
): Promise<{ socketPath: string; port: number; pid: number } & AsyncDisposable> {
  const directory = temporary();
  const socketPath = join(directory.path, 'http.sock');
  writeFileSync(join(directory.path, 'app.js'), module);
  mkdirSync(join(directory.path, 'public'));
  for (const [name, text] of Object.entries(assets))
    writeFileSync(join(directory.path, 'public', name), text);
  const service = Object.keys(assets).length > 0 ? 'assets' : 'app';
  writeFileSync(
    join(directory.path, 'cell.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "app", worker = .app),
    (name = "assets", assets = (path = "public", userWorker = "app", config = "{}"))
  ],
  sockets = [
    (name = "unix", address = "unix:${socketPath}", http = (), service = "${service}"),
    (name = "tcp", address = "127.0.0.1:0", http = (), service = "${service}")
  ]
);
const app :Workerd.Worker = (
  modules = [ (name = "app.js", esModule = embed "app.js") ],
  compatibilityDate = "2026-10-01"
);
`,
  );
  const cell = spawn(WORKERD, ['serve', '--experimental', '--control-fd=3', 'cell.capnp', 'config'], {
    cwd: directory.path,
    env: {},
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  });
  const printed = await lines(cell, cell.stdio[3] as Readable, 2, 'workerd');
  const ports = printed.map((line) => JSON.parse(line) as { socket: string; port: number });
  return {
    socketPath,
    port: ports.find(({ socket }) => socket === 'tcp')!.port,
    pid: cell.pid!,
    [Symbol.asyncDispose]: async () => {
      await stop(cell);
      directory[Symbol.dispose]();
    },
  };
}

/** Starts the gateway as a child process in front of a unix socket, with limits and access log. */
export async function startGatewayProcess(
  socketPath: string,
  { telemetry = false, timeouts = true } = {},
): Promise<{ port: number; pid: number; memory: () => Promise<NodeJS.MemoryUsage> } & AsyncDisposable> {
  const script = join(import.meta.dirname, 'gateway-process.ts');
  const directory = temporary();
  const files = ['access.ndjson', ...(telemetry ? ['telemetry'] : [])].map((name) =>
    join(directory.path, name),
  );
  const gateway = spawn(process.execPath, [script, socketPath, ...files], {
    env: timeouts ? {} : { TIMEOUTS: 'off' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [port] = await lines(gateway, gateway.stdout!, 1, 'the gateway');
  return {
    port: Number(port),
    pid: gateway.pid!,
    memory: async () => {
      // One short line arrives in a single chunk.
      const printed = once(gateway.stdout!, 'data');
      gateway.kill('SIGUSR2');
      const [line] = await within(printed, 'the memory of the gateway');
      return JSON.parse(String(line)) as NodeJS.MemoryUsage;
    },
    [Symbol.asyncDispose]: async () => {
      await stop(gateway);
      directory[Symbol.dispose]();
    },
  };
}

/** Resolves with the first `count` lines of a child's output. Rejects if the child ends before. */
async function lines(child: ChildProcess, output: Readable, count: number, what: string): Promise<string[]> {
  const exited = once(child, 'exit').then(([code]) => {
    throw new Error(`${what} ended with ${code} before it was ready`);
  });
  const read = new Promise<string[]>((resolve) => {
    const found: string[] = [];
    createInterface({ input: output }).on('line', (line) => {
      if (found.push(line) === count) resolve(found);
    });
  });
  exited.catch(() => {});
  return within(Promise.race([read, exited]), `the start of ${what}`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Starts an upstream on a raw socket. `onRequest` gets each request's head and the socket. */
export async function startRawUpstream(
  onRequest: (head: string, socket: Socket) => void,
): Promise<{ socketPath: string; requests: string[]; sockets: Set<Socket> } & AsyncDisposable> {
  const directory = temporary();
  const socketPath = join(directory.path, 'raw.sock');
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    let received = '';
    let bodyLeft = 0;
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      for (;;) {
        const skipped = Math.min(bodyLeft, received.length);
        bodyLeft -= skipped;
        received = received.slice(skipped);
        const end = received.indexOf('\r\n\r\n');
        if (end === -1) return;
        const head = received.slice(0, end + 4);
        received = received.slice(end + 4);
        // Not the head of a request, so it is a part of a chunked body.
        if (!/^[A-Z]+ \S+ HTTP\/1\.1\r\n/.test(head)) continue;
        bodyLeft = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
        requests.push(head);
        onRequest(head, socket);
      }
    });
  });
  server.listen(socketPath);
  await once(server, 'listening');
  return {
    socketPath,
    requests,
    sockets,
    [Symbol.asyncDispose]: async () => {
      if (!server.listening) return;
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
      directory[Symbol.dispose]();
    },
  };
}

/** Starts a gateway in this process. It sends all requests to one unix socket, unless `options.resolve` decides otherwise. */
export async function startGateway(
  socketPath: string,
  options: Partial<GatewayOptions> = {},
): Promise<{ port: number; gateway: Gateway; upstream: Upstream } & AsyncDisposable> {
  const upstream = new Upstream({ socketPath });
  const backend: Backend = { site: 'app', admit: () => ({ kind: 'forward', upstream }) };
  const gateway = new Gateway({
    resolve: () => ({ kind: 'proxy', backend }),
    holdTimeoutMs: DEADLINE_MS,
    ...options,
  });
  const port = await gateway.listen(0, '127.0.0.1');
  return {
    port,
    gateway,
    upstream,
    [Symbol.asyncDispose]: async () => {
      await gateway.close(0);
      upstream.destroy();
    },
  };
}

export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  rawHeaders: string[];
  body: string;
}

/** Sends one request with Node's client, on a new connection. */
export function call(
  port: number,
  path: string,
  options: { method?: string; headers?: OutgoingHttpHeaders; body?: string } = {},
): Promise<Reply> {
  const { method = 'GET', headers = {}, body } = options;
  const reply = new Promise<Reply>((resolve, reject) => {
    const sent = request({ port, path, method, headers, host: '127.0.0.1', agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          body: Buffer.concat(chunks).toString(),
        }),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
  return within(reply, `${method} ${path}`);
}

/** A TCP client that sends raw text and collects all that it receives. */
export class RawClient implements Disposable {
  readonly socket: Socket;
  received = '';
  /** Resolves when the gateway has closed the connection, with or without an error. */
  readonly closed: Promise<void>;
  ended = false;

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    this.socket.on('data', (chunk) => {
      this.received += chunk.toString('latin1');
    });
    this.socket.on('error', () => {});
    this.closed = new Promise((resolve) => {
      const onEnd = (): void => {
        this.ended = true;
        resolve();
      };
      this.socket.on('end', onEnd);
      this.socket.on('close', onEnd);
    });
  }

  send(text: string | Buffer): this {
    this.socket.write(text, 'latin1');
    return this;
  }

  /** Waits until the received text contains `text`. */
  async expect(text: string): Promise<void> {
    await until(() => this.received.includes(text), `received ${JSON.stringify(text)}`);
  }

  async end(): Promise<string> {
    await within(this.closed, 'the end of the connection');
    return this.received;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}
