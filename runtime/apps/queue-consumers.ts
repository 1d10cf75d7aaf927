// Which apps consume which queue.

export class QueueConsumers {
  /** Ids of the apps that consume a queue, by its name. */
  readonly #apps = new Map<string, Set<string>>();
  /** The queues that an app consumes, by its id. */
  readonly #queues = new Map<string, string[]>();

  /** Ids of the apps that consume a queue. */
  of(queue: string): string[] {
    return [...(this.#apps.get(queue) ?? [])];
  }

  /** Has an app consume these queues and no others. */
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
