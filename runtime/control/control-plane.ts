// The control plane: the handlers in workerd under Miniflare, probed, and restarted when they hang.
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { aborted } from 'node:util';
import { keptHandlers } from '../../bundler/modules/handlers.ts';
import { ACCOUNT_HEADER } from '../../handlers/contract/people/sign-in.ts';
import type { Admission, Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import { log, reason } from '../log.ts';
import { ControlCalls, ControlError } from './control-calls.ts';
import { HandlersThread } from './handlers-thread.ts';
import { HostServer } from './host-server.ts';
import type { HandlersOptions } from './miniflare.ts';
import { controlSocket, runtimePid, writeRuntimeProgram } from './runtime-program.ts';

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
/** What the handlers are given. */
export interface ControlOptions {
  /** Directory of its D1 database, Durable Objects, bucket and sockets. Nobody but the host may enter it. */
  directory: string;
  /** Where the bundled handlers are kept; null: nowhere. */
  bundles: string | null;
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

/** The control plane as something that the gateway sends requests to and the host calls. */
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
  /** Settles when the handlers have been loaded again; null while they are not. Never rejects. */
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
   * Bundles the handlers, unless they are kept, and starts them. Requests that come before are held.
   * @param boot what `/internal/boot` is given, before any other request
   * @returns what it answers
   * @throws {ControlError} when it refuses that; the signal's reason when it is stopped meanwhile
   */
  async start(boot: BootFacts): Promise<BootAnswer> {
    // It loads Miniflare meanwhile.
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
   * @returns the answer's JSON, undefined for an empty one
   * @throws {ControlError} when it refuses; {Error} when it does not answer in time
   */
  call(path: string, body: unknown): Promise<unknown> {
    return this.#calls.post(path, body, AbortSignal.timeout(CALL_DEADLINE_MS));
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
        await this.#calls.post('/internal/wake', { id }, signal);
        return;
      } catch (error) {
        if (error instanceof ControlError || signal.aborted) throw error;
        await sleep(WAKE_RETRY_MS, undefined, { signal });
      }
    }
  }

  /** Ends it. Drain the gateway first. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    if (this.#probe) clearInterval(this.#probe);
    this.#upstream.destroy();
    await this.#thread?.end();
    this.#host.close();
    await this.#calls.close();
  }

  /**
   * Runs the handlers, in place of those that run, or unless there are some.
   * @throws {Error} when they do not start; the signal's reason once it is stopped
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
      // Its thread cannot start it again, or end it.
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

  /** Starts its process again, unless Miniflare has done so, or does it now. */
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

/** Ends Miniflare's workerd, if it runs. */
function endRuntime(): void {
  const pid = runtimePid();
  if (pid !== null) process.kill(pid, 'SIGKILL');
}
