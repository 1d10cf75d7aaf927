// The control plane: the handlers in workerd under Miniflare, probed, and restarted when they hang.
import diagnosticsChannel from 'node:diagnostics_channel';
import { mkdirSync, rmSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import type { Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { aborted } from 'node:util';
import type { Miniflare, MiniflareOptions } from 'miniflare';
import { Agent, request } from 'undici';
import { keptHandlers } from '../../bundler/handlers.ts';
import type { Admission, Backend } from '../edge/backend.ts';
import { Upstream } from '../edge/upstream.ts';
import { log, reason } from '../log.ts';
import { HostServer } from './host-server.ts';
import { controlSocket, runtimePid, tellOfEarlyEnds, writeRuntimeProgram } from './runtime-program.ts';

const PROBE_EVERY_MS = 5_000;
const PROBE_DEADLINE_MS = 5_000;
/** After this many probes in a row without an answer the process counts as hung. */
const PROBES_MISSED_LIMIT = 3;
/** Wait after the end of a process, in ms: by then Miniflare has started a new one, or has given up. */
const RESTART_GRACE_MS = 1_000;
const CALL_DEADLINE_MS = 60_000;
/** A process that does not listen this long after its start, in ms, is ended, and another is tried. */
const START_DEADLINE_MS = 60_000;
/** Pause between tries to reach a control plane that has ended, in ms. It is back in about 50 ms. */
const WAKE_RETRY_MS = 50;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** Connections that Miniflare's own server takes. Its workerd needs it for little more than the log. */
const MINIFLARE_CONNECTIONS = 32;

/** What the handlers are given. */
export interface ControlOptions {
  /** Directory of its D1 database, Durable Objects, bucket and sockets. Nobody but the host may enter it. */
  directory: string;
  /** Where its handlers are kept, bundled. */
  bundles: string;
  /** Text bindings, by name; asked at the start, when the ports are known. */
  variables: () => Record<string, string>;
  /** Proves the host to the control plane; new at each boot. */
  secret: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Serves the HOST binding. */
  host: RequestListener;
  /** Called when the process has ended and another one answers: the first one's unfinished work is lost. */
  onRestart: () => void;
}

/** What the control plane is told first. */
export interface BootFacts {
  /** The first account's key. */
  api_key: string;
  /** The secret in the link of the first start. */
  welcome: string;
}

export interface BootAnswer {
  /** Whether that link can still be used. */
  welcome: boolean;
}

/** A request of the host's own. */
interface Asked {
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
  signal: AbortSignal;
}

/** The control plane refused a call. */
export class ControlError extends Error {
  readonly status: number;
  /** One of the contract's error codes, if the answer has one. */
  readonly code: unknown;
  constructor(status: number, message: string, code?: unknown) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The control plane as something that the gateway sends requests to and the host calls. */
export class Control implements Backend {
  readonly site = 'control';
  readonly streamsForEver = true;
  readonly #options: ControlOptions;
  #miniflare: Miniflare | null = null;
  /** The handlers, bundled. */
  #script = '';
  readonly #host: HostServer;
  readonly #upstream: Upstream;
  /** What the host's own calls go through. */
  readonly #agent: Agent;
  readonly #up = Promise.withResolvers<void>();
  #isUp = false;
  /** Settles when the handlers have been loaded again; null while they are not. Never rejects. */
  #reloading: Promise<void> | null = null;
  #probe: NodeJS.Timeout | null = null;
  #missed = 0;
  #restarts = 0;
  readonly #ending = new AbortController();
  #stopTelling: (() => void) | null = null;

  constructor(options: ControlOptions) {
    this.#options = options;
    const socketPath = controlSocket(options.directory);
    this.#host = new HostServer(options.directory, options.host);
    this.#upstream = new Upstream({ socketPath });
    // Calls have their own deadlines.
    this.#agent = new Agent({ connect: { socketPath }, headersTimeout: 0, bodyTimeout: 0 });
  }

  /** How often its process has ended and was started again. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Whether it answered when it was last asked. */
  get answers(): boolean {
    return this.#isUp && this.#missed === 0;
  }

  admit(): Admission {
    if (this.#reloading !== null) return { kind: 'hold', ready: this.#reloading };
    if (this.#isUp) return { kind: 'forward', upstream: this.#upstream };
    return { kind: 'hold', ready: this.#up.promise };
  }

  /**
   * Bundles the handlers anew and starts them in place of the running ones, for people who work on them. Requests that come
   * meanwhile are held, and those in flight are cut.
   * @throws {Error} esbuild's, with file and line: then the running handlers go on
   */
  async reload(): Promise<void> {
    await this.#up.promise;
    const script = await keptHandlers(this.#options.bundles);
    if (this.#ending.signal.aborted) return;
    this.#script = script;
    const reloaded = this.#miniflare!.setOptions(this.#miniflareOptions());
    this.#reloading = reloaded
      .catch(() => {})
      .then(() => {
        this.#reloading = null;
      });
    await reloaded;
    this.#missed = 0;
    this.#options.onRestart();
  }

  /**
   * Bundles the handlers, unless they are kept, and starts them. Requests that come before are held.
   * @param boot what `/internal/boot` is given, before any other request
   * @returns what it answers
   * @throws {ControlError} when it refuses that; the signal's reason when it is stopped meanwhile
   */
  async start(boot: BootFacts): Promise<BootAnswer> {
    // Importing Miniflare takes over half a second, so the apps are serving before anyone gets here.
    const [script, { Miniflare }] = await Promise.all([
      keptHandlers(this.#options.bundles),
      import('miniflare'),
    ]);
    this.#ending.signal.throwIfAborted();
    this.#script = script;
    const { directory, workerd } = this.#options;
    const program = writeRuntimeProgram(directory, workerd);
    process.env.MINIFLARE_WORKERD_PATH = program;
    this.#stopTelling?.();
    this.#stopTelling = tellOfEarlyEnds(program);
    await this.#host.listen();
    const signalListeners = SIGNALS.map((signal) => process.listeners(signal));
    const restore = this.#useOwnTemporaryDirectory();
    const unbind = boundServers();
    this.#miniflare = new Miniflare(this.#miniflareOptions());
    restore();
    // Miniflare would end the process on a signal; the host drains first.
    SIGNALS.forEach((signal, i) => {
      for (const listener of process.listeners(signal)) {
        if (!signalListeners[i]!.includes(listener)) process.off(signal, listener);
      }
    });
    let answer: BootAnswer;
    const deadline = setTimeout(endRuntime, START_DEADLINE_MS);
    try {
      await this.#miniflare.ready;
      clearTimeout(deadline);
      answer = (await this.call('/internal/boot', boot)) as BootAnswer;
    } catch (error) {
      const failed = this.#miniflare;
      this.#miniflare = null;
      await failed.dispose().catch(() => {});
      throw error;
    } finally {
      clearTimeout(deadline);
      unbind();
    }
    this.#isUp = true;
    this.#up.resolve();
    this.#probe = setInterval(() => void this.#check(), PROBE_EVERY_MS);
    return answer;
  }

  /**
   * Calls one of its internal routes.
   * @returns the answer's JSON, undefined for an empty one
   * @throws {ControlError} when it refuses; {Error} when it does not answer in time
   */
  call(path: string, body: unknown): Promise<unknown> {
    return this.#post(path, body, AbortSignal.timeout(CALL_DEADLINE_MS));
  }

  /**
   * Has the control plane wake an app. Asks again when its process ends meanwhile.
   * @throws {ControlError} when the app does not start; {Error} when there is no answer within `timeoutMs`
   */
  async wake(id: string, timeoutMs: number): Promise<void> {
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#ending.signal]);
    for (;;) {
      await Promise.race([this.#up.promise, aborted(signal, this)]);
      signal.throwIfAborted();
      try {
        await this.#post('/internal/wake', { id }, signal);
        return;
      } catch (error) {
        if (error instanceof ControlError || signal.aborted) throw error;
        await sleep(WAKE_RETRY_MS, undefined, { signal });
      }
    }
  }

  #post(path: string, body: unknown, signal: AbortSignal): Promise<unknown> {
    return this.#ask(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-cellar-secret': this.#options.secret },
      body: JSON.stringify(body),
      signal,
    });
  }

  async #ask(path: string, options: Asked): Promise<unknown> {
    const { statusCode, text } = await this.#answer(path, options);
    if (statusCode < 200 || statusCode > 299) throw refusalOf(path, statusCode, text);
    return text === '' ? undefined : JSON.parse(text);
  }

  async #answer(path: string, options: Asked): Promise<{ statusCode: number; text: string }> {
    const url = `http://control${path}`;
    const { statusCode, body } = await request(url, { ...options, dispatcher: this.#agent });
    return { statusCode, text: await body.text() };
  }

  /** Ends it. Drain the gateway first. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    if (this.#probe) clearInterval(this.#probe);
    this.#upstream.destroy();
    await this.#miniflare?.dispose();
    this.#stopTelling?.();
    this.#host.close();
    await this.#agent.destroy();
  }

  #miniflareOptions(): MiniflareOptions {
    return {
      host: '127.0.0.1',
      port: 0,
      cf: false,
      telemetry: { enabled: false },
      // The dev registry would open a port by which every user of the machine can call every service and object.
      enableDevRegistry: false,
      logRequests: false,
      handleStructuredLogs: ({ level, message }) =>
        log(level === 'error' ? 'error' : 'info', `control: ${message}`),
      resourcePersistencePath: this.#options.directory,
      unsafeHandleRuntimeRestart: () => this.#restarted(),
      workers: [
        {
          config: {
            name: 'control',
            compatibilityDate: '2026-10-01',
            manifest: {
              mainModule: 'index.js',
              modulesRoot: '/',
              modules: { 'index.js': { type: 'esm', contents: this.#script } },
            },
            env: {
              DB: { type: 'd1', id: 'control' },
              BUCKET: { type: 'r2', name: 'control' },
              APP: { type: 'durable-object', worker: 'control', exportName: 'AppObject' },
              HOST: { type: 'external', address: `unix:${this.#host.path}`, http: {} },
              HOST_SECRET: { type: 'text', value: this.#options.secret },
              ...textBindings(this.#options.variables()),
            },
            exports: { AppObject: { type: 'durable-object', storage: 'sqlite' } },
          },
          // Miniflare's own entry costs two thirds of the throughput. The address is replaced: see `writeRuntimeProgram`.
          dev: { rootPath: '/', unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] },
        },
      ],
    };
  }

  /** Has Miniflare keep its temporary files where the next start removes what a killed host left. */
  #useOwnTemporaryDirectory(): () => void {
    const before = process.env.TMPDIR;
    const directory = join(this.#options.directory, 'tmp');
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory, { mode: 0o700 });
    process.env.TMPDIR = directory;
    return () => {
      if (before === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = before;
    };
  }

  async #check(): Promise<void> {
    if (this.#reloading !== null) return;
    try {
      await this.#answer('/internal/probe', { signal: AbortSignal.timeout(PROBE_DEADLINE_MS) });
      this.#missed = 0;
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      this.#missed++;
      log('warn', 'the control plane did not answer', { missed: this.#missed, error: reason(error) });
      const pid = runtimePid();
      if (pid === null) await this.#startAgain();
      else if (this.#missed % PROBES_MISSED_LIMIT === 0) {
        log('error', 'the control plane hangs; restarting it', { pid });
        process.kill(pid, 'SIGKILL');
      }
    }
  }

  /** Miniflare starts a new workerd when one has ended, but gives up when the new one ends during its start. */
  async #startAgain(): Promise<void> {
    await sleep(RESTART_GRACE_MS);
    if (this.#ending.signal.aborted || runtimePid() !== null) return;
    log('error', 'the control plane has gone; starting it again');
    try {
      await this.#miniflare!.setOptions(this.#miniflareOptions());
      this.#restarted();
    } catch (error) {
      log('error', 'the control plane does not start', { error: reason(error) });
    }
  }

  #restarted(): void {
    log('warn', 'the process of the control plane ended and was started again');
    this.#missed = 0;
    this.#restarts++;
    this.#options.onRestart();
  }
}

/** Ends Miniflare's workerd, if it runs. */
function endRuntime(): void {
  const pid = runtimePid();
  if (pid !== null) process.kill(pid, 'SIGKILL');
}

function refusalOf(path: string, status: number, text: string): ControlError {
  const message = `${path} answered ${status}: ${text.slice(0, 500)}`;
  try {
    return new ControlError(status, message, (JSON.parse(text) as { code?: unknown }).code);
  } catch {
    return new ControlError(status, message);
  }
}

function textBindings(variables: Record<string, string>): Record<string, { type: 'text'; value: string }> {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, { type: 'text', value }]),
  );
}

/**
 * Bounds the TCP server that Miniflare starts in this process. It answers nobody without its secret, but every user of
 * the machine could fill this process with connections to it. Call what is returned when it listens.
 */
function boundServers(): () => void {
  const channel = 'tracing:net.server.listen:asyncStart';
  const bound = (message: unknown) => {
    (message as { server: Server }).server.maxConnections = MINIFLARE_CONNECTIONS;
  };
  diagnosticsChannel.subscribe(channel, bound);
  return () => diagnosticsChannel.unsubscribe(channel, bound);
}
