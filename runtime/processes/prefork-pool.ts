// Children that wait for the program they are to run: a shell that was started before becomes a program at once.
import { type ChildEnd, type Job, startJob } from './child.ts';
import { quote } from './shell.ts';

/** How many wait: a deploy starts one process, and soon after that another. */
const SPARES = 2;
/** Time between being asked for spares and starting one, in ms: somebody may wait for an answer. */
const QUIET_MS = 100;

/** What a spare runs. */
export interface Program {
  /** The path of the program and its arguments. It reads nothing. */
  words: string[];
  cwd: string;
  /** Its whole environment. Names are words of the shell's: letters, digits and `_`. */
  environment: Record<string, string>;
  /** Memory that it may write to (RLIMIT_DATA): an allocation beyond it fails. In bytes. */
  dataLimitBytes: number;
}

/** Shells that wait. They end with this process, and do not keep it from ending. */
export class PreforkPool {
  readonly #waiting: Job[] = [];
  readonly #onStart: (pid: number, exited: Promise<ChildEnd>) => void;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** @param onStart called for each shell before there is anything for it to run */
  constructor(onStart: (pid: number, exited: Promise<ChildEnd>) => void) {
    this.#onStart = onStart;
  }

  /** The ids of the processes that wait. */
  get pids(): number[] {
    return this.#waiting.map(({ pid }) => pid);
  }

  /**
   * Has a spare run a program, or a new child when none waits. Its output and descriptor 3 are pipes. Ask for another
   * spare by `prepare` when the program is under way.
   * @throws {ChildError} when there is none and none can be started
   */
  async run({ words, cwd, environment, dataLimitBytes }: Program): Promise<Job> {
    const child = this.#waiting.shift() ?? (await this.#start(true));
    child.keepHost(true);
    const steps = [
      `ulimit -d ${Math.ceil(dataLimitBytes / 1024)}`,
      `cd ${quote(cwd)}`,
      // Some shells set them by themselves.
      'unset PWD OLDPWD SHLVL',
      // Not as arguments of `env`, which everybody could read.
      ...Object.entries(environment).map(([name, value]) => `export ${name}=${quote(value)}`),
      `exec ${words.map(quote).join(' ')} < /dev/null`,
    ];
    child.stdin.end(`${steps.join(' && ')}\n`);
    return child;
  }

  /** Starts what spares are missing, one after another, some time after the last call. */
  prepare(): void {
    clearTimeout(this.#timer);
    if (this.#closed || this.#waiting.length >= SPARES) return;
    this.#timer = setTimeout(() => {
      this.#start(false).then(
        (child) => this.#keep(child),
        // Without a spare the next program is started anew, and says what is wrong.
        () => {},
      );
    }, QUIET_MS).unref();
  }

  /** Ends those that wait. A later program is run by a child of its own. */
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
