// The control UI: a process that the first visit starts, for a Cellar that nobody looks at needs none.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Admission, Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import type { Cell } from '../fleets/process/cell.ts';
import { startCell } from '../fleets/process/start-cell.ts';
import { log, logRarely, reason } from '../log.ts';
import { Backoff, type Restart } from '../processes/backoff.ts';
import { LineReader, messageOf } from '../processes/lines.ts';
import type { OutputPipe, OutputSink } from '../processes/output-sink.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { uiConfig } from './config.ts';
import { type Bundled, bundle, FILES, writeUi } from './files.ts';

/** How a process is probed, in ms, and after how many probes in a row without an answer it hangs. */
const PROBE = { everyMs: 5_000, deadlineMs: 5_000, missed: 3 };
/** Memory that the process may use, in MiB. */
const MEMORY_MB = 512;

export interface UiOptions {
  /** Of its program, files and socket. Nobody but the host may enter it. */
  directory: string;
  /** Of its database. */
  storage: string;
  /** Where the API listens. */
  apiSocket: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Text bindings, by name; asked at each start. They are not written down. */
  variables: () => Record<string, string>;
}

/** The control UI as something that the gateway sends requests to. */
export class Ui implements Backend {
  readonly site = 'ui';
  readonly streamsForEver = true;
  readonly #options: UiOptions;
  readonly #probe: typeof PROBE;
  /** Files and config, looked at once by this host. */
  #written: Promise<string> | null = null;
  #running: { cell: Cell; upstream: Upstream } | null = null;
  #starting: Promise<void> | null = null;
  readonly #reloads = new SerialQueue();
  readonly #backoff = new Backoff();
  /** Not started again before, as `performance.now()`. */
  #restAfterFailure = 0;
  readonly #ending = new AbortController();

  constructor(options: UiOptions, probe = PROBE) {
    this.#options = options;
    this.#probe = probe;
  }

  /** The process, while it runs. */
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
        detail: 'The control UI does not start. The log of Cellar says why; the API serves on.',
        retryAfterS: restMs / 1000,
      };
    }
    return { kind: 'hold', ready: this.#starting ?? this.#begin(this.#start()) };
  }

  /**
   * Bundles its files anew and has another process serve them, for who works on them. What is open in browsers is cut.
   * @throws {Error} esbuild's, with file and line; what ran before runs on
   */
  reload(): Promise<void> {
    return this.#reloads.run(() => this.#reload());
  }

  async #reload(): Promise<void> {
    const bundled = await bundle();
    while (this.#starting !== null) await this.#starting;
    await this.#begin(this.#replace(bundled));
  }

  /** Ends it. Drain the gateway first. */
  async close(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    await this.#starting;
    this.#running?.upstream.destroy();
    await this.#running?.cell.stop();
  }

  /** Has visits wait for a start. */
  #begin(start: Promise<void>): Promise<void> {
    this.#starting = start.finally(() => {
      this.#starting = null;
    });
    return this.#starting;
  }

  /** Never rejects, as `#start`. */
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
   * Never rejects: whoever waits is then refused.
   * @param bundled what is to be served; null: what the sources say
   */
  async #start(bundled: Bundled | null = null): Promise<void> {
    const { directory, storage, workerd, variables } = this.#options;
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
        disks: { do: storage, files: join(directory, FILES) },
        runDirectory: directory,
        sockets: ['http'],
        ownsStorage: true,
        output: new Said(),
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
      // Whoever waited saw it fail: at once it would only fail again.
      this.#rest(this.#backoff.failed());
      log('error', 'the control UI does not start', { error: reason(error) });
    }
  }

  #rest({ delayMs }: Restart): void {
    this.#restAfterFailure = performance.now() + delayMs;
  }

  /** @returns the path of the config */
  async #write(bundled: Bundled | null): Promise<string> {
    const { directory, apiSocket, variables } = this.#options;
    const files = await writeUi(directory, bundled);
    const path = join(directory, 'ui.capnp');
    await writeFile(path, uiConfig({ files, apiSocket, variables: Object.keys(variables()) }), {
      mode: 0o600,
    });
    return path;
  }
}

/** Ends a process that hangs: an endless loop stops every socket of workerd. */
function watch(cell: Cell, { everyMs, deadlineMs, missed: limit }: typeof PROBE): NodeJS.Timeout {
  let missed = 0;
  return setInterval(async () => {
    missed = (await cell.answers('http', deadlineMs)) ? 0 : missed + 1;
    if (missed >= limit) cell.kill('it did not answer');
  }, everyMs).unref();
}

/** What the process prints goes to the host's log, now and then. Strangers can have it print what they like. */
class Said implements OutputSink {
  readonly isCrowded = false;
  readonly #lines: Record<OutputPipe, LineReader>;

  constructor() {
    const reader = () =>
      new LineReader((line) =>
        logRarely('warn', 'the control UI says', { line: messageOf(line).slice(0, 500) }),
      );
    this.#lines = { stdout: reader(), stderr: reader() };
  }

  write(pipe: OutputPipe, piece: Buffer): void {
    this.#lines[pipe].write(Buffer.from(piece));
  }

  end(): void {}
}
