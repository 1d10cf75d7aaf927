// Starts and calls the bundler's processes: one for each concurrent request, so that projects cannot delay or crash each other.
// An idle one is kept for the next deploy.
import type { Bundled, BundleOptions } from '../../../bundler/bundle.ts';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { BuiltProject, Plan, PlanOptions } from '../../../bundler/project/plan.ts';
import type { BundlerReply, BundlerRequest, BundlerResults } from '../../../bundler/protocol.ts';
import { removeTree } from '../../disk/remove.ts';
import { dieWithParent } from '../../isolation/users.ts';
import { type Child, startChild } from '../../processes/child.ts';
import { endFirst } from '../../resources/limited.ts';
import { minimumCpuShare } from '../../resources/low-priority.ts';
import { toLowPriority } from '../../resources/low-priority-group.ts';
import { withDataLimit } from '../../resources/process-limits.ts';
import { compiledDirectory } from '../../threads/compile-cache.ts';

/** How long an unused process stays, in ms. It holds about 250 MB. */
const IDLE_MS = 3 * 60_000;
/** Maximum characters of a process's error output in a crash message; the end is kept. */
const EXPLANATION = 2000;
/** Limit of writable memory, in bytes: for the bundler's process, and as much again for its esbuild process. */
const MEMORY_BYTES = 2 * 2 ** 30;
/** Matches the errors that esbuild's API throws after the esbuild process has ended. */
const ESBUILD_ENDED = /The service (?:was stopped|is no longer running)/;
const HELPER = new URL('../../../bundler/helper.ts', import.meta.url).pathname;

type Result = BundlerResults[keyof BundlerResults];
type Unnumbered<T> = T extends unknown ? Omit<T, 'id'> : never;

export class Bundler {
  readonly #idleMs: number;
  readonly #busy = new Set<Helper>();
  #idle: Helper | null = null;
  #timer: NodeJS.Timeout | undefined;
  /** Where its processes cache their own compiled code for later processes; null: no cache. */
  codeDirectory = compiledDirectory();

  constructor(idleMs = IDLE_MS) {
    this.#idleMs = idleMs;
  }

  get pids(): number[] {
    return [...this.#busy, this.#idle].flatMap((helper) => helper?.pid ?? []);
  }

  /** Starts a process for a later request, if none is idle. */
  warm(): void {
    if (this.#idle === null || this.#idle.ended) this.#keep(new Helper(this.codeDirectory));
  }

  /**
   * Returns what must run in a fresh worktree before `bundle`; see `planBuild`.
   * @throws {BuildFailure} for a fault of the project, or when the bundler crashes or takes longer than `timeoutMs`
   */
  plan(options: PlanOptions, timeoutMs: number): Promise<Plan> {
    return this.#request({ method: 'plan', options }, timeoutMs) as Promise<Plan>;
  }

  /**
   * Returns whether functions/ of a built worktree must be compiled before `bundle`; see `findFunctions`.
   * @throws {BuildFailure} for a fault of the project, or when the bundler crashes or takes longer than `timeoutMs`
   */
  mustCompileFunctions(options: BuiltProject, timeoutMs: number): Promise<boolean> {
    return this.#request({ method: 'functions', options }, timeoutMs) as Promise<boolean>;
  }

  /**
   * Bundles a built worktree; see `bundleProject`.
   * @throws {BuildFailure} for a fault of the project, or when the bundler crashes or takes longer than `timeoutMs`
   */
  bundle(options: BundleOptions, timeoutMs: number): Promise<Bundled> {
    return this.#request({ method: 'bundle', options }, timeoutMs) as Promise<Bundled>;
  }

  /** Ends all processes and their requests. A later request starts another. */
  close(): void {
    clearTimeout(this.#timer);
    this.#idle?.end();
    this.#idle = null;
    for (const helper of this.#busy) helper.end();
  }

  async #request(request: Unnumbered<BundlerRequest>, timeoutMs: number): Promise<Result> {
    clearTimeout(this.#timer);
    const waiting = this.#idle?.ended ? null : this.#idle;
    this.#idle = null;
    if (waiting !== null) {
      try {
        return await this.#requestOf(waiting, request, timeoutMs);
      } catch (error) {
        // The idle process may have ended before the request reached it, so a new process repeats the request.
        if (!(error instanceof Crash)) throw error;
        if (request.method === 'bundle') await removeTree(request.options.out);
      }
    }
    return await this.#requestOf(new Helper(this.codeDirectory), request, timeoutMs);
  }

  async #requestOf(helper: Helper, request: Unnumbered<BundlerRequest>, timeoutMs: number): Promise<Result> {
    this.#busy.add(helper);
    try {
      return await helper.request(request, timeoutMs);
    } finally {
      this.#busy.delete(helper);
      this.#keep(helper);
    }
  }

  /** Keeps a process for the next request; ends it if another one is idle already. */
  #keep(helper: Helper): void {
    if (helper.ended) return;
    if (this.#idle !== null && !this.#idle.ended) {
      helper.end();
      return;
    }
    this.#idle = helper;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      helper.end();
      this.#idle = null;
    }, this.#idleMs).unref();
  }
}

/** The process or its esbuild could not start, ended by itself, or was ended by something outside the host. */
class Crash extends BuildFailure {}

/** Returns the command of a process. When memory runs out, the kernel kills it before apps. It ends when the host ends. */
function helperWords(): string[] {
  return [...dieWithParent(), ...endFirst(), ...withDataLimit(MEMORY_BYTES), process.execPath, HELPER];
}

/** A process that works on one request at a time. */
class Helper {
  readonly #child: Promise<Child | null>;
  #process: Child['process'] | null = null;
  #explanation = '';
  #lastId = 0;
  #ended = false;
  #fail: (error: Error) => void = () => {};
  #answer: (reply: BundlerReply) => void = () => {};

  constructor(codeDirectory: string | null) {
    this.#child = this.#start(codeDirectory);
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  get ended(): boolean {
    return this.#ended;
  }

  async request(request: Unnumbered<BundlerRequest>, timeoutMs: number): Promise<Result> {
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#fail = reject;
    this.#answer = (reply) => {
      if (reply.id !== id) return;
      if ('result' in reply) resolve(reply.result);
      else if (reply.fault === 'project') reject(new BuildFailure(reply.message));
      else {
        reject(
          ESBUILD_ENDED.test(reply.message)
            ? new Crash(
                `esbuild ended before it had bundled the project: code that needs more than ${MEMORY_BYTES / 2 ** 30} GiB of memory, or that is nested too deeply, ends it; deploy again`,
              )
            : new Error(`the bundler failed: ${reply.message}`),
        );
        // Later requests could fail for the same reason, such as the end of esbuild. So they get another process.
        this.end();
      }
    };
    const deadline = setTimeout(() => {
      reject(
        new BuildFailure(
          `bundling took longer than ${timeoutMs / 1000} s and was ended${minimumCpuShare.excuse}`,
        ),
      );
      this.end();
    }, timeoutMs);
    try {
      const child = await this.#child;
      if (child === null || this.#ended) this.#crash();
      else child.process.send({ ...request, id });
      return await promise;
    } finally {
      clearTimeout(deadline);
    }
  }

  /** Ends the process and its request. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#fail(new BuildFailure('the bundler ended (SIGKILL); deploy again'));
    void this.#child.then((child) => child?.end());
  }

  async #start(codeDirectory: string | null): Promise<Child | null> {
    try {
      const child = await startChild(helperWords(), {
        title: 'bundler',
        environment: {
          PATH: process.env.PATH ?? '',
          LANG: 'C.UTF-8',
          NO_COLOR: '1',
          WRANGLER_WRITE_LOGS: 'false',
          HOME: '/nonexistent',
          ...(codeDirectory !== null && { NODE_COMPILE_CACHE: codeDirectory }),
        },
        stdin: 'ignore',
        messages: true,
      });
      this.#watch(child);
      return child;
    } catch (error) {
      this.#explanation = (error as Error).message;
      this.#crash();
      return null;
    }
  }

  #watch(child: Child): void {
    this.#process = child.process;
    // Low priority: the project decides how long the process works.
    void toLowPriority(child.pid, 'bundler');
    child.stdout.resume();
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#explanation = (this.#explanation + text).slice(-EXPLANATION);
    });
    child.process.on('message', (reply: BundlerReply) => this.#answer(reply));
    void child.exited.then(({ code, killedBy }) => {
      child.end();
      this.#process = null;
      this.#crash(killedBy ?? `exit code ${code}`);
    });
    // The bundler must not keep the host's process alive.
    child.keepHost(false);
  }

  #crash(how = 'could not start'): void {
    this.#ended = true;
    const explanation = this.#explanation && `:\n${this.#explanation.trim()}`;
    this.#fail(new Crash(`the bundler ended (${how})${explanation}; deploy again`));
  }
}
