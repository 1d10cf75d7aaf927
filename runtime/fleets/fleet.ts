// One app's process through its life: started, restarted after a crash, replaced by a deploy, stopped. Operations
// run one after another, and at no time do two processes have the app's storage.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import type { ProcessState } from '../../handlers/host-types.ts';
import type { Admission, Backend } from '../edge/backend.ts';
import { Upstream } from '../edge/upstream.ts';
import { reason } from '../log.ts';
import { Backoff, type Restart } from './backoff.ts';
import { type Cell, type CellExit, startCell } from './cell.ts';
import { migrate } from './migrate.ts';
import { admission, end, type Phase } from './phase.ts';
import { tryRelease } from './trial.ts';

export interface FleetOptions {
  appId: string;
  /** `run`: sockets and the pid file. `data`: the app's storage. */
  directories: { run: string; data: string };
  /** Path of the workerd program. */
  workerd: string;
  /** Gets each line of the app's process, and the fleet's own about it. */
  onLine: (line: string) => void;
  /** Called after each change of `state` or `lastError`. */
  onState: (state: ProcessState, lastError: string | null) => void;
}

/** A release on disk. */
export interface ReleaseRef {
  deployId: string;
  directory: string;
}

/** What a deploy does with a replaced release. */
export interface SwapSteps {
  /** Makes the new release the live one for good. Called once it runs, before it gets requests; may throw. */
  commit: () => void;
  log: (line: string) => void;
}

const HEALTH_TIMEOUT_MS = 2_000;

export class Fleet implements Backend {
  readonly #options: FleetOptions;
  readonly #closing = new AbortController();
  readonly #backoff = new Backoff();
  #phase: Phase = { name: 'none' };
  #live: ReleaseRef | null = null;
  #lastError: string | null = null;
  #restart: NodeJS.Timeout | null = null;
  /** Settles when the start that was asked for last has ended, also one that still waits for its turn. */
  #coming: Promise<void> | null = null;
  #work: Promise<unknown> = Promise.resolve();

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  get site(): string {
    return this.#options.appId;
  }

  get state(): ProcessState {
    // A draining process still runs; no request that comes now would reach it.
    return this.#phase.name === 'draining' ? 'running' : this.#phase.name;
  }

  /** Why it does not run, or did not start. `null` while it runs. */
  get lastError(): string | null {
    return this.#lastError;
  }

  get liveDeployId(): string | null {
    return this.#live?.deployId ?? null;
  }

  /** The process, while one serves. */
  get pid(): number | null {
    return this.#phase.name === 'running' ? this.#phase.cell.pid : null;
  }

  admit(): Admission {
    return admission(this.#phase, this.#coming);
  }

  /** Whether the process answers on the socket that runs none of the app's code. An endless loop in it shows. */
  async healthy(): Promise<boolean> {
    const phase = this.#phase;
    return phase.name === 'running' && phase.cell.answers('health', HEALTH_TIMEOUT_MS);
  }

  /**
   * Makes `release` the one to run and resolves when it serves; at once if it does already. It is restarted
   * whenever its process ends, after a failed start too.
   * @throws {Error} with the reason when it does not start
   */
  start(release: ReleaseRef): Promise<void> {
    const started = this.#serially(async () => {
      if (this.#phase.name === 'running' && this.#live?.deployId === release.deployId) return;
      this.#live = release;
      this.#backoff.reset();
      await this.#retire(this.#options.onLine);
      try {
        this.#serve(await this.#launch(release, this.#options.onLine));
      } catch (error) {
        this.#crash(this.#backoff.failed(), reason(error));
        throw error;
      }
    });
    const coming = started
      .catch(() => {})
      .then(() => {
        if (this.#coming === coming) this.#coming = null;
      });
    this.#coming = coming;
    return started;
  }

  /**
   * Ends the process: requests in flight get 10 s, then SIGTERM, then SIGKILL.
   * @param live the release a start would run, if the fleet was not told of it before
   */
  stop(live?: ReleaseRef): Promise<void> {
    return this.#serially(() => this.#stop(live));
  }

  /**
   * Replaces the release that runs, if one does, by `next`, holding requests meanwhile.
   * @throws {Error} with workerd's or SQLite's own message. Then all is as before: the release before serves again
   */
  swap(next: ReleaseRef, steps: SwapSteps): Promise<void> {
    return this.#serially(async () => {
      await tryRelease(this.#options.workerd, next.directory, this.#closing.signal);
      const before = this.#phase.name;
      await this.#retire(steps.log);
      try {
        const cell = await this.#launch(next, steps.log);
        await commitOrStop(cell, steps.commit);
        this.#live = next;
        this.#backoff.reset();
        this.#serve(cell);
      } catch (error) {
        await this.#restore(before, steps.log);
        throw error;
      }
    });
  }

  /**
   * Makes `next` the release that a later start runs, for an app that is not to run now: tried and migrated like any.
   * @throws {Error} as `swap` does; then the release before stays
   */
  adopt(next: ReleaseRef, steps: SwapSteps): Promise<void> {
    return this.#serially(async () => {
      await tryRelease(this.#options.workerd, next.directory, this.#closing.signal);
      await this.#stop();
      await this.#migrate(next, steps.log);
      steps.commit();
      this.#live = next;
      this.#enter({ name: 'stopped' });
    });
  }

  /** Stops it for good. What is under way is given up: a trial, a migration (which undoes itself), a start. */
  close(): Promise<void> {
    this.#closing.abort(new Error('the host is stopping'));
    const stopped = this.#work.then(() => this.#stop());
    this.#work = stopped;
    return stopped;
  }

  #serially<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#work.then(() => {
      this.#closing.signal.throwIfAborted();
      return operation();
    });
    this.#work = result.catch(() => {});
    return result;
  }

  /** Holds requests and ends the process, if there is one. Whoever calls it starts another, or says why not. */
  async #retire(log: (line: string) => void): Promise<void> {
    this.#cancelRestart();
    const phase = this.#phase;
    if (phase.name !== 'starting') this.#enter({ name: 'starting', gate: Promise.withResolvers() });
    if (phase.name === 'running') await end(phase, log);
  }

  async #stop(live?: ReleaseRef): Promise<void> {
    this.#cancelRestart();
    const phase = this.#phase;
    this.#live ??= live ?? null;
    if (phase.name === 'running') {
      this.#enter({ name: 'draining' });
      await end(phase, this.#options.onLine);
    }
    this.#enter({ name: this.#live === null ? 'none' : 'stopped' });
  }

  /** Brings the databases up to the release and starts its process. Nothing else may have the storage. */
  async #launch(release: ReleaseRef, log: (line: string) => void): Promise<Cell> {
    const { workerd, directories, onLine } = this.#options;
    await this.#migrate(release, log);
    return startCell({
      workerd,
      directory: release.directory,
      disks: { do: join(directories.data, 'do'), kv: join(directories.data, 'kv') },
      runDirectory: directories.run,
      sockets: ['http', 'health'],
      ownsStorage: true,
      onLine,
      signal: this.#closing.signal,
    });
  }

  async #migrate({ directory }: ReleaseRef, log: (line: string) => void): Promise<void> {
    const { workerd, directories } = this.#options;
    const release = JSON.parse(await readFile(join(directory, 'release.json'), 'utf8')) as Release;
    await migrate({
      workerd,
      release,
      directory,
      dataDirectory: directories.data,
      runDirectory: directories.run,
      log,
      signal: this.#closing.signal,
    });
  }

  #serve(cell: Cell): void {
    const upstream = new Upstream({ socketPath: cell.socketPath('http') });
    this.#enter({ name: 'running', cell, upstream });
    void cell.exited.then((exit) => this.#exited(cell, exit));
  }

  /** After a failed swap: what served before serves again, and what did not run stays so. */
  async #restore(before: Phase['name'], log: (line: string) => void): Promise<void> {
    if (this.#live === null || before === 'none' || before === 'stopped' || this.#closing.signal.aborted) {
      this.#enter({ name: this.#live === null ? 'none' : 'stopped' });
      return;
    }
    try {
      this.#serve(await this.#launch(this.#live, log));
      log('the release before serves again');
    } catch (error) {
      log(`the release before does not start either: ${reason(error)}`);
      this.#crash(this.#backoff.failed(), reason(error));
    }
  }

  #exited(cell: Cell, { reason }: CellExit): void {
    const phase = this.#phase;
    // An end that was asked for is no crash: the phase has left the process before it is told to go.
    if (phase.name !== 'running' || phase.cell !== cell) return;
    phase.upstream.destroy();
    this.#crash(this.#backoff.next(performance.now() - cell.startedAt), reason);
  }

  /** Holds or refuses requests, as `restart` says, and starts the live release again after its delay. */
  #crash({ delayMs, loop }: Restart, error: string): void {
    if (this.#closing.signal.aborted) {
      this.#enter({ name: 'stopped' });
      return;
    }
    this.#options.onLine(`restart in ${delayMs} ms: ${error}`);
    const phase = this.#phase;
    if (loop) this.#enter({ name: 'crashed', retryAt: Date.now() + delayMs }, error);
    else if (phase.name === 'starting') this.#enter(phase, error);
    else this.#enter({ name: 'starting', gate: Promise.withResolvers() }, error);
    this.#restart = setTimeout(() => {
      const due = this.#restart;
      // An operation that came meanwhile has cancelled this restart and says itself what runs.
      this.#serially(async () => {
        if (due === this.#restart) await this.#startAgain();
      }).catch(() => {});
    }, delayMs);
  }

  async #startAgain(): Promise<void> {
    this.#restart = null;
    try {
      this.#serve(await this.#launch(this.#live!, this.#options.onLine));
    } catch (error) {
      this.#crash(this.#backoff.next(0), reason(error));
    }
  }

  #cancelRestart(): void {
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#restart = null;
  }

  #enter(phase: Phase, lastError: string | null = null): void {
    const [before, state, error] = [this.#phase, this.state, this.#lastError];
    this.#phase = phase;
    this.#lastError = lastError;
    if (before.name === 'starting' && phase !== before) before.gate.resolve();
    if (state !== this.state || error !== lastError) this.#options.onState(this.state, lastError);
  }
}

async function commitOrStop(cell: Cell, commit: () => void): Promise<void> {
  try {
    commit();
  } catch (error) {
    await cell.stop();
    throw error;
  }
}
