// Runs the receiver of e-mails, a process. The receiver reaches the apps through a socket of the gateway, which knows their
// e-mail addresses. The host keeps the listening socket, so new connections wait while the receiver restarts.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { type IncomingOptions, IncomingProgram } from '../../apps/incoming-program.ts';
import type { RequestHead, Spans, Target } from '../../edge/gateway.ts';
import { headerValue } from '../../edge/http/head/fields.ts';
import type { Backend } from '../../edge/upstream/backend.ts';
import { log, reason } from '../../log.ts';
import { type BoundSocket, bindSocket } from '../../sockets/bound-socket.ts';
import { comparable, domainOf } from '../addresses.ts';
import type { MailServiceOptions } from '../app-server.ts';
import { CHECKS } from './incoming.ts';
import { APP_HEADER, ENVELOPE_HEADER, OWNER_HEADER, type Renewal, type Setup, type Tls } from './messages.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** Memory limit of the process, in bytes. Large, because Node reserves 560 MiB at the start and again for each thread. */
const MEMORY_BYTES = 3 * 2 ** 30 + CHECKS * 576 * 2 ** 20;
/** Limit of its JavaScript heap, in MiB. */
const HEAP_MB = 512;
/** How often the files of the certificate are read again, in ms: another program renews them. */
const RENEWAL_MS = 3_600_000;

export interface IncomingMailOptions extends IncomingOptions {
  port: number;
  /** The name by which the receiver introduces itself to other mail servers. */
  name: string;
  /** Files of a certificate and its key in PEM; null: the receiver makes one. */
  tls: { cert: string; key: string } | null;
  outgoing: MailServiceOptions | null;
}

export class IncomingMail {
  readonly #options: IncomingMailOptions;
  readonly #program: IncomingProgram;
  #listening: BoundSocket | null = null;

  constructor(options: IncomingMailOptions) {
    this.#options = options;
    this.#program = new IncomingProgram(options, {
      id: 'mail-receiver',
      name: 'receiver of e-mails',
      program: PROGRAM,
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      setup: () => this.#setup(),
      resolve: (head, spans) => this.#resolve(head, spans),
    });
  }

  /** The process id, while it runs. */
  get pid(): number | null {
    return this.#program.pid;
  }

  /**
   * Starts the process, and starts it again whenever it ends, until `close`. Resolves with the port when it listens.
   * @throws {Error} when the port cannot be bound
   * @throws {Error} when the certificate cannot be read, or the process does not listen; further tries follow
   */
  async start(): Promise<number> {
    const { port, isLocal, tls } = this.#options;
    const listening = await bind(port, isLocal);
    this.#listening = listening;
    if (tls !== null) void this.#renew();
    await this.#program.start(listening);
    return listening.port;
  }

  /** Ends the process and all its connections. */
  async close(): Promise<void> {
    await this.#program.close();
    this.#listening?.handle.close();
    this.#listening = null;
  }

  async #setup(): Promise<Setup> {
    const { name, outgoing } = this.#options;
    const { socket } = this.#program;
    return { type: 'setup', name, socket, tls: await this.#tls(), outgoing };
  }

  /** @throws {Error} when the files cannot be read, or do not fit together */
  async #tls(): Promise<Tls | null> {
    const { tls } = this.#options;
    if (tls === null) return null;
    const [cert, key] = await Promise.all([readFile(tls.cert, 'utf8'), readFile(tls.key, 'utf8')]);
    // Throws when only one of the two files has been renewed so far.
    createSecureContext({ cert, key });
    return { cert, key };
  }

  async #renew(): Promise<void> {
    const signal = this.#program.closed;
    while (!signal.aborted) {
      await sleep(RENEWAL_MS, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted) return;
      const tls = await this.#tls().catch((error: unknown) => {
        log('warn', 'the certificate for e-mails cannot be read again', { error: reason(error) });
        return null;
      });
      if (tls !== null) this.#program.send({ type: 'tls', tls } satisfies Renewal);
    }
  }

  /** Routes a request of the receiver: `HEAD` asks which app has an address, other methods go to the app. */
  #resolve({ method, headers }: RequestHead, { spanId }: Spans): Target {
    const { to } = envelopeOf(headers);
    const found = this.#appOf(to);
    if (found === null)
      return respond(() => ({
        refusal: { status: 404, code: 'mail_route_not_found', detail: 'No app has this address.' },
      }));
    const { id, owner, backend } = found;
    if (method === 'HEAD') {
      const headers = { [APP_HEADER]: id, [OWNER_HEADER]: owner };
      return respond(() => ({ status: 204, headers, body: '' }));
    }
    return this.#program.call({ kind: 'email' }, { backend, endsItself: true }, spanId);
  }

  /** Returns the app, on any host, that has an e-mail address: only the app with the address's domain can have it. */
  #appOf(to: string): { id: string; owner: string; backend: Backend } | null {
    const domain = domainOf(comparable(to));
    const isOf = (mail: readonly string[] = []) =>
      mail.includes(comparable(to)) || mail.includes(`*@${domain}`);
    const { hosts } = this.#options;
    const apps = this.#options.apps();
    const app = apps.get(apps.resolve(domain)?.site ?? '');
    if (app !== undefined)
      return isOf(app.wanted.mail)
        ? { id: app.id, owner: apps.ownerOf(app.id), backend: app.fleetFor([]) }
        : null;
    const route = hosts?.homes.resolve(domain);
    return route !== undefined && isOf(route.mail)
      ? { id: route.id, owner: route.owner, backend: hosts!.called(route.id) }
      : null;
  }
}

function respond(respond: Extract<Target, { kind: 'respond' }>['respond']): Target {
  return { kind: 'respond', respond };
}

function envelopeOf(headers: readonly string[]): { to: string } {
  const { to } = JSON.parse(headerValue(headers, ENVELOPE_HEADER) ?? '{}') as { to?: unknown };
  return { to: typeof to === 'string' ? to : '' };
}

/** Binds the port, on all addresses unless `isLocal`. @throws {Error} when it cannot be bound */
async function bind(port: number, isLocal: boolean): Promise<BoundSocket> {
  try {
    // Probes the port first: a port in use would otherwise fail only when the receiver's process listens.
    const probe = net.createServer().listen({ port, ...(isLocal && { host: '127.0.0.1' }) });
    await once(probe, 'listening');
    probe.close();
    await once(probe, 'close');
    return bindSocket(port, isLocal ? '127.0.0.1' : '::');
  } catch (error) {
    const why = 'another program uses the port, or Cellar has no right to open ports below 1024';
    throw new Error(`RUNNER_MAIL_PORT: port ${port} cannot be opened: ${why}`, { cause: error });
  }
}
