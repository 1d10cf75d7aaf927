// Runs a program of Cellar that serves a socket, and restarts it whenever it ends. If the host holds the listening socket,
// connections wait during a restart.
import { setTimeout as sleep } from 'node:timers/promises';
import { log, reason } from '../log.ts';
import { Restarts } from '../processes/backoff.ts';
import { type Child, cleanEnvironment } from '../processes/child.ts';
import { type BoundSocket, sendable } from '../sockets/bound-socket.ts';
import { startOwnProgram } from './own-program.ts';
import type { User } from './users.ts';

/** Timeout of a start, in ms. It takes about 200 ms. */
const START_MS = 10_000;

export interface KeptProgramOptions<Message> {
  /** Its name in the log, such as `bucket proxy`. */
  name: string;
  /** Path of its module. It answers its first message with `{ type: 'listening' }`. */
  program: string;
  /** The user that runs it; `null`: the host's own user. */
  user: () => User | null;
  /** Limit of its writable memory, in bytes. Node reserves 560 MiB of it, and as much again for each worker thread. */
  memoryBytes: number;
  /** Limit of its JavaScript heap, in MiB. */
  heapMb: number;
  /** Returns its first message, which it gets with the socket. A rejection counts as a failed start. */
  setup: () => object | Promise<object>;
  /** Called for each later message of the program. */
  onMessage?: (message: Message) => void;
}

export class KeptProgram<Message extends { type: string } = { type: 'listening' }> {
  readonly #options: KeptProgramOptions<Exclude<Message, { type: 'listening' }>>;
  readonly #restarts: Restarts;
  #socket: BoundSocket | null = null;
  #child: Child | null = null;

  constructor(options: KeptProgramOptions<Exclude<Message, { type: 'listening' }>>) {
    this.#options = options;
    this.#restarts = new Restarts(options.name);
  }

  /** The process id, while it runs. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** The signal that `close` aborts. */
  get closed(): AbortSignal {
    return this.#restarts.closed;
  }

  /**
   * Starts the process, and starts it again whenever it ends, until `close`. Resolves when it listens.
   * @param socket the socket that the program listens on; the caller closes it after `close`. Null: the program opens its
   *   own
   * @throws {Error} when the first start fails; the program is then restarted, as after its end
   */
  async start(socket: BoundSocket | null): Promise<void> {
    this.#socket = socket;
    await this.#start();
  }

  /** Sends a message to the running process, if any. A later process gets only what `setup` returns. */
  send(message: object): void {
    this.#child?.process.send(message);
  }

  /** Ends the process and all its connections. */
  async close(): Promise<void> {
    this.#restarts.close();
    const child = this.#child;
    child?.end();
    await child?.exited;
  }

  async #start(): Promise<void> {
    const { name, setup } = this.#options;
    const from = performance.now();
    let child: Child;
    let first: object;
    try {
      first = await setup();
      child = await this.#spawn();
    } catch (error) {
      void this.#again(reason(error), 0);
      throw error;
    }
    const listening = new Promise<void>((resolve) => {
      child.process.on('message', (message: Message) => {
        if (message.type === 'listening') resolve();
        else this.#options.onMessage?.(message as Exclude<Message, { type: 'listening' }>);
      });
    });
    const ended = child.exited.then(({ code, killedBy }) => {
      child.end();
      this.#child = null;
      const how = killedBy ?? `exit code ${code}`;
      void this.#again(how, performance.now() - from);
      return `it ended (${how})`;
    });
    child.process.send(first, this.#socket === null ? undefined : sendable(this.#socket.handle));
    const late = sleep(START_MS, `it does not listen after ${START_MS / 1000} s`, { ref: false });
    const failure = await Promise.race([listening, ended, late]);
    if (failure === undefined) return;
    child.end();
    throw new Error(`the ${name} did not start: ${failure}`);
  }

  async #spawn(): Promise<Child> {
    const { user, ...program } = this.#options;
    const child = await startOwnProgram({ ...program, user: user(), environment: cleanEnvironment() });
    if (this.closed.aborted) {
      child.end();
      throw new Error(`the ${program.name} is closed`);
    }
    this.#child = child;
    return child;
  }

  async #again(how: string, livedMs: number): Promise<void> {
    if (!(await this.#restarts.next(how, livedMs))) return;
    await this.#start().catch((error: unknown) =>
      log('error', `the ${this.#options.name} does not serve`, { error: reason(error) }),
    );
  }
}
