// A prefork pool: shells that were started earlier and become the program at once.
import { type ChildEnd, type Job, startJob } from './child.ts';
import { quote } from './shell.ts';

/** Size of the pool: a deploy starts one process, and soon after that another. */
const SPARES = 2;
/** Delay between `prepare` and the next start, in ms: a client may wait for an answer. */
const QUIET_MS = 100;

/** What a pooled shell runs. */
export interface Program {
  /** The path of the program and its arguments. It reads nothing. */
  words: string[];
  cwd: string;
  /** The whole environment. Names are shell words: letters, digits and `_`. */
  environment: Record<string, string>;
  /** Limit of writable memory (RLIMIT_DATA), in bytes: an allocation beyond it fails. */
  dataLimitBytes: number;
}

/** Waiting shells. They end with this process, and do not keep it from ending. */
export class PreforkPool {
  readonly #waiting: Job[] = [];
  readonly #onStart: (pid: number, exited: Promise<ChildEnd>) => void;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** @param onStart called for each shell before it gets a program */
  constructor(onStart: (pid: number, exited: Promise<ChildEnd>) => void) {
    this.#onStart = onStart;
  }

  /** The ids of the waiting processes. */
  get pids(): number[] {
    return this.#waiting.map(({ pid }) => pid);
  }

  /**
   * Runs a program in a pooled shell, or in a new child when the pool is empty. Its output and descriptor 3 are pipes. Call
   * `prepare` to refill the pool once the program runs.
   * @throws {ChildError} when the pool is empty and no child can be started
   */
  async run({ words, cwd, environment, dataLimitBytes }: Program): Promise<Job> {
    const child = this.#waiting.shift() ?? (await this.#start(true));
    child.keepHost(true);
    const steps = [
      `ulimit -d ${Math.ceil(dataLimitBytes / 1024)}`,
      `cd ${quote(cwd)}`,
      // Some shells set these variables themselves.
      'unset PWD OLDPWD SHLVL',
      // Not as arguments of `env`, which every user could read.
      ...Object.entries(environment).map(([name, value]) => `export ${name}=${quote(value)}`),
      `exec ${words.map(quote).join(' ')} < /dev/null`,
    ];
    child.stdin.end(`${steps.join(' && ')}\n`);
    return child;
  }

  /** Refills the pool, one shell after another, some time after the last call. */
  prepare(): void {
    clearTimeout(this.#timer);
    if (this.#closed || this.#waiting.length >= SPARES) return;
    this.#timer = setTimeout(() => {
      this.#start(false).then(
        (child) => this.#keep(child),
        // With an empty pool, the next program starts a new child and reports the error.
        () => {},
      );
    }, QUIET_MS).unref();
  }

  /** Ends the waiting shells. Later programs run in new children. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const child of this.#waiting.splice(0)) child.end();
  }

  async #start(urgent: boolean): Promise<Job> {
    const child = await startJob(['/bin/sh'], { environment: {}, channel: true, urgent });
    this.#onStart(child.pid, child.exited);
    return child;
  }

  #keep(child: Job): void {
    if (this.#closed) {
      child.end();
      return;
    }
    child.keepHost(false);
    this.#waiting.push(child);
    void child.exited.then(() => {
      const at = this.#waiting.indexOf(child);
      if (at !== -1) this.#waiting.splice(at, 1);
    });
    this.prepare();
  }
}
