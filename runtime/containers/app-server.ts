// Serves workerd, the process of one app, at the app's own socket: the calls of Docker's API that workerd makes for the
// containers of Durable Objects. All other calls are refused. workerd expects a proxy container beside each container. The
// answers describe one, but this service itself is the proxy.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants } from 'node:os';
import { z } from 'zod';
import { answerHttp, type HttpAnswerer } from '../app-services/app-service-http.ts';
import type { SocketHandle } from '../app-services/listening-socket.ts';
import { log, reason } from '../log.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import { type Container, specOf } from './container.ts';
import type { Containers } from './containers.ts';
import { ContainerError } from './errors.ts';
import { MOST_WORDS } from './messages.ts';

const REQUEST_BYTES = 2 * MOST_WORDS;
const LIMITS = {
  maxHeaderSize: 16_384,
  headersTimeout: 30_000,
  requestTimeout: 30_000,
  // A call may wait without limit for the end of a container.
  silenceMs: 0,
  connections: 512,
};
/** The suffix that workerd gives to a container's name to name its proxy. */
const PROXY = '-proxy';
const PROXY_PORT = '39001/tcp';
const CALL = /^\/containers\/([0-9A-Za-z_.%-]{1,400})(?:\/(json|start|stop|kill|wait))?$/;
/** Maximum number of refused calls that an app's log gets in a minute. */
const LOG_LINES = 10;
const MINUTE_MS = 60_000;
const TERM = constants.signals.SIGTERM;

const Created = z.object({
  Image: z.string().max(1_024),
  Cmd: z.array(z.string()).optional(),
  Env: z.array(z.string()).optional(),
});

interface Answer {
  status: number;
  body?: object;
}

export class AppServer {
  readonly #app: string;
  readonly #owner: string;
  readonly #all: Containers;
  /** Containers by workerd's name, without the proxy's suffix. */
  readonly #containers = new Map<string, Promise<Container>>();

  #logged = { since: Number.NEGATIVE_INFINITY, lines: 0 };

  private constructor(app: string, owner: string, all: Containers) {
    this.#app = app;
    this.#owner = owner;
    this.#all = all;
  }

  /** Listens at a socket that only the app's process can reach. */
  static async listen(
    listener: SocketHandle,
    { app, owner, containers }: { app: string; owner: string; containers: Containers },
  ): Promise<HttpAnswerer> {
    const server = new AppServer(app, owner, containers);
    const http = await answerHttp(
      listener,
      LIMITS,
      (request, response) => void server.#answer(request, response),
    );
    return {
      close: async () => {
        const opened = await Promise.allSettled(server.#containers.values());
        await Promise.allSettled(opened.map((each) => each.status === 'fulfilled' && each.value.end()));
        await http.close();
      },
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = ({ status, body }: Answer) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(status === 204 || status === 304 ? '' : JSON.stringify(body ?? {}));
    try {
      send(await this.#called(request));
    } catch (error) {
      if (error instanceof ContainerError) {
        this.#refused(error);
        return void send({ status: error.status, body: { message: error.message } });
      }
      if (error instanceof SyntaxError || error instanceof URIError)
        return void send({ status: 400, body: { message: 'invalid call' } });
      log('warn', 'a call of the container service failed', { error: reason(error) });
      send({ status: 500, body: { message: 'the container service failed' } });
    }
  }

  #refused(error: ContainerError): void {
    const now = performance.now();
    if (now > this.#logged.since + MINUTE_MS) this.#logged = { since: now, lines: 0 };
    if (this.#logged.lines++ >= LOG_LINES) return;
    this.#all.refused(this.#app, error.message);
  }

  async #called(request: IncomingMessage): Promise<Answer> {
    const { pathname, searchParams } = new URL(request.url!, 'http://engine');
    const method = request.method!;
    const body = await readAtMost(request, REQUEST_BYTES);
    if (body === null)
      throw new ContainerError(
        413,
        `the command and environment of a container may have at most ${MOST_WORDS} bytes`,
      );
    // workerd listens at this address for connections of the proxy. Here only `untilClosed` in `container.ts` connects to
    // it.
    if (pathname === '/networks/bridge')
      return { status: 200, body: { IPAM: { Config: [{ Gateway: '127.0.0.1', Subnet: '127.0.0.0/8' }] } } };
    // workerd lists volumes to find snapshots of containers. Cellar makes none.
    if (method === 'GET' && pathname === '/volumes') return { status: 200, body: { Volumes: [] } };
    if (method === 'POST' && pathname === '/containers/create')
      return this.#create(searchParams.get('name') ?? '', body);
    const [, given, call] = CALL.exec(pathname) ?? [];
    if (given === undefined)
      throw new ContainerError(501, `${method} ${pathname.slice(0, 40)} is not available on this Cellar`);
    return this.#act(decodeURIComponent(given), `${method} ${call ?? ''}`.trim(), searchParams);
  }

  async #act(given: string, call: string, query: URLSearchParams): Promise<Answer> {
    const isProxy = given.endsWith(PROXY);
    const name = isProxy ? given.slice(0, -PROXY.length) : given;
    const container = await this.#containers.get(name);
    const missing = { status: 404, body: { message: 'no such container' } };
    if (container === undefined) return missing;
    if (isProxy) {
      if (call === 'GET json') return { status: 200, body: proxyBody(container.ingressPort) };
      if (call === 'POST start') return { status: 204 };
      if (call === 'POST wait') return missing;
      if (call !== 'DELETE') throw new ContainerError(501, `${call} of a proxy is not available`);
      await container.end();
      return { status: 204 };
    }
    const { status } = container;
    if (status === null) return missing;
    switch (call) {
      case 'GET json':
        return {
          status: 200,
          body: { State: { Status: status }, Config: { Image: container.imageText.split('?')[0] } },
        };
      case 'POST start':
        await container.start();
        return { status: 204 };
      case 'POST stop':
        await container.signal(TERM);
        return { status: 204 };
      case 'POST kill':
        if (status !== 'running') return { status: 409, body: { message: 'the container is not running' } };
        await container.signal(signalOf(query.get('signal') ?? ''));
        return { status: 204 };
      case 'POST wait':
        return { status: 200, body: { StatusCode: await container.exited } };
      case 'DELETE':
        await container.remove();
        return { status: 204 };
      default:
        throw new ContainerError(501, `${call} of a container is not available on this Cellar`);
    }
  }

  async #create(given: string, body: Buffer): Promise<Answer> {
    const asked = Created.safeParse(JSON.parse(body.toString()));
    if (!asked.success || given === '') throw new ContainerError(400, 'invalid container');
    const name = given.endsWith(PROXY) ? given.slice(0, -PROXY.length) : given;
    if (given.endsWith(PROXY)) {
      await this.#opened(name);
      return { status: 201, body: { Id: given } };
    }
    const { Image, Cmd, Env = [] } = asked.data;
    const container = await this.#opened(name);
    if (container.status !== null) return { status: 409, body: { message: 'the container exists' } };
    const spec = specOf(Image, Cmd ?? null, Env);
    // After a refusal the container's servers stay: workerd uses their port for the next start.
    this.#all.requireRoom(container, spec, Image);
    await container.create(spec, Image);
    return { status: 201, body: { Id: given } };
  }

  #opened(name: string): Promise<Container> {
    const known = this.#containers.get(name);
    if (known !== undefined) return known;
    const opening = this.#all.open(this.#app, this.#owner, () => {
      if (this.#containers.get(name) === opening) this.#containers.delete(name);
    });
    this.#containers.set(name, opening);
    opening.catch(() => this.#containers.delete(name));
    return opening;
  }
}

function proxyBody(port: number): object {
  return {
    State: { Status: 'running' },
    NetworkSettings: { Ports: { [PROXY_PORT]: [{ HostIp: '127.0.0.1', HostPort: String(port) }] } },
  };
}

/** @throws {ContainerError} */
function signalOf(name: string): number {
  const signal = constants.signals[name as keyof typeof constants.signals];
  if (signal === undefined) throw new ContainerError(400, 'there is no such signal');
  return signal;
}
