// A fair queue: shares a resource between owners by round robin, with limits for each owner. Its errors name the resource.

export interface QueueLimits {
  /** The shared resource, as the errors name it, such as "storage reads". */
  name: string;
  /** Maximum jobs that run at once. */
  running: number;
  /** Maximum running jobs of one owner. */
  runningPerOwner: number;
  /** How many of `running` are reserved for owners without a running job. So a few owners cannot use all. Default: 0. */
  firstPlaces?: number;
  /** Maximum waiting jobs of one owner. */
  waitingPerOwner: number;
}

/** Too many jobs of the owner wait, or a job has waited for too long. */
export class QueueFull extends Error {}

export interface JobOfOwner {
  /** The owner of the job, such as an account's id. */
  owner: string;
  /** Jobs with the same key, such as an app's id, run one after another. */
  key?: string;
  /** Ends the wait for the job's turn. A running job is not ended: `work` has to watch the signal itself. */
  signal?: AbortSignal | undefined;
}

interface Waiting {
  key: string | undefined;
  begin: () => void;
}

/** Runs jobs within the limits. Owners take turns. */
export class FairQueue {
  readonly #limits: QueueLimits;
  /** Waiting jobs by owner, in the order of turns: an owner whose job starts moves to the end. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #running = new Map<string, number>();
  readonly #runningKeys = new Set<string>();
  #count = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, jobs) => sum + jobs.length, 0);
  }

  get running(): number {
    return this.#count;
  }

  /**
   * Runs `work` in its turn.
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
      const limit = `at most ${waitingPerOwner} ${name} of one account may wait at once; try again in some seconds`;
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

  /** Starts the next job that may run, of the owner who has waited longest for a start. @returns whether one started */
  #beginNext(): boolean {
    const { running: places, runningPerOwner, firstPlaces = 0 } = this.#limits;
    for (const [owner, jobs] of this.#waiting) {
      const running = this.#running.get(owner) ?? 0;
      if (running >= runningPerOwner) continue;
      if (running > 0 && this.#count >= places - firstPlaces) continue;
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
