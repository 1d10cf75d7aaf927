/** Counts branch changes under way, by app: until one has ended, its deploy may not be in the queue yet. */
export class BranchChanges {
  readonly #counts = new Map<string, number>();

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
    if (count === 0) this.#counts.delete(appId);
    else this.#counts.set(appId, count);
  }
}
