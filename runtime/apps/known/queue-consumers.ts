// Maps queues to the apps that consume them, and back.

export class QueueConsumers {
  /** Ids of the consuming apps, by queue name. */
  readonly #apps = new Map<string, Set<string>>();
  /** The consumed queues, by app id. */
  readonly #queues = new Map<string, string[]>();

  /** Returns the ids of the apps that consume a queue. */
  of(queue: string): string[] {
    return [...(this.#apps.get(queue) ?? [])];
  }

  /** All consuming apps, with their queues. */
  get all(): Iterable<[appId: string, queues: string[]]> {
    return this.#queues;
  }

  /** Replaces the queues that an app consumes. */
  set(appId: string, queues: string[]): void {
    for (const queue of this.#queues.get(appId) ?? []) {
      const consumers = this.#apps.get(queue);
      if (consumers?.delete(appId) && consumers.size === 0) this.#apps.delete(queue);
    }
    if (queues.length === 0) this.#queues.delete(appId);
    else this.#queues.set(appId, queues);
    for (const queue of queues) this.#apps.set(queue, (this.#apps.get(queue) ?? new Set()).add(appId));
  }
}
