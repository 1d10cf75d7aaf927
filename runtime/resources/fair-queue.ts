// Shares a resource between owners: round robin between those who wait, a limit for each of them, and an error that names it.

export interface QueueLimits {
  /** What is shared, as the errors name it: "storage reads". */
  name: string;
  /** Jobs that run at once. */
  running: number;
  /** Jobs of one owner that run at once. */
  runningPerOwner: number;
  /** Jobs of one owner that wait. */
  waitingPerOwner: number;
}

/** A job that may not wait: its owner has too many of them. */
export class QueueFull extends Error {}

export interface JobOfOwner {
  /** Whose job it is, such as an account's id. */
  owner: string;
  /** Jobs with the same key run one after another, such as those of one app. */
  key?: string;
  /** Ends the wait. The job itself has to watch it too. */
  signal?: AbortSignal | undefined;
}

interface Waiting {
  key: string | undefined;
  begin: () => void;
}

/** Runs jobs with a limit at once, and one owner's beside another's. */
export class FairQueue {
  readonly #limits: QueueLimits;
  /** By owner. The owner whose job began last comes last. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #running = new Map<string, number>();
  readonly #runningKeys = new Set<string>();
  #count = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  /** Jobs that wait for their turn. */
  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, jobs) => sum + jobs.length, 0);
  }

  /** Jobs that run. */
  get running(): number {
    return this.#count;
  }

  /**
   * Runs `work` when its turn has come.
   * @throws {QueueFull} when too many jobs of the owner wait; the signal's reason when it aborts before the turn
   */
  async run<T>({ owner, key, signal }: JobOfOwner, work: () => Promise<T> | T): Promise<T> {
    await this.#turn(owner, key, signal);
    try {
      return await work();
    } finally {
      this.#leave(owner, key);
    }
  }

  #turn(owner: string, key: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const jobs = this.#waiting.get(owner) ?? [];
    const { name, waitingPerOwner } = this.#limits;
    if (jobs.length >= waitingPerOwner) {
      const limit = `of one account at most ${waitingPerOwner} ${name} wait at once; try again in some seconds`;
      throw new QueueFull(limit);
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const abort = () => {
      jobs.splice(jobs.indexOf(job), 1);
      if (jobs.length === 0) this.#waiting.delete(owner);
      reject(signal?.reason);
    };
    const job: Waiting = {
      key,
      begin: () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      },
    };
    signal?.addEventListener('abort', abort, { once: true });
    jobs.push(job);
    this.#waiting.set(owner, jobs);
    this.#advance();
    return promise;
  }

  #advance(): void {
    while (this.#count < this.#limits.running && this.#beginNext());
  }

  /** Begins the first job that may run, of the owner who has waited longest. */
  #beginNext(): boolean {
    for (const [owner, jobs] of this.#waiting) {
      const running = this.#running.get(owner) ?? 0;
      if (running >= this.#limits.runningPerOwner) continue;
      const at = jobs.findIndex(({ key }) => key === undefined || !this.#runningKeys.has(key));
      if (at === -1) continue;
      const [job] = jobs.splice(at, 1);
      this.#waiting.delete(owner);
      if (jobs.length > 0) this.#waiting.set(owner, jobs);
      this.#running.set(owner, running + 1);
      if (job!.key !== undefined) this.#runningKeys.add(job!.key);
      this.#count++;
      job!.begin();
      return true;
    }
    return false;
  }

  #leave(owner: string, key: string | undefined): void {
    this.#count--;
    const running = this.#running.get(owner)! - 1;
    if (running === 0) this.#running.delete(owner);
    else this.#running.set(owner, running);
    if (key !== undefined) this.#runningKeys.delete(key);
    this.#advance();
  }
}
