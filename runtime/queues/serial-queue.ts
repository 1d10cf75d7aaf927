// Runs tasks one after another.

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();
  #pending = 0;

  /** Whether a task runs or waits. */
  get busy(): boolean {
    return this.#pending > 0;
  }

  /** Runs a task after all earlier ones have ended, even those that failed. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    this.#pending++;
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    try {
      return await result;
    } finally {
      this.#pending--;
    }
  }
}

/** Runs one task at a time for each key, such as an app's id. */
export class SerialQueues {
  readonly #queues = new Map<string, SerialQueue>();

  /** Runs a task after all earlier ones of the key have ended, even those that failed. */
  async run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(key) ?? new SerialQueue();
    this.#queues.set(key, queue);
    try {
      return await queue.run(task);
    } finally {
      if (!queue.busy) this.#queues.delete(key);
    }
  }
}
