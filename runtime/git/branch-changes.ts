/** Counts branch changes under way, by app: until one has ended, its deploy may not be in the queue yet. */
export class BranchChanges {
  readonly #counts = new Map<string, number>();
  readonly #onIdle: (appId: string) => void;

  /** @param onIdle called when the last change of an app has ended */
  constructor(onIdle: (appId: string) => void = () => {}) {
    this.#onIdle = onIdle;
  }

  /** Counts a change until its promise settles. */
  async during<T>(appId: string, change: Promise<T>): Promise<T> {
    this.#count(appId, 1);
    try {
      return await change;
    } finally {
      this.#count(appId, -1);
    }
  }

  has(appId: string): boolean {
    return this.#counts.has(appId);
  }

  #count(appId: string, by: number): void {
    const count = (this.#counts.get(appId) ?? 0) + by;
    if (count > 0) return void this.#counts.set(appId, count);
    this.#counts.delete(appId);
    this.#onIdle(appId);
  }
}
