// A scheduler for tests. The test decides which step runs next, which step is lost, and which owner's steps are dropped.

/** A process or an isolate that owns steps. When it dies, its steps never run and its promises never settle. */
export interface Owner {
  alive: boolean;
}

interface Step {
  owner: Owner;
  run: () => void;
  lose: (() => void) | null;
}

export class Pool {
  #steps: Step[] = [];

  get size(): number {
    return this.#steps.length;
  }

  /** Number of waiting steps that may be lost. */
  get losable(): number {
    return this.#steps.filter(({ lose }) => lose !== null).length;
  }

  /**
   * Adds a step. Resolves with the result of `work` once the step has run.
   * @param losable whether the step may be lost, such as a message or a round trip to a database
   */
  add<Value>(owner: Owner, work: () => Value, losable = false): Promise<Awaited<Value>> {
    const { promise, resolve, reject } = Promise.withResolvers<Awaited<Value>>();
    if (owner.alive) {
      const run = () => {
        try {
          resolve(work() as Awaited<Value>);
        } catch (error) {
          reject(error);
        }
      };
      this.#steps.push({ owner, run, lose: losable ? () => reject(new Error('lost')) : null });
    }
    return promise;
  }

  /** Runs one waiting step, and then all code that waited for it. */
  async take(choice: number): Promise<void> {
    const [step] = this.#steps.splice(choice % this.#steps.length, 1);
    step?.run();
    await settled();
  }

  /** Makes one losable step fail. Call it only if `losable` is not 0. */
  async lose(choice: number): Promise<void> {
    const losable = this.#steps.filter(({ lose }) => lose !== null);
    const step = losable[choice % losable.length]!;
    this.#steps = this.#steps.filter((other) => other !== step);
    step.lose!();
    await settled();
  }

  end(owner: Owner): void {
    owner.alive = false;
    this.#steps = this.#steps.filter((step) => step.owner !== owner);
  }
}

/** Resolves when all pending microtasks have run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
