// Receives e-mails by SMTP, for the addresses of apps only.
import { createHash } from 'node:crypto';
import { isIPv4 } from 'node:net';
import {
  SMTPServer,
  type SMTPServerAddress,
  type SMTPServerDataStream,
  type SMTPServerOptions,
  type SMTPServerSession,
} from 'smtp-server';
import { Agent, request } from 'undici';
import { Budget, type ReservedMemory } from '../../app-services/budget.ts';
import { asciiJson } from '../../edge/http/body/ascii-json.ts';
import { visitorOf } from '../../edge/limits/networks.ts';
import { logRarely, reason } from '../../log.ts';
import { FairQueue, QueueFull } from '../../queues/fair-queue.ts';
import { WorkerThreads } from '../../threads/worker.ts';
import { comparable } from '../addresses.ts';
import {
  type Authentication,
  authenticated,
  type authenticatedInThread,
  FROM_DOMAINS,
  type Lookup,
  type Origin,
} from './authentication.ts';
import type { Deliveries, Outcome } from './delivery.ts';
import { HEAD_BYTES, HEAD_LINES, headOf, valuesOf, withHeaders } from './head.ts';
import { CHECKS, type Incoming, MAIL_BYTES } from './incoming.ts';
import { APP_HEADER, ENVELOPE_HEADER, OWNER_HEADER, type Tls } from './messages.ts';

/** Maximum bytes of all e-mails in memory. */
const BUDGET_BYTES = 256 * 2 ** 20;
/** A sender that goes on after this many bytes loses the connection. */
const CUT_BYTES = 2 * MAIL_BYTES;
export const RECIPIENTS = 100;
/** Maximum connections. At this limit, a new one can replace one of the address with the most connections. */
export const CONNECTIONS = 200;
/** Maximum connections of one IPv4 address, or of one IPv6 network of 64 bits. */
export const CONNECTIONS_OF_ADDRESS = 10;
/** Unknown recipients after which a connection is closed: the client guesses addresses. */
export const GUESSES = 20;
/** Maximum duration of a connection, in ms. */
const CONNECTION_MS = 15 * 60_000;
/** Idle timeout of a connection, in ms. */
const SILENCE_MS = 60_000;
/** Timeout for the host's answer about an address, in ms. */
const LOOKUP_MS = 5_000;
/** Limits of the queue, in total and per account: one account, whose handlers may never end, must not fill the queue. */
const DELIVERIES = { name: 'e-mails', running: 48, runningPerOwner: 8, firstPlaces: 24, waitingPerOwner: 64 };
/** Longest wait in the queue, in ms. */
const WAIT_MS = 120_000;
/** Maximum servers that an e-mail may have passed: more are a loop. */
const HOPS = 30;
/** Maximum DKIM signatures of an e-mail: checking each takes time. */
const SIGNATURES = 10;
/** Maximum threads that check e-mails of one IP address. */
const CHECKS_OF_ADDRESS = 2;
/** Timeout of a check, in ms: senders could make it take very long. */
const CHECK_MS = 30_000;
/**
 * E-mails are copied into buffers of this many bytes, because many tiny chunks would take more memory than they have bytes.
 */
const PAGE_BYTES = 64 * 1024;
/**
 * Maximum remembered deliveries. When a sender repeats an e-mail for its failed recipients, the others do not get it again.
 */
const REMEMBERED = 10_000;
/** Headers that are removed from received e-mails, because a sender could forge results of this server with them. */
const FORGEABLE = ['authentication-results', 'received-spf', 'return-path'];

export interface ReceiverOptions {
  /** The name by which the receiver introduces itself to other mail servers. */
  name: string;
  /** Path of the host's Unix socket, at which the host looks up e-mail addresses. */
  socket: string;
  tls: Tls;
  deliveries: Pick<Deliveries, 'deliver'>;
  /** Replaced in tests. */
  lookup?: Lookup;
  limits?: { connectionMs?: number; silenceMs?: number };
}

/** The ids of an app and its account. */
interface AppOfAddress {
  id: string;
  owner: string;
}

/** The reply to a refused command: a code of SMTP, and a text that begins with an enhanced status code. */
class Reply extends Error {
  readonly responseCode: number;

  constructor(responseCode: number, text: string) {
    super(text);
    this.responseCode = responseCode;
  }
}

const tooLarge = () => new Reply(552, `5.3.4 an e-mail may have at most ${MAIL_BYTES} bytes`);
const busy = () => new Reply(452, '4.3.1 too much mail at a time, try again later');

export class Receiver {
  readonly server: SMTPServer;
  readonly #options: ReceiverOptions;
  readonly #host: Agent;
  readonly #queue = new FairQueue(DELIVERIES);
  readonly #budget = new Budget(BUDGET_BYTES, busy);
  readonly #threads = new WorkerThreads(CHECKS, CHECKS_OF_ADDRESS);
  /** Connections by IPv4 address or IPv6 network, the oldest first. */
  readonly #connections = new Map<number | string, Set<SMTPServerSession>>();
  /** Sessions whose command is being answered, or whose e-mail is being received. */
  readonly #busy = new Set<SMTPServerSession>();
  /** By session: the app of each recipient, by e-mail address. */
  readonly #apps = new WeakMap<SMTPServerSession, Map<string, AppOfAddress>>();
  /** By session: the number of unknown recipients. */
  readonly #guesses = new WeakMap<SMTPServerSession, number>();
  /** The timers that end connections after their maximum duration. */
  readonly #deadlines = new WeakMap<SMTPServerSession, NodeJS.Timeout>();
  readonly #delivered = new Set<string>();

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#host = new Agent({ connect: { socketPath: options.socket }, connections: 8 });
    const { silenceMs = SILENCE_MS } = options.limits ?? {};
    this.server = new SMTPServer({
      ...options.tls,
      name: options.name,
      banner: 'Cellar',
      disabledCommands: ['AUTH'],
      disableReverseLookup: true,
      hideSMTPUTF8: true,
      size: MAIL_BYTES,
      // Twice our own limit: the library counts connections already during its pause before `onConnect`.
      maxClients: 2 * CONNECTIONS,
      maxRecipients: RECIPIENTS,
      maxCommandLength: 2_048,
      socketTimeout: silenceMs,
      closeTimeout: 1_000,
      ...this.#handlers(),
    });
    // An error of one connection must not end this process.
    this.server.on('error', () => {});
  }

  #handlers(): Pick<SMTPServerOptions, 'onConnect' | 'onClose' | 'onRcptTo' | 'onData'> {
    const answered = (
      session: SMTPServerSession,
      work: Promise<unknown>,
      answer: (error?: Error | null) => void,
    ) => {
      this.#busy.add(session);
      void work
        .finally(() => this.#busy.delete(session))
        .then(
          () => answer(null),
          (error: unknown) => answer(error instanceof Reply ? error : this.#unexpected(error)),
        );
    };
    return {
      onConnect: (session, answer) => answer(this.#connect(session)),
      onClose: (session) => this.#close(session),
      onRcptTo: (address, session, answer) => answered(session, this.#recipient(address, session), answer),
      onData: (stream, session, answer) => answered(session, this.#receive(stream, session), answer),
    };
  }

  #connect(session: SMTPServerSession): Error | null {
    const from = visitorOf(session.remoteAddress);
    const own = this.#connections.get(from) ?? new Set();
    if (own.size >= CONNECTIONS_OF_ADDRESS)
      return new Reply(421, '4.7.0 too many connections from this address');
    if (!this.#makeRoom(own.size)) return new Reply(421, '4.3.2 too many connections, try again later');
    own.add(session);
    this.#connections.set(from, own);
    const { connectionMs = CONNECTION_MS } = this.#options.limits ?? {};
    // Uses a timer instead of a listener on the socket, because STARTTLS removes all listeners.
    const timer = setTimeout(() => this.#end(session, '4.4.2 the connection lasted too long'), connectionMs);
    this.#deadlines.set(session, timer);
    return null;
  }

  /**
   * Makes room for a new connection. At the limit, ends a connection of the address with the most connections, preferably an
   * idle one.
   * @param newcomerHas number of connections of the new connection's address
   * @returns false, without ending any, when the new connection's address would then have at least as many connections as
   *   any other address
   */
  #makeRoom(newcomerHas: number): boolean {
    const all = [...this.#connections.values()];
    if (all.reduce((sum, { size }) => sum + size, 0) < CONNECTIONS) return true;
    const most = all.reduce((a, b) => (b.size > a.size ? b : a));
    if (most.size <= newcomerHas + 1) return false;
    const [oldest] = most;
    const ended = [...most].find((session) => !this.#busy.has(session)) ?? oldest!;
    this.#close(ended);
    this.#end(ended, '4.3.2 too many connections, try again later');
    return true;
  }

  #end(ended: SMTPServerSession, why: string): void {
    for (const connection of this.server.connections)
      if (connection.session === ended) connection.send(421, why);
  }

  #close(session: SMTPServerSession): void {
    const deadline = this.#deadlines.get(session);
    if (deadline === undefined) return;
    clearTimeout(deadline);
    this.#deadlines.delete(session);
    const from = visitorOf(session.remoteAddress);
    const own = this.#connections.get(from)!;
    own.delete(session);
    if (own.size === 0) this.#connections.delete(from);
  }

  /**
   * Asks the host which app has an address, and remembers it.
   * @throws {Reply} when no app has it, the lookup fails, or the client has guessed too often
   */
  async #recipient({ address }: SMTPServerAddress, session: SMTPServerSession): Promise<void> {
    const guesses = this.#guesses.get(session) ?? 0;
    if (guesses >= GUESSES) throw new Reply(421, '4.7.0 too many unknown addresses');
    const app = await this.#appOf(address);
    if (app === null) {
      this.#guesses.set(session, guesses + 1);
      throw new Reply(550, '5.1.1 there is no such address here');
    }
    const apps = this.#apps.get(session) ?? new Map<string, AppOfAddress>();
    this.#apps.set(session, apps);
    apps.set(comparable(address), app);
  }

  async #appOf(to: string): Promise<AppOfAddress | null> {
    const { statusCode, headers, body } = await request('http://mail/', {
      method: 'HEAD',
      dispatcher: this.#host,
      headers: { [ENVELOPE_HEADER]: asciiJson({ from: '', to }) },
      signal: AbortSignal.timeout(LOOKUP_MS),
    });
    await body.dump();
    const { [APP_HEADER]: id, [OWNER_HEADER]: owner = id } = headers;
    if (statusCode === 204 && typeof id === 'string') return { id, owner: String(owner) };
    if (statusCode === 404) return null;
    throw new Reply(451, '4.3.0 the address cannot be looked up now');
  }

  async #receive(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<void> {
    const apps = this.#apps.get(session)!;
    // The memory counts for the account of the first recipient.
    const held = this.#budget.begin(apps.get(comparable(session.envelope.rcptTo[0]!.address))!.owner);
    try {
      const received = await read(stream, held);
      await this.#deliver(received, session, apps);
    } finally {
      held.giveAll();
    }
  }

  async #deliver(
    received: Buffer,
    session: SMTPServerSession,
    apps: Map<string, AppOfAddress>,
  ): Promise<void> {
    const { mailFrom, rcptTo } = session.envelope;
    const from = mailFrom === false ? '' : mailFrom.address;
    const head = headOf(received);
    if (head === null)
      throw new Reply(
        554,
        `5.6.0 the head must have headers only, with at most ${HEAD_BYTES} bytes and ${HEAD_LINES} lines`,
      );
    if (valuesOf(head, 'received').length > HOPS) throw new Reply(554, '5.4.6 the e-mail is in a mail loop');
    if (valuesOf(head, 'dkim-signature').length > SIGNATURES)
      throw new Reply(554, `5.7.0 an e-mail may have at most ${SIGNATURES} DKIM signatures`);
    if (valuesOf(head, 'from').length !== 1) throw new Reply(550, '5.6.0 the e-mail needs one From header');
    const { name } = this.#options;
    const origin = { address: session.remoteAddress, helo: session.hostNameAppearsAs, from };
    const { results, dmarc, isRefused, isUncertain, hasManyDomains } = await this.#check(received, origin);
    if (hasManyDomains)
      throw new Reply(550, `5.6.0 the From header may have addresses of at most ${FROM_DOMAINS} domains`);
    if (isRefused && isUncertain)
      throw new Reply(451, '4.7.0 the DNS servers of the sender do not answer, try again later');
    if (isRefused)
      throw new Reply(550, '5.7.26 a domain of the From header asks to refuse this e-mail (DMARC)');
    const added = [`Authentication-Results: ${results}`, receivedLine(session, name)];
    const raw = withHeaders(received, head, (each) => !FORGEABLE.includes(each), added);
    const whole = headOf(raw)!;
    const digest = createHash('sha256').update(from).update('\0').update(received).digest('base64');
    const outcomes = await Promise.all(
      rcptTo.map(async ({ address: to }): Promise<[string, Outcome]> => {
        const key = `${digest} ${comparable(to)}`;
        if (this.#delivered.has(key)) return [to, { kind: 'accepted' }];
        const { id, owner } = apps.get(comparable(to))!;
        const outcome = await this.#inTurn({ owner, from, to, raw, head: whole, dmarc }, id);
        if (outcome.kind === 'accepted' && rcptTo.length > 1) this.#remember(key);
        return [to, outcome];
      }),
    );
    const failed = outcomes.find(([, { kind }]) => kind === 'failed');
    if (failed !== undefined) throw new Reply(451, `4.3.0 ${textOf(failed, rcptTo.length)}`);
    const rejected = outcomes.filter(([, { kind }]) => kind === 'rejected');
    // SMTP has one reply for all recipients. Its text names those whose app rejected the e-mail.
    if (rejected.length > 0)
      throw new Reply(
        550,
        `5.7.1 ${rejected
          .map((each) => textOf(each, rcptTo.length))
          .join('; ')
          .slice(0, 900)}`,
      );
  }

  /** Checks an e-mail in a thread, so that other connections go on. @throws {Reply} when the check cannot be completed */
  async #check(received: Buffer, origin: Origin): Promise<Authentication> {
    const { name, lookup } = this.#options;
    if (lookup !== undefined) return authenticated(received, origin, name, lookup);
    const module = new URL('./authentication.ts', import.meta.url);
    return this.#threads
      .run<typeof authenticatedInThread>(module, 'authenticatedInThread', [received, origin, name], {
        deadlineMs: CHECK_MS,
        owner: String(visitorOf(origin.address)),
      })
      .catch((error: unknown) => {
        logRarely('warn', 'an e-mail could not be checked', { error: reason(error) });
        throw new Reply(451, '4.7.0 the e-mail could not be checked');
      });
  }

  async #inTurn(mail: Incoming, app: string): Promise<Outcome> {
    const signal = AbortSignal.timeout(WAIT_MS);
    try {
      return await this.#queue.run({ owner: mail.owner, signal }, () =>
        this.#options.deliveries.deliver(mail, app),
      );
    } catch (error) {
      if (!(error instanceof QueueFull) && error !== signal.reason) throw error;
      return { kind: 'failed', reason: 'the account of the app gets too many e-mails at a time' };
    }
  }

  /** Remembers a delivery. The sender may repeat the e-mail for its other recipients, but this one must not get it twice. */
  #remember(key: string): void {
    this.#delivered.add(key);
    if (this.#delivered.size > REMEMBERED) this.#delivered.delete(this.#delivered.values().next().value!);
  }

  #unexpected(error: unknown): Reply {
    logRarely('warn', 'an e-mail could not be received', { error: reason(error) });
    return new Reply(451, '4.3.0 the e-mail cannot be received now, try again later');
  }
}

/** Reads an e-mail. @throws {Reply} when it is too large, or memory is short: the rest is read and dropped */
async function read(stream: SMTPServerDataStream, held: ReservedMemory): Promise<Buffer> {
  let pages: Buffer[] = [];
  let room = 0;
  let bytes = 0;
  let isDropped = false;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > CUT_BYTES) throw new Reply(421, '5.3.4 the e-mail is far too large');
    if (!isDropped && bytes <= MAIL_BYTES && held.take(chunk.length)) {
      for (let from = 0; from < chunk.length; ) {
        if (room === 0) {
          pages.push(Buffer.allocUnsafe(PAGE_BYTES));
          room = PAGE_BYTES;
        }
        const copied = chunk.copy(pages.at(-1)!, PAGE_BYTES - room, from);
        room -= copied;
        from += copied;
      }
    } else if (!isDropped) {
      isDropped = true;
      pages = [];
      held.giveAll();
    }
  }
  if (bytes > MAIL_BYTES) throw tooLarge();
  if (isDropped) throw busy();
  return Buffer.concat(pages, bytes);
}

function textOf([to, outcome]: [string, Outcome], recipients: number): string {
  const text = outcome.kind === 'accepted' ? '' : outcome.reason;
  return recipients === 1 ? text : `${to}: ${text}`;
}

function receivedLine(session: SMTPServerSession, name: string): string {
  const { remoteAddress, hostNameAppearsAs, transmissionType, id } = session;
  const helo = hostNameAppearsAs.replace(/[^\w.:[\]-]/g, '').slice(0, 255);
  const address = isIPv4(remoteAddress) ? remoteAddress : `IPv6:${remoteAddress}`;
  const date = new Date().toUTCString().replace('GMT', '+0000');
  return `Received: from ${helo} ([${address}])\r\n by ${name} with ${transmissionType} id ${id};\r\n ${date}`;
}
