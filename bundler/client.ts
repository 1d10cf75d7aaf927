// The host's side of the bundler's process: starts it for the first request, keeps it warm while deploys come.
import { type ChildProcess, fork } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Bundled } from './bundle.ts';
import { BuildFailure } from './failure.ts';
import type { BuildCommand } from './plan.ts';
import type { BundlerReply, BundlerRequest, BundlerResults } from './protocol.ts';

/** How long an unused process stays, in ms. It holds about 250 MB. */
const IDLE_MS = 3 * 60_000;
/** The end of its error output that explains a crash, in characters. */
const EXPLANATION = 2000;

interface Pending {
  child: ChildProcess;
  resolve: (result: BundlerResults[keyof BundlerResults]) => void;
  reject: (error: Error) => void;
}

type Unnumbered<T> = T extends unknown ? Omit<T, 'id'> : never;

/** The bundler, in a process of its own. */
export class Bundler {
  readonly #idleMs: number;
  readonly #pending = new Map<number, Pending>();
  #child: ChildProcess | null = null;
  #lastId = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(idleMs = IDLE_MS) {
    this.#idleMs = idleMs;
  }

  /** The process's id while there is one. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Starts the process, if none runs, for requests that will come. */
  warm(): void {
    clearTimeout(this.#idle);
    this.#child ??= this.#start();
    if (this.#pending.size === 0) this.#rest();
  }

  /**
   * What has to run in a fresh worktree before `bundle`; see `planBuild`.
   * @throws {BuildFailure} for a fault of the project, or when the bundler crashes or takes longer than `timeoutMs`
   */
  plan(worktree: string, environment: string | null, timeoutMs: number): Promise<BuildCommand | null> {
    return this.#request(
      { method: 'plan', worktree, environment },
      timeoutMs,
    ) as Promise<BuildCommand | null>;
  }

  /**
   * Bundles a built worktree into the directory `out`; see `bundleProject`.
   * @throws {BuildFailure} for a fault of the project, or when the bundler crashes or takes longer than `timeoutMs`
   */
  bundle(
    worktree: string,
    out: string,
    environment: string | null,
    assetsMb: number,
    timeoutMs: number,
  ): Promise<Bundled> {
    const request = { method: 'bundle', worktree, out, environment, assetsMb } as const;
    return this.#request(request, timeoutMs) as Promise<Bundled>;
  }

  /** Ends the process, and with it what it works on. A later request starts another. */
  close(): void {
    clearTimeout(this.#idle);
    const child = this.#child;
    if (child === null) return;
    this.#child = null;
    child.kill('SIGKILL');
  }

  async #request(
    request: Unnumbered<BundlerRequest>,
    timeoutMs: number,
  ): Promise<BundlerResults[keyof BundlerResults]> {
    clearTimeout(this.#idle);
    this.#child ??= this.#start();
    const child = this.#child;
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<BundlerResults[keyof BundlerResults]>();
    this.#pending.set(id, { child, resolve, reject });
    const deadline = setTimeout(() => {
      reject(new BuildFailure(`bundling took longer than ${timeoutMs / 1000} s and was ended`));
      this.close();
    }, timeoutMs);
    child.send({ ...request, id });
    try {
      return await promise;
    } finally {
      clearTimeout(deadline);
      this.#pending.delete(id);
      if (this.#pending.size === 0) this.#rest();
    }
  }

  #rest(): void {
    this.#idle = setTimeout(() => this.close(), this.#idleMs).unref();
  }

  #start(): ChildProcess {
    const child = fork(new URL('./helper.ts', import.meta.url), {
      // Not a directory where others can leave configurations.
      cwd: '/',
      env: {
        PATH: process.env.PATH ?? '',
        LANG: 'C.UTF-8',
        NO_COLOR: '1',
        WRANGLER_WRITE_LOGS: 'false',
        HOME: '/nonexistent',
      },
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let explanation = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      explanation = (explanation + text).slice(-EXPLANATION);
    });
    child.on('message', (reply: BundlerReply) => this.#settle(reply));
    const ended = (how: string) => {
      if (this.#child === child) this.#child = null;
      this.#fail(child, `the bundler ended (${how})${explanation && `:\n${explanation.trim()}`}`);
    };
    child.on('error', (error) => ended(error.message));
    child.on('exit', (code, killedBy) => ended(killedBy ?? `exit code ${code}`));
    // It must not keep the host's process alive.
    child.unref();
    child.channel?.unref();
    (child.stderr as Readable & { unref?: () => void }).unref?.();
    return child;
  }

  #settle(reply: BundlerReply): void {
    const pending = this.#pending.get(reply.id);
    if (pending === undefined) return;
    if ('result' in reply) pending.resolve(reply.result);
    else if (reply.fault === 'project') pending.reject(new BuildFailure(reply.message));
    else pending.reject(new Error(`the bundler failed: ${reply.message}`));
  }

  #fail(child: ChildProcess, message: string): void {
    for (const pending of this.#pending.values()) {
      if (pending.child === child) pending.reject(new BuildFailure(`${message}; push again`));
    }
  }
}
