// Runs the control plane: the code of `handlers/`, in a workerd process. Probes the process, and restarts it when it hangs.
import { mkdirSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { keptHandlers } from '../../bundler/modules/handlers.ts';
import { ACCOUNT_HEADER } from '../../handlers/contract/people/sign-in.ts';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { Admission, Backend } from '../edge/upstream/backend.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import { log, reason } from '../log.ts';
import { controlSocket } from './config.ts';
import { ControlCalls } from './control-calls.ts';
import { HandlersProcess } from './handlers-process.ts';
import { HostServer } from './host-server.ts';

const PROBE_EVERY_MS = 5_000;
const PROBE_DEADLINE_MS = 5_000;
/** Consecutive probes without an answer after which the process counts as hung. */
const PROBES_MISSED_LIMIT = 3;
const CALL_DEADLINE_MS = 60_000;

export interface ControlOptions {
  /** Directory of its D1 databases, Durable Objects, KV namespace and sockets. Only the host may have access. */
  directory: string;
  /** Cache for the bundled handlers; null for no cache. */
  bundles: string | null;
  /** Returns the text bindings, by name. Called at each start of the handlers, when the ports are known. */
  variables: () => Record<string, string>;
  /** Authenticates the host to the control plane. */
  secret: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Directory of removed files. */
  trash: string;
  /** Where its data is in the bucket; null: it is in `directory`. */
  cluster: AppCluster | null;
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
  /** Whether the `welcome` link is still valid. */
  welcome: boolean;
}

/** The control plane: a backend of the gateway, which the host also calls. */
export class Control implements Backend {
  readonly site = 'control';
  readonly streamsForEver = true;
  readonly clientHeader = ACCOUNT_HEADER;
  readonly #options: ControlOptions;
  readonly #process: HandlersProcess;
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
    const { directory, workerd, trash, cluster } = options;
    const onRestart = () => this.#restarted();
    this.#process = new HandlersProcess({ directory, workerd, trash, cluster, onRestart });
  }

  /** How often its process was restarted. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Whether it has started, and has answered the newest probe. */
  get answers(): boolean {
    return this.#isUp && this.#missed === 0;
  }

  admit(): Admission {
    if (this.#reloading !== null) return { kind: 'hold', ready: this.#reloading };
    if (this.#process.pid === null && this.#options.cluster?.isAway())
      return {
        kind: 'refuse',
        status: 503,
        code: 'host_unavailable',
        reason: 'no_answer',
        detail: 'The bucket that has the data of the API does not answer. Try again when it is back.',
        retryAfterS: 5,
      };
    if (this.#isUp) return { kind: 'forward', upstream: this.#upstream };
    return { kind: 'hold', ready: this.#up.promise };
  }

  /**
   * Bundles the handlers again and replaces the running ones, for their developers. New requests are queued meanwhile; those
   * in flight are cut.
   * @throws {Error} of esbuild, with file and line; then the running handlers continue
   * @throws {Error} when the new handlers do not start; then none run
   */
  async reload(): Promise<void> {
    await this.#up.promise;
    const script = await keptHandlers(this.#options.bundles);
    const reloaded = this.#run(script);
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
   * @returns the response to `boot`
   * @throws {ControlError} when the control plane rejects `boot`
   * @throws {Error} when the handlers do not start, or `stop` is called meanwhile
   */
  async start(boot: BootFacts): Promise<BootAnswer> {
    const script = await keptHandlers(this.#options.bundles);
    this.#ending.signal.throwIfAborted();
    mkdirSync(this.#options.directory, { recursive: true, mode: 0o700 });
    await this.#host.listen();
    await this.#run(script);
    const answer = (await this.call('/internal/boot', boot)) as BootAnswer;
    this.#isUp = true;
    this.#up.resolve();
    this.#probe = setInterval(() => void this.#check(), PROBE_EVERY_MS);
    return answer;
  }

  /**
   * Calls one of its internal routes.
   * @param deadlineMs timeout of the answer
   * @returns the response's JSON, undefined for an empty one
   * @throws {ControlError} when it rejects the call; {Error} when it does not answer in time
   */
  call(path: string, body: unknown, deadlineMs = CALL_DEADLINE_MS): Promise<unknown> {
    return this.#calls.post(path, body, AbortSignal.timeout(deadlineMs));
  }

  /** Stops the control plane. Drain the gateway first. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    if (this.#probe) clearInterval(this.#probe);
    this.#upstream.destroy();
    await this.#process.end();
    this.#host.close();
  }

  #run(script: string): Promise<void> {
    const { secret, variables } = this.#options;
    const hostSocket = this.#host.path;
    return this.#process.run({ script, hostSocket, variables: { ...variables(), HOST_SECRET: secret } });
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
      const { pid } = this.#process;
      if (pid === null || this.#missed % PROBES_MISSED_LIMIT !== 0) return;
      log('error', 'the control plane hangs; restarting it', { pid });
      this.#process.kill();
    }
  }

  #restarted(): void {
    this.#missed = 0;
    this.#restarts++;
    if (this.#isUp) this.#options.onRestart();
  }
}
