// A process of the host that answers each app at a socket of the app's own, so that it knows by the socket who asks. The
// process is started when an app first needs it, and again when it ends. The host holds the sockets, so calls wait meanwhile.
import { setTimeout as sleep } from 'node:timers/promises';
import { asUser, dieWithParent, type User } from '../isolation/users.ts';
import { log, logRarely, reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import { type Child, startChild } from '../processes/child.ts';
import { LineReader } from '../processes/lines.ts';
import { withDataLimit } from '../resources/process-limits.ts';
import { compileCache } from '../threads/compile-cache.ts';
import type { AppServiceReply, AppServiceRequest, CountsFor } from './app-service-messages.ts';
import { makeListeningSocket, type SocketHandle, sendable } from './listening-socket.ts';

/** Longest wait of an app's start for the service, in ms. A process of it starts in about 200. */
const OPEN_TIMEOUT_MS = 10_000;
/** All apps wait for it: it is started again soon, however often it ended. In ms. */
const LONGEST_DELAY_MS = 5_000;

/** An app's way to a service. */
export interface HostServiceAccess {
  /** Path of the socket at which the service answers this app alone. */
  socket: string;
  /** Resolves when the service listens there, or after a while when it does not. Never rejects. */
  open: () => Promise<void>;
}

export interface AppServiceOptions {
  /** Names it in messages, such as `bucket service`. */
  name: string;
  /** Path of its program, which calls `serveApps`. */
  program: string;
  /** What the program is started with. Only its own user can read it. */
  options: object;
  /** Environment of its process besides. */
  environment?: Record<string, string>;
  /** Memory that it may use in all, in bytes, of which Node reserves 560 MiB; and for its JavaScript objects, in MiB. */
  memoryBytes: number;
  heapMb: number;
  /** Who runs it; `null`: the host's own user. */
  user: () => User | null;
  /** A directory of the host's own, in which sockets are made. */
  workshop: string;
  /** Where an app finds its socket. */
  socket: (appId: string) => string;
  /** Makes the directory of an app's socket, to which nobody else's processes come. */
  prepare: (appId: string) => void | Promise<void>;
}

export class AppService {
  readonly #options: AppServiceOptions;
  /** Apps that it is to serve, and whom each counts for. */
  readonly #wanted = new Map<string, CountsFor>();
  /** Their sockets. */
  readonly #doors = new Map<string, SocketHandle>();
  /** Those that it serves, or will when this resolves. */
  readonly #opened = new Map<string, Promise<void>>();
  /** Those whose files are being copied. */
  readonly #held = new Set<string>();
  #process: Promise<Process> | null = null;
  readonly #backoff = new Backoff();
  readonly #closing = new AbortController();

  constructor(options: AppServiceOptions) {
    this.#options = options;
  }

  /** The process, while it runs. */
  get pid(): Promise<number | null> {
    return this.#process?.then(({ pid }) => pid).catch(() => null) ?? Promise.resolve(null);
  }

  /** Starts the process, so that the first app to need it does not wait. */
  warm(): void {
    void this.#running().catch(() => {});
  }

  /**
   * An app's way to the service.
   * @param countsFor asked whenever the service is to serve it. Default: itself
   */
  access(appId: string, countsFor = () => itself(appId)): HostServiceAccess {
    const { socket } = this.#options;
    return {
      get socket() {
        return socket(appId);
      },
      open: async () => {
        const late = sleep(OPEN_TIMEOUT_MS, undefined, { ref: false });
        await Promise.race([this.open(appId, countsFor()), late]).catch((error: unknown) =>
          log('error', `the ${this.#options.name} does not serve an app`, {
            app: appId,
            error: reason(error),
          }),
        );
      },
    };
  }

  /**
   * Has the service serve an app.
   * @returns the socket where it does
   */
  async open(appId: string, countsFor = itself(appId)): Promise<string> {
    this.#wanted.set(appId, countsFor);
    let opened = this.#opened.get(appId);
    if (opened === undefined) {
      opened = this.#open(appId, countsFor);
      this.#opened.set(appId, opened);
      // The next one who asks tries again.
      opened.catch(() => this.#opened.delete(appId));
    }
    await opened;
    return this.#options.socket(appId);
  }

  /** Begins or ends to have the service leave alone those of an app's files that a copy of them may need. */
  async hold(appId: string, isHeld: boolean): Promise<void> {
    if (isHeld) this.#held.add(appId);
    else this.#held.delete(appId);
    // An app that it does not serve drops nothing; one that it is to serve later is held from its beginning.
    await this.#opened.get(appId)?.catch(() => {});
    const process = await this.#process?.catch(() => null);
    const countsFor = this.#wanted.get(appId);
    if (process && countsFor !== undefined)
      await process.ask({ app: appId, ...countsFor, isOpen: true, isHeld });
  }

  /** Ends what goes on for an app. */
  async forget(appId: string): Promise<void> {
    this.#wanted.delete(appId);
    this.#opened.delete(appId);
    // When it does not run, or ends meanwhile, nothing goes on.
    const process = await this.#process?.catch(() => null);
    await process?.ask({ app: appId, ...itself(appId), isOpen: false, isHeld: false }).catch(() => {});
    this.#doors.get(appId)?.close();
    this.#doors.delete(appId);
  }

  /** Ends the process, and with it all that goes on. */
  async close(): Promise<void> {
    this.#closing.abort();
    const process = await this.#process?.catch(() => null);
    await process?.end();
    for (const door of this.#doors.values()) door.close();
    this.#doors.clear();
  }

  async #open(appId: string, countsFor: CountsFor): Promise<void> {
    await this.#options.prepare(appId);
    const process = await this.#running();
    const isHeld = this.#held.has(appId);
    await process.ask({ app: appId, ...countsFor, isOpen: true, isHeld }, this.#door(appId));
  }

  #door(appId: string): SocketHandle {
    const { workshop, socket } = this.#options;
    const door = this.#doors.get(appId) ?? makeListeningSocket(workshop, socket(appId));
    this.#doors.set(appId, door);
    return door;
  }

  #running(): Promise<Process> {
    if (this.#process === null) {
      this.#closing.signal.throwIfAborted();
      this.#process = this.#start();
      this.#process.catch(() => {
        this.#process = null;
      });
    }
    return this.#process;
  }

  async #start(): Promise<Process> {
    const process = await Process.start(this.#options);
    const from = performance.now();
    void process.ended.then((how) => this.#again(how, performance.now() - from));
    return process;
  }

  /** Starts it again after its end, with all the apps that it served. */
  async #again(how: string, livedMs: number): Promise<void> {
    this.#process = null;
    this.#opened.clear();
    const { name } = this.#options;
    const { signal } = this.#closing;
    if (signal.aborted) return;
    const delayMs = Math.min(this.#backoff.next(livedMs).delayMs, LONGEST_DELAY_MS);
    log('error', `the ${name} ended and is started again`, { how, delay_ms: delayMs });
    await sleep(delayMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const opened = await Promise.allSettled(
      [...this.#wanted].map(([app, countsFor]) => this.open(app, countsFor)),
    );
    const failed = opened.find((each) => each.status === 'rejected');
    if (failed) log('error', `the ${name} does not serve some apps`, { error: reason(failed.reason) });
  }
}

function itself(appId: string): CountsFor {
  return { family: appId, owner: appId };
}

class Process {
  /** How it ended, when it has. */
  readonly ended: Promise<string>;
  readonly #child: Child;
  readonly #asked = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  #lastId = 0;

  private constructor(child: Child, name: string) {
    this.#child = child;
    const lines = new LineReader((line) => logRarely('warn', `the ${name} says`, { line }));
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => lines.write(chunk));
    child.process.on('message', ({ id, error }: AppServiceReply) => {
      const asked = this.#asked.get(id);
      this.#asked.delete(id);
      if (error === null) asked?.resolve();
      else asked?.reject(new Error(error));
    });
    // A message to a process that is ending.
    child.process.on('error', () => {});
    this.ended = child.exited.then(({ code, killedBy }) => {
      child.end();
      const how = killedBy ?? `exit code ${code}`;
      for (const { reject } of this.#asked.values()) reject(new Error(`the ${name} ended (${how})`));
      return how;
    });
  }

  static async start(options: AppServiceOptions): Promise<Process> {
    const { name, program, environment, memoryBytes, heapMb } = options;
    const user = options.user();
    const bound = user === null ? dieWithParent() : asUser(user);
    const limits = [...withDataLimit(memoryBytes), process.execPath, `--max-old-space-size=${heapMb}`];
    const child = await startChild([...bound, ...limits, '--no-warnings', program], {
      title: name,
      environment: {
        // A user of its own can read nothing in the data directory.
        ...(user === null ? compileCache() : {}),
        ...environment,
        APP_SERVICE_OPTIONS: JSON.stringify(options.options),
      },
      stdin: 'ignore',
      messages: true,
    });
    return new Process(child, name);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /**
   * Has it do what is asked.
   * @param door the socket at which it is to serve an app from now on
   * @throws {Error} when it fails at it, or ends
   */
  async ask(asked: Omit<AppServiceRequest, 'id'>, door?: SocketHandle): Promise<void> {
    const id = ++this.#lastId;
    const answered = new Promise<void>((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    const request: AppServiceRequest = { id, ...asked };
    this.#child.process.send(request, door && sendable(door), (error) => {
      if (error) this.#asked.get(id)?.reject(error);
    });
    await answered;
  }

  async end(): Promise<void> {
    this.#child.end();
    await this.ended;
  }
}
