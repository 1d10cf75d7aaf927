// Those who follow something of apps, by app.

export class Listeners<Listener extends { end(): void }> {
  readonly #byApp = new Map<string, Set<Listener>>();

  /** @returns what takes it away again */
  add(appId: string, listener: Listener): () => void {
    const listeners = this.#byApp.get(appId) ?? new Set();
    this.#byApp.set(appId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#byApp.get(appId) === listeners) this.#byApp.delete(appId);
    };
  }

  /** Those of an app; null when there are none. */
  of(appId: string): ReadonlySet<Listener> | null {
    return this.#byApp.get(appId) ?? null;
  }

  /** Ends those of an app, which is gone. */
  end(appId: string): void {
    for (const listener of this.#byApp.get(appId) ?? []) listener.end();
    this.#byApp.delete(appId);
  }
}
