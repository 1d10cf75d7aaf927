// A service for apps, such as the mail service: a process of the host that serves each app at the app's own socket, which
// identifies the app. It starts when an app first needs it, and restarts when it ends. The host holds the sockets, so calls
// wait during a restart.
import { setTimeout as sleep } from 'node:timers/promises';
import { startOwnProgram } from '../isolation/own-program.ts';
import type { User } from '../isolation/users.ts';
import { log, reason } from '../log.ts';
import { Restarts } from '../processes/backoff.ts';
import type { Child } from '../processes/child.ts';
import { endFirst } from '../resources/limited.ts';
import { sendable } from '../sockets/bound-socket.ts';
import type { AppServiceReply, AppServiceRequest, CountsFor } from './app-service-messages.ts';
import { makeListeningSocket, type SocketHandle } from './listening-socket.ts';

/** Timeout for an app's start to wait for the service, in ms. The process starts in about 200 ms. */
const OPEN_TIMEOUT_MS = 10_000;
/** Niceness of a service that computes: an ordinary process gets nine times as much CPU time. */
const NICENESS = '10';

/** Access of an app to a service. */
export interface HostServiceAccess {
  /** Path of the socket for this app alone. */
  socket: string;
  /** Resolves when the service listens there, or after a timeout. Never rejects. */
  open: () => Promise<void>;
}

export interface AppServiceOptions {
  /** The name for messages, such as `bucket service`. */
  name: string;
  /** Path of its program, which calls `serveApps`. */
  program: string;
  /** Options of the program. Only its own user can read them. */
  options: object;
  /** Additional environment of its process. */
  environment?: Record<string, string>;
  /** Memory limit in bytes. Node reserves 560 MiB of it. */
  memoryBytes: number;
  /** Limit of the JavaScript heap, in MiB. */
  heapMb: number;
  /**
   * Whether it computes much for apps. Then it gets less CPU time than other processes, and the kernel kills it first when
   * memory is short. Default: false.
   */
  computes?: boolean;
  /** The user that runs it; `null`: the host's own user. */
  user: () => User | null;
  /** A directory of the host, in which listening sockets are made. */
  workshop: string;
  /** Returns the path of an app's socket. */
  socket: (appId: string) => string;
  /** Makes the directory of an app's socket, closed to the processes of other apps. */
  prepare: (appId: string) => void | Promise<void>;
  /**
   * Returns facts about an app for the program. They are only sent as a message, never in a file, command line or
   * environment.
   */
  about?: (appId: string) => unknown;
  /** Called with each started process, so that the host can exchange further messages with it. */
  onStart?: (child: Child) => void;
}

export class AppService {
  readonly #options: AppServiceOptions;
  /** Apps to serve, with their family and account. */
  readonly #wanted = new Map<string, CountsFor>();
  /** The listening sockets, by app. */
  readonly #listeners = new Map<string, SocketHandle>();
  /** Apps that are served once the promise resolves. */
  readonly #opened = new Map<string, Promise<void>>();
  /** Apps whose files are being copied. */
  readonly #held = new Set<string>();
  #process: Promise<Process> | null = null;
  readonly #restarts: Restarts;

  constructor(options: AppServiceOptions) {
    this.#options = options;
    this.#restarts = new Restarts(options.name);
  }

  /** The process id, while it runs. */
  get pid(): Promise<number | null> {
    return this.#process?.then(({ pid }) => pid).catch(() => null) ?? Promise.resolve(null);
  }

  /** Starts the process ahead of time, so that the first app does not wait. */
  warm(): void {
    void this.#running().catch(() => {});
  }

  /**
   * Returns an app's access to the service.
   * @param countsFor called at each `open`. Default: the usage counts for the app itself
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
          log('error', `the ${this.#options.name} could not be started for an app; its calls fail`, {
            app: appId,
            error: reason(error),
          }),
        );
      },
    };
  }

  /**
   * Starts to serve an app.
   * @returns the path of its socket
   */
  async open(appId: string, countsFor = itself(appId)): Promise<string> {
    this.#wanted.set(appId, countsFor);
    let opened = this.#opened.get(appId);
    if (opened === undefined) {
      opened = this.#open(appId, countsFor);
      this.#opened.set(appId, opened);
      // The next call tries again.
      opened.catch(() => this.#opened.delete(appId));
    }
    await opened;
    return this.#options.socket(appId);
  }

  /** Starts or stops protecting an app's files from deletion while they are copied. */
  async hold(appId: string, isHeld: boolean): Promise<void> {
    if (isHeld) this.#held.add(appId);
    else this.#held.delete(appId);
    // The service removes no files of an app that it does not serve. The message that starts to serve it has `isHeld`.
    await this.#opened.get(appId)?.catch(() => {});
    const process = await this.#process?.catch(() => null);
    const countsFor = this.#wanted.get(appId);
    if (process && countsFor !== undefined)
      await process.ask({ app: appId, ...countsFor, isOpen: true, isHeld, about: null });
  }

  /** Stops serving an app: ends all its calls, and closes its socket. */
  async forget(appId: string): Promise<void> {
    this.#wanted.delete(appId);
    this.#opened.delete(appId);
    // When the process does not run, or ends meanwhile, there are no calls.
    const process = await this.#process?.catch(() => null);
    await process
      ?.ask({ app: appId, ...itself(appId), isOpen: false, isHeld: false, about: null })
      .catch(() => {});
    this.#listeners.get(appId)?.close();
    this.#listeners.delete(appId);
  }

  /** Ends the process and all its calls. */
  async close(): Promise<void> {
    this.#restarts.close();
    const process = await this.#process?.catch(() => null);
    await process?.end();
    for (const listener of this.#listeners.values()) listener.close();
    this.#listeners.clear();
  }

  async #open(appId: string, countsFor: CountsFor): Promise<void> {
    await this.#options.prepare(appId);
    const process = await this.#running();
    const isHeld = this.#held.has(appId);
    const about = this.#options.about?.(appId) ?? null;
    const asked = { app: appId, ...countsFor, isOpen: true, isHeld, about };
    await process.ask(asked, this.#listenerOf(appId));
  }

  #listenerOf(appId: string): SocketHandle {
    const { workshop, socket } = this.#options;
    const listener = this.#listeners.get(appId) ?? makeListeningSocket(workshop, socket(appId));
    this.#listeners.set(appId, listener);
    return listener;
  }

  #running(): Promise<Process> {
    if (this.#process === null) {
      this.#restarts.closed.throwIfAborted();
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

  /** Restarts the process after its end, with all the apps that it served. */
  async #again(how: string, livedMs: number): Promise<void> {
    this.#process = null;
    this.#opened.clear();
    if (!(await this.#restarts.next(how, livedMs))) return;
    const opened = await Promise.allSettled(
      [...this.#wanted].map(([app, countsFor]) => this.open(app, countsFor)),
    );
    const failed = opened.find((each) => each.status === 'rejected');
    if (failed)
      log('error', `the ${this.#options.name} could not be started again for some apps; their calls fail`, {
        error: reason(failed.reason),
      });
  }
}

function itself(appId: string): CountsFor {
  return { family: appId, owner: appId };
}

class Process {
  /** Resolves when the process has ended, with its signal or exit code as text. */
  readonly ended: Promise<string>;
  readonly #child: Child;
  readonly #asked = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  #lastId = 0;

  private constructor(child: Child, name: string) {
    this.#child = child;
    child.process.on('message', ({ id, error }: AppServiceReply) => {
      const asked = this.#asked.get(id);
      this.#asked.delete(id);
      if (error === null) asked?.resolve();
      else asked?.reject(new Error(error));
    });
    this.ended = child.exited.then(({ code, killedBy }) => {
      child.end();
      const how = killedBy ?? `exit code ${code}`;
      for (const { reject } of this.#asked.values()) reject(new Error(`the ${name} ended (${how})`));
      return how;
    });
  }

  static async start(options: AppServiceOptions): Promise<Process> {
    const { name, program, environment, memoryBytes, heapMb, computes = false } = options;
    const child = await startOwnProgram({
      name,
      program,
      user: options.user(),
      memoryBytes,
      heapMb,
      environment: { ...environment, APP_SERVICE_OPTIONS: JSON.stringify(options.options) },
      bounds: computes ? [...endFirst(), 'nice', '-n', NICENESS] : [],
    });
    options.onStart?.(child);
    return new Process(child, name);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /**
   * Sends a request to the process.
   * @param listener the socket at which the process serves the app from now on
   * @throws {Error} when the request fails, or the process ends
   */
  async ask(asked: Omit<AppServiceRequest, 'id'>, listener?: SocketHandle): Promise<void> {
    const id = ++this.#lastId;
    const answered = new Promise<void>((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    const request: AppServiceRequest = { id, ...asked };
    this.#child.process.send(request, listener && sendable(listener), (error) => {
      if (error) this.#asked.get(id)?.reject(error);
    });
    await answered;
  }

  async end(): Promise<void> {
    this.#child.end();
    await this.ended;
  }
}
