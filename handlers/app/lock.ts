// A mutex with a bounded queue.
import { Problem } from '../problem.ts';

/** Maximum tasks that may wait for the running task. */
const WAITING_LIMIT = 16;

/** Runs tasks one after another, in the order in which they were added. */
export class Lock {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Runs a task after all tasks that were added before. @throws {Problem} `transition_conflict` when the queue is full */
  async run<Value>(task: () => Promise<Value>): Promise<Value> {
    if (this.#waiting > WAITING_LIMIT) {
      throw new Problem(
        'transition_conflict',
        'Too many changes wait for the one that is in progress; try again in a moment.',
      );
    }
    this.#waiting++;
    const result = this.#last.then(task, task);
    this.#last = result.catch(() => {});
    try {
      return await result;
    } finally {
      this.#waiting--;
    }
  }
}
