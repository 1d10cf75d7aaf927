// The workerd process of the handlers: starts it, and restarts it when it ends by itself.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { Cell } from '../fleets/process/cell.ts';
import { lineSink } from '../fleets/process/cell-output.ts';
import { startCell } from '../fleets/process/start-cell.ts';
import { log, reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import { messageOf } from '../processes/lines.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { CONFIG, controlConfig, controlDisks, markInBucket, SOCKETS, WORKER } from './config.ts';
import { hasLocalData, moveIn } from './move-in.ts';

/** Memory that the process may use, in MiB: large bodies take most of it. */
const MEMORY_MB = 2_048;
const START_TIMEOUT_MS = 60_000;
/** Longest restart delay, in ms: the API is down meanwhile. */
const LONGEST_DELAY_MS = 5_000;
/** Files and folders that an older version of Cellar left in the directory. */
const LEFT_BY_OLDER = ['cache', 'entry.sock', 'r2', 'tmp'];
/** Longest line of its output in the log, in characters. */
const LINE_LENGTH = 10_000;

export interface HandlersProcessOptions {
  /** Directory of its data, config and sockets. Only the host may have access. */
  directory: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Directory of removed files. */
  trash: string;
  /** Where its data is in the bucket; null: it is in `directory`. */
  cluster: AppCluster | null;
  /** Called when it ended by itself and was restarted. */
  onRestart: () => void;
}

/** What the process runs. */
export interface Handlers {
  /** The bundled handlers. */
  script: string;
  /** Path of the HOST binding's socket. */
  hostSocket: string;
  /** Text bindings, by name. They are not written to the disk. */
  variables: Record<string, string>;
}

export class HandlersProcess {
  readonly #options: HandlersProcessOptions;
  /** Starts and ends run one after another. */
  readonly #queue = new SerialQueue();
  readonly #backoff = new Backoff();
  readonly #closing = new AbortController();
  #handlers: Handlers | null = null;
  #cell: Cell | null = null;

  constructor(options: HandlersProcessOptions) {
    this.#options = options;
  }

  /** Its process id; null while there is none. */
  get pid(): number | null {
    return this.#cell?.pid ?? null;
  }

  /**
   * Replaces the running handlers.
   * @throws {Error} when the new ones do not start: then none run; the signal's reason after `end`
   */
  run(handlers: Handlers): Promise<void> {
    return this.#queue.run(async () => {
      this.#handlers = handlers;
      await this.#replace(handlers);
    });
  }

  /** Kills the process, also one that hangs. It is restarted. */
  kill(): void {
    this.#cell?.kill();
  }

  /** Ends the process for good. */
  async end(): Promise<void> {
    this.#closing.abort(new Error('the host is stopping'));
    if (!this.#isShared) this.kill();
    await this.#queue.run(() => this.#stop());
  }

  async #stop(): Promise<void> {
    const cell = this.#cell;
    this.#cell = null;
    // If other hosts run the handlers too, the process ends in order: it hands its Durable Objects to them.
    if (this.#isShared) await cell?.stop();
    // Nothing is lost: all that the process has acknowledged is on the disk, or in the bucket.
    else cell?.kill();
    await cell?.exited;
    // Otherwise other hosts wait until the leases expire.
    if (cell !== null) await this.#options.cluster?.removeLeases();
  }

  /** Whether other hosts run the handlers too. */
  get #isShared(): boolean {
    return this.#options.cluster?.settings.address !== undefined;
  }

  async #replace({ script, hostSocket, variables }: Handlers): Promise<void> {
    const { directory, trash, cluster } = this.#options;
    const { signal } = this.#closing;
    signal.throwIfAborted();
    const names = Object.keys(variables);
    const text = controlConfig({ variables: names, hostSocket, cluster: cluster?.settings ?? null });
    // Removed because they may contain SQL files of users.
    for (const name of LEFT_BY_OLDER) rmSync(join(directory, name), { recursive: true, force: true });
    writeFileSync(join(directory, WORKER), script, { mode: 0o600 });
    writeFileSync(join(directory, CONFIG), text, { mode: 0o600 });
    await this.#stop();
    await cluster?.untilUsable(signal);
    if (cluster !== null && hasLocalData(directory)) {
      // This process listens at sockets that nobody else knows: a visitor's request must not write into an incomplete copy.
      const runDirectory = join(directory, 'moving');
      const mover = await this.#start(variables, runDirectory);
      await moveIn({ directory, runDirectory, trash, signal }).finally(async () => {
        mover.kill();
        await mover.exited;
      });
    }
    const cell = await this.#start(variables, directory);
    if (cluster !== null) markInBucket(directory);
    this.#cell = cell;
    void cell.exited.then(() => {
      if (this.#cell !== cell || signal.aborted) return;
      this.#cell = null;
      void this.#restart(this.#backoff.next(performance.now() - cell.startedAt).delayMs);
    });
  }

  #start(environment: Record<string, string>, runDirectory: string): Promise<Cell> {
    const { directory, workerd, cluster } = this.#options;
    return startCell({
      workerd,
      user: null,
      memoryMb: MEMORY_MB,
      isPart: true,
      directory,
      config: join(directory, CONFIG),
      environment,
      disks: controlDisks(directory, cluster !== null),
      runDirectory,
      sockets: SOCKETS,
      ownsStorage: true,
      cluster: cluster ?? undefined,
      output: lineSink((line) => log(levelOf(line), `control: ${messageOf(line).slice(0, LINE_LENGTH)}`)),
      startTimeoutMs: START_TIMEOUT_MS,
      signal: this.#closing.signal,
    });
  }

  /** Tries until the process runs, or `run` or `end` is called. Never rejects. */
  async #restart(delayMs: number): Promise<void> {
    const { signal } = this.#closing;
    const handlers = this.#handlers!;
    await sleep(Math.min(delayMs, LONGEST_DELAY_MS), undefined, { signal, ref: false }).catch(() => {});
    await this.#queue.run(async () => {
      if (signal.aborted || this.#cell !== null || this.#handlers !== handlers) return;
      try {
        await this.#replace(handlers);
        log('warn', 'the process of the control plane ended and was started again');
        this.#options.onRestart();
      } catch (error) {
        if (signal.aborted) return;
        log('error', 'the control plane does not start', { error: reason(error) });
        void this.#restart(this.#backoff.failed().delayMs);
      }
    });
  }
}

function levelOf(line: string): 'error' | 'info' {
  try {
    return JSON.parse(line).level === 'error' ? 'error' : 'info';
  } catch {
    return 'info';
  }
}
