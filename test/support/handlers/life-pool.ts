// Steps that wait for their turn: a test says which is next, which is lost, and whose are gone.

/** What steps belong to: a process or an isolate. When it dies, its steps never happen and its waits never end. */
export interface Owner {
  alive: boolean;
}

interface Step {
  owner: Owner;
  take: () => void;
  lose: (() => void) | null;
}

export class Pool {
  #steps: Step[] = [];

  get size(): number {
    return this.#steps.length;
  }

  /** How many of them may be lost. */
  get losable(): number {
    return this.#steps.filter(({ lose }) => lose !== null).length;
  }

  /**
   * Adds a step, and resolves with what it comes to once it is taken.
   * @param losable whether it may fail on the way, as a message or a round trip to a database may
   */
  add<Value>(owner: Owner, work: () => Value, losable = false): Promise<Awaited<Value>> {
    const { promise, resolve, reject } = Promise.withResolvers<Awaited<Value>>();
    if (owner.alive) {
      const take = () => {
        try {
          resolve(work() as Awaited<Value>);
        } catch (error) {
          reject(error);
        }
      };
      this.#steps.push({ owner, take, lose: losable ? () => reject(new Error('lost')) : null });
    }
    return promise;
  }

  /** Takes one of the waiting steps, and all that follows from it without another. */
  async take(choice: number): Promise<void> {
    const [step] = this.#steps.splice(choice % this.#steps.length, 1);
    step?.take();
    await settled();
  }

  /** Loses one of the waiting steps that may be lost. There must be one. */
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

/** Resolves when everything that waits for nothing but its turn in this process has run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
