// The control plane: the handlers in workerd under Miniflare, with health probes, and restarts when they hang.
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { keptHandlers } from '../../bundler/modules/handlers.ts';
import { ACCOUNT_HEADER } from '../../handlers/contract/people/sign-in.ts';
import type { Admission, Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import { log, reason } from '../log.ts';
import { ControlCalls } from './control-calls.ts';
import { HandlersThread } from './handlers-thread.ts';
import { HostServer } from './host-server.ts';
import type { HandlersOptions } from './miniflare.ts';
import { controlSocket, runtimePid, writeRuntimeProgram } from './runtime-program.ts';

const PROBE_EVERY_MS = 5_000;
const PROBE_DEADLINE_MS = 5_000;
/** Consecutive probes without an answer after which the process counts as hung. */
const PROBES_MISSED_LIMIT = 3;
/** Wait after the exit of a process, in ms: by then Miniflare has restarted it, or has given up. */
const RESTART_GRACE_MS = 1_000;
const CALL_DEADLINE_MS = 60_000;
/** Start timeout, in ms: a process that does not listen by then is killed and replaced. */
const START_DEADLINE_MS = 60_000;

/** Options for the handlers and their process. */
export interface ControlOptions {
  /** Directory of its D1 database, Durable Objects, bucket and sockets. Only the host may have access. */
  directory: string;
  /** Cache for the bundled handlers; null for no cache. */
  bundles: string | null;
  /** Returns the text bindings, by name. Called at the start, when the ports are known. */
  variables: () => Record<string, string>;
  /** Authenticates the host to the control plane; new at each boot. */
  secret: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Serves the HOST binding. */
  host: RequestListener;
  /** Called after the process was restarted: the unfinished work of the old one is lost. */
  onRestart: () => void;
}

/** The body of `/internal/boot`, the first call to the control plane. */
export interface BootFacts {
  /** API key of the first account. */
  api_key: string;
  /** The secret in the `welcome` link of the first start. */
  welcome: string;
}

export interface BootAnswer {
  /** Whether that link is still valid. */
  welcome: boolean;
}

/** The control plane: a backend of the gateway, which the host also calls. */
export class Control implements Backend {
  readonly site = 'control';
  readonly streamsForEver = true;
  readonly clientHeader = ACCOUNT_HEADER;
  readonly #options: ControlOptions;
  #thread: HandlersThread | null = null;
  /** The handlers, bundled. */
  #script = '';
  readonly #host: HostServer;
  readonly #upstream: Upstream;
  readonly #calls: ControlCalls;
  readonly #up = Promise.withResolvers<void>();
  #isUp = false;
  /** Settles when a reload of the handlers has ended; null without one. Never rejects. */
  #reloading: Promise<void> | null = null;
  #probe: NodeJS.Timeout | null = null;
  #missed = 0;
  #restarts = 0;
  readonly #ending = new AbortController();

  constructor(options: ControlOptions) {
    this.#options = options;
    const socketPath = controlSocket(options.directory);
    this.#host = new HostServer(options.directory, options.host);
    this.#upstream = new Upstream({ socketPath });
    this.#calls = new ControlCalls(socketPath, options.secret);
  }

  /** How often its process was restarted. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Whether it answered the last probe. */
  get answers(): boolean {
    return this.#isUp && this.#missed === 0;
  }

  admit(): Admission {
    if (this.#reloading !== null) return { kind: 'hold', ready: this.#reloading };
    if (this.#isUp) return { kind: 'forward', upstream: this.#upstream };
    return { kind: 'hold', ready: this.#up.promise };
  }

  /**
   * Bundles the handlers again and replaces the running ones, for their developers. New requests are queued meanwhile; those
   * in flight are cut.
   * @throws {Error} of esbuild, with file and line: then the running handlers continue
   */
  async reload(): Promise<void> {
    await this.#up.promise;
    const script = await keptHandlers(this.#options.bundles);
    if (this.#ending.signal.aborted) return;
    this.#script = script;
    const reloaded = this.#runHandlers();
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
   * Bundles the handlers, unless cached, and starts them. Requests are queued meanwhile.
   * @param boot body of the first request, `/internal/boot`
   * @returns the response to that
   * @throws {ControlError} when that is rejected; the signal's reason when it is stopped meanwhile
   */
  async start(boot: BootFacts): Promise<BootAnswer> {
    // The thread loads Miniflare while the handlers are bundled.
    this.#ensureThread();
    this.#script = await keptHandlers(this.#options.bundles);
    this.#ending.signal.throwIfAborted();
    await this.#host.listen();
    let answer: BootAnswer;
    try {
      await this.#runHandlers();
      answer = (await this.call('/internal/boot', boot)) as BootAnswer;
    } catch (error) {
      await this.#thread?.end();
      this.#ending.signal.throwIfAborted();
      throw error;
    }
    this.#isUp = true;
    this.#up.resolve();
    this.#probe = setInterval(() => void this.#check(), PROBE_EVERY_MS);
    return answer;
  }

  /**
   * Calls one of its internal routes.
   * @returns the response's JSON, undefined for an empty one
   * @throws {ControlError} when it rejects the call; {Error} when it does not answer in time
   */
  call(path: string, body: unknown): Promise<unknown> {
    return this.#calls.post(path, body, AbortSignal.timeout(CALL_DEADLINE_MS));
  }

  /** Stops the control plane. Drain the gateway first. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    if (this.#probe) clearInterval(this.#probe);
    this.#upstream.destroy();
    await this.#thread?.end();
    this.#host.close();
  }

  /**
   * Runs the handlers. Replaces running ones, or leaves them if `unlessRunning`.
   * @throws {Error} when they do not start; the signal's reason after a stop
   */
  async #runHandlers(unlessRunning = false): Promise<void> {
    this.#ending.signal.throwIfAborted();
    const thread = this.#ensureThread();
    const deadline = setTimeout(endRuntime, START_DEADLINE_MS);
    try {
      await thread.run(this.#handlers(), unlessRunning);
    } finally {
      clearTimeout(deadline);
    }
  }

  #ensureThread(): HandlersThread {
    if (this.#thread !== null && !this.#thread.ended) return this.#thread;
    const { directory, workerd } = this.#options;
    this.#thread = new HandlersThread({
      program: writeRuntimeProgram(directory, workerd),
      temporary: join(directory, 'tmp'),
      onRestart: () => this.#restarted(),
      // Without its thread, workerd could be neither restarted nor stopped.
      onEnd: endRuntime,
    });
    return this.#thread;
  }

  #handlers(): HandlersOptions {
    const { directory, secret, variables } = this.#options;
    return { script: this.#script, directory, hostSocket: this.#host.path, secret, variables: variables() };
  }

  async #check(): Promise<void> {
    if (this.#reloading !== null) return;
    try {
      await this.#calls.probe(AbortSignal.timeout(PROBE_DEADLINE_MS));
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

  /** Restarts its process, unless Miniflare has restarted it, or does so now. */
  async #startAgain(): Promise<void> {
    await sleep(RESTART_GRACE_MS);
    if (this.#ending.signal.aborted || runtimePid() !== null) return;
    log('error', 'the control plane has gone; it is started again');
    try {
      await this.#runHandlers(true);
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

/** Kills Miniflare's workerd, if it runs. */
function endRuntime(): void {
  const pid = runtimePid();
  if (pid !== null) process.kill(pid, 'SIGKILL');
}
