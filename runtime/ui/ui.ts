// The control UI's process. The first request to the UI starts it, to save memory on a Cellar whose UI nobody uses.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Admission, Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import type { Cell } from '../fleets/process/cell.ts';
import { lineSink } from '../fleets/process/cell-output.ts';
import { startCell } from '../fleets/process/start-cell.ts';
import { log, logRarely, reason } from '../log.ts';
import { Backoff, type Restart } from '../processes/backoff.ts';
import { messageOf } from '../processes/lines.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { uiConfig } from './config.ts';
import { type Bundled, bundle, FILES, writeUi } from './files.ts';

/** Interval and timeout of probes in ms. A process that does not answer `missed` probes in a row is killed. */
const PROBE = { everyMs: 5_000, deadlineMs: 5_000, missed: 3 };
/** Memory that the process may use, in MiB. */
const MEMORY_MB = 512;
/** Longest line of the process's output in the log, in characters. */
const LINE_LENGTH = 500;

export interface UiOptions {
  /** Directory of the UI's program, files and socket. Only the host's user may enter it. */
  directory: string;
  /** Path of the socket of the UI's database. */
  databaseSocket: string;
  /** Path of the API's socket. */
  apiSocket: string;
  /** Whether the process may connect to other machines, for sign-in by an OpenID provider. */
  isConnected: boolean;
  /** Path of the workerd program. */
  workerd: string;
  /** Returns the text bindings, by name. Called at each start. Their values are not written to the disk. */
  variables: () => Record<string, string>;
}

/** The control UI as a backend of the gateway. */
export class Ui implements Backend {
  readonly site = 'ui';
  readonly streamsForEver = true;
  readonly #options: UiOptions;
  readonly #probe: typeof PROBE;
  /** Resolves with the config's path once the config and the files are written. Null: they are still to be written. */
  #written: Promise<string> | null = null;
  #running: { cell: Cell; upstream: Upstream } | null = null;
  #starting: Promise<void> | null = null;
  readonly #reloads = new SerialQueue();
  readonly #backoff = new Backoff();
  /** Earliest time of the next start, on the clock of `performance.now()`. */
  #restAfterFailure = 0;
  readonly #ending = new AbortController();

  constructor(options: UiOptions, probe = PROBE) {
    this.#options = options;
    this.#probe = probe;
  }

  /** The process's id; null while it does not run. */
  get pid(): number | null {
    return this.#running?.cell.pid ?? null;
  }

  admit(): Admission {
    if (this.#running !== null) return { kind: 'forward', upstream: this.#running.upstream };
    const restMs = this.#restAfterFailure - performance.now();
    if (this.#starting === null && restMs > 0) {
      return {
        kind: 'refuse',
        status: 503,
        code: 'host_unavailable',
        reason: 'no_answer',
        detail: "The control UI does not start. Cellar's log says why; the API still works.",
        retryAfterS: restMs / 1000,
      };
    }
    return { kind: 'hold', ready: this.#starting ?? this.#begin(this.#start()) };
  }

  /**
   * Bundles the UI again and replaces the process, for development. Closes open connections.
   * @throws {Error} esbuild's, with file and line; then the old process keeps running
   */
  reload(): Promise<void> {
    return this.#reloads.run(() => this.#reload());
  }

  async #reload(): Promise<void> {
    const bundled = await bundle();
    while (this.#starting !== null) await this.#starting;
    await this.#begin(this.#replace(bundled));
  }

  /** Ends the process. Drain the gateway first. */
  async close(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    await this.#starting;
    this.#running?.upstream.destroy();
    await this.#running?.cell.stop();
  }

  /** Makes requests wait for a start. */
  #begin(start: Promise<void>): Promise<void> {
    this.#starting = start.finally(() => {
      this.#starting = null;
    });
    return this.#starting;
  }

  /** Ends the process, and starts one with new files. Never rejects. */
  async #replace(bundled: Bundled): Promise<void> {
    const running = this.#running;
    this.#running = null;
    running?.upstream.destroy();
    await running?.cell.stop();
    this.#written = null;
    this.#restAfterFailure = 0;
    await this.#start(bundled);
  }

  /**
   * Starts the process. Never rejects: after a failure, requests are refused for a while.
   * @param bundled the files to serve; null: bundles the current sources
   */
  async #start(bundled: Bundled | null = null): Promise<void> {
    const { directory, workerd, variables } = this.#options;
    const { signal } = this.#ending;
    try {
      signal.throwIfAborted();
      this.#written ??= this.#write(bundled);
      const config = await this.#written;
      const cell = await startCell({
        workerd,
        user: null,
        memoryMb: MEMORY_MB,
        directory,
        config,
        environment: variables(),
        disks: { files: join(directory, FILES) },
        runDirectory: directory,
        sockets: ['http'],
        ownsStorage: false,
        // Rate-limited, because any client can make the process print text.
        output: lineSink((line) =>
          logRarely('warn', 'the control UI says', { line: messageOf(line).slice(0, LINE_LENGTH) }),
        ),
        signal,
      });
      const upstream = new Upstream({ socketPath: cell.socketPath('http') });
      this.#running = { cell, upstream };
      const probe = watch(cell, this.#probe);
      void cell.exited.then(({ reason }) => {
        clearInterval(probe);
        if (this.#running?.cell !== cell) return;
        this.#running = null;
        upstream.destroy();
        if (signal.aborted) return;
        this.#rest(this.#backoff.next(performance.now() - cell.startedAt));
        log('error', 'the process of the control UI ended; the next visit starts it again', { reason });
      });
    } catch (error) {
      if (signal.aborted) return;
      this.#written = null;
      // Another start at once would probably fail too.
      this.#rest(this.#backoff.failed());
      log('error', 'the control UI does not start', { error: reason(error) });
    }
  }

  #rest({ delayMs }: Restart): void {
    this.#restAfterFailure = performance.now() + delayMs;
  }

  /** Writes the files and the config. @returns the path of the config */
  async #write(bundled: Bundled | null): Promise<string> {
    const { directory, apiSocket, databaseSocket, isConnected, variables } = this.#options;
    const files = await writeUi(directory, bundled);
    const path = join(directory, 'ui.capnp');
    await writeFile(
      path,
      uiConfig({ files, apiSocket, databaseSocket, isConnected, variables: Object.keys(variables()) }),
      {
        mode: 0o600,
      },
    );
    return path;
  }
}

/** Kills the process when it does not answer: an endless loop would block all sockets of workerd. Returns the timer. */
function watch(cell: Cell, { everyMs, deadlineMs, missed: limit }: typeof PROBE): NodeJS.Timeout {
  let missed = 0;
  return setInterval(async () => {
    missed = (await cell.answers('http', deadlineMs)) ? 0 : missed + 1;
    if (missed >= limit) cell.kill('it did not answer');
  }, everyMs).unref();
}
