// The control plane: the handlers in workerd under Miniflare, probed, and restarted when they hang.
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { aborted } from 'node:util';
import type { Miniflare, MiniflareOptions } from 'miniflare';
import { bundleHandlers } from '../../bundler/handlers.ts';
import type { Admission, Backend } from '../edge/backend.ts';
import { Upstream } from '../edge/upstream.ts';
import { log, reason } from '../log.ts';
import { writeAtomic } from '../machine/data-directory.ts';
import { dieWithParent } from '../machine/users.ts';

const PROBE_EVERY_MS = 5_000;
const PROBE_DEADLINE_MS = 5_000;
/** So many probes in a row without an answer: it hangs. */
const PROBES_MISSED_LIMIT = 3;
/** Miniflare has started a new process before that, or has given up. */
const RESTART_GRACE_MS = 1_000;
const CALL_DEADLINE_MS = 60_000;
/** A control plane that died is back in a twentieth of a second. */
const WAKE_RETRY_MS = 50;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** What the handlers are given. */
export interface ControlOptions {
  /** Directory of its D1 database, Durable Objects and bucket. */
  directory: string;
  /** Text bindings, by name; asked at the start, when the ports are known. */
  variables: () => Record<string, string>;
  /** Proves the host to the control plane; new at each boot. */
  secret: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Serves the HOST binding. */
  host: (request: IncomingMessage, response: ServerResponse) => void;
  /** Called when it has died and is back: what it was about to do is lost. */
  onRestart: () => void;
}

/** An answer of the control plane that says no. */
export class ControlError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The control plane as something that the gateway sends requests to and the host calls. */
export class Control implements Backend {
  readonly site = 'control';
  readonly #options: ControlOptions;
  #miniflare: Miniflare | null = null;
  /** The handlers, bundled. */
  #script = '';
  #origin = '';
  #upstream: Upstream | null = null;
  readonly #up = Promise.withResolvers<void>();
  #isUp = false;
  #probe: NodeJS.Timeout | null = null;
  #missed = 0;
  readonly #ending = new AbortController();

  constructor(options: ControlOptions) {
    this.#options = options;
  }

  /** Whether it answered when it was last asked. */
  get answers(): boolean {
    return this.#isUp && this.#missed === 0;
  }

  admit(): Admission {
    if (this.#upstream !== null && this.#isUp) return { kind: 'forward', upstream: this.#upstream };
    return { kind: 'hold', ready: this.#up.promise };
  }

  /**
   * Bundles the handlers and starts them. Requests that come before are held.
   * @param boot what `/internal/boot` is given, before any other request
   */
  async start(boot: { api_key: string }): Promise<void> {
    // Importing Miniflare takes over half a second, so the apps are serving before anyone gets here.
    const [script, { Miniflare }] = await Promise.all([bundleHandlers(), import('miniflare')]);
    if (this.#ending.signal.aborted) return;
    this.#script = script;
    process.env.MINIFLARE_WORKERD_PATH = this.#writeRuntime();
    const signalListeners = SIGNALS.map((signal) => process.listeners(signal));
    const restore = this.#useOwnTemporaryDirectory();
    this.#miniflare = new Miniflare(this.#miniflareOptions());
    restore();
    // It would end the process on a signal; the host drains first.
    SIGNALS.forEach((signal, i) => {
      for (const listener of process.listeners(signal)) {
        if (!signalListeners[i]!.includes(listener)) process.off(signal, listener);
      }
    });
    try {
      await this.#miniflare.ready;
      await this.#connect();
      await this.call('/internal/boot', boot);
    } catch (error) {
      const failed = this.#miniflare;
      this.#miniflare = null;
      await failed.dispose().catch(() => {});
      throw error;
    }
    this.#isUp = true;
    this.#up.resolve();
    this.#probe = setInterval(() => void this.#check(), PROBE_EVERY_MS);
  }

  /**
   * Calls one of its internal routes.
   * @returns the answer's JSON, undefined for an empty one
   * @throws {ControlError} when it refuses; {Error} when it does not answer in time
   */
  call(path: string, body: unknown): Promise<unknown> {
    return this.#fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-cellar-secret': this.#options.secret },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_DEADLINE_MS),
    });
  }

  /**
   * Has it wake the app at a host name, by the route that any proxy may ask. Asks again when it goes meanwhile.
   * @throws {ControlError} when the app does not start; {Error} when there is no answer within `timeoutMs`
   */
  async wake(hostname: string, timeoutMs: number): Promise<void> {
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#ending.signal]);
    for (;;) {
      await Promise.race([this.#up.promise, aborted(signal, this)]);
      signal.throwIfAborted();
      try {
        await this.#fetch('/v1/edge/wake', { headers: { 'x-forwarded-host': hostname }, signal });
        return;
      } catch (error) {
        if (error instanceof ControlError || signal.aborted) throw error;
        await sleep(WAKE_RETRY_MS, undefined, { signal });
      }
    }
  }

  async #fetch(path: string, init: RequestInit): Promise<unknown> {
    const response = await fetch(this.#origin + path, init);
    const text = await response.text();
    if (!response.ok)
      throw new ControlError(response.status, `${path} answered ${response.status}: ${text.slice(0, 500)}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  /** Ends it. Drain the gateway first. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    if (this.#probe) clearInterval(this.#probe);
    this.#upstream?.destroy();
    await this.#miniflare?.dispose();
  }

  #miniflareOptions(): MiniflareOptions {
    return {
      host: '127.0.0.1',
      port: 0,
      cf: false,
      telemetry: { enabled: false },
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
              HOST: { type: 'node-handler', handler: this.#options.host },
              HOST_SECRET: { type: 'text', value: this.#options.secret },
              ...textBindings(this.#options.variables()),
            },
            exports: { AppObject: { type: 'durable-object', storage: 'sqlite' } },
          },
          // Miniflare's own entry costs two thirds of the throughput.
          dev: { rootPath: '/', unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] },
        },
      ],
    };
  }

  async #connect(): Promise<void> {
    const url = await this.#miniflare?.unsafeGetDirectURL();
    if (url === undefined || url.origin === this.#origin) return;
    this.#origin = url.origin;
    this.#upstream?.destroy();
    this.#upstream = new Upstream({ origin: url.origin });
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

  /** Writes the program that Miniflare runs: workerd, ended by the kernel when the host ends however it does. */
  #writeRuntime(): string {
    const { directory, workerd } = this.#options;
    const ending = dieWithParent();
    // In a session of its own, so that Ctrl-C in the host's terminal is the host's to handle.
    const session = ending.length > 0 ? ['/usr/bin/setsid'] : [];
    const words = [...session, ...ending, workerd].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
    const path = join(directory, 'workerd');
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    writeAtomic(path, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`, 0o700);
    return path;
  }

  async #check(): Promise<void> {
    try {
      const response = await fetch(`${this.#origin}/internal/probe`, {
        signal: AbortSignal.timeout(PROBE_DEADLINE_MS),
      });
      await response.arrayBuffer();
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

  /** Miniflare starts a new one when its workerd has died, but gives up when that one dies while it starts. */
  async #startAgain(): Promise<void> {
    await sleep(RESTART_GRACE_MS);
    if (this.#ending.signal.aborted || runtimePid() !== null) return;
    log('error', 'the control plane has gone; starting it again');
    try {
      await this.#miniflare!.setOptions(this.#miniflareOptions());
      await this.#restarted();
    } catch (error) {
      log('error', 'the control plane does not start', { error: reason(error) });
    }
  }

  async #restarted(): Promise<void> {
    log('warn', 'the process of the control plane ended and was started again');
    this.#missed = 0;
    await this.#connect();
    this.#options.onRestart();
  }
}

function textBindings(variables: Record<string, string>): Record<string, { type: 'text'; value: string }> {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, { type: 'text', value }]),
  );
}

/** The pid of Miniflare's workerd, which it does not tell: of this process's children, the one fed a binary config on stdin. */
export function runtimePid(): number | null {
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
    .trim()
    .split(' ');
  for (const child of children) {
    try {
      const words = readFileSync(`/proc/${child}/cmdline`, 'utf8').split('\0');
      if (words[0]!.endsWith('workerd') && words.includes('--binary')) return Number(child);
    } catch {
      // It has gone since.
    }
  }
  return null;
}
