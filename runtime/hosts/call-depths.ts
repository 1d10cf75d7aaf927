// The depth of running calls between apps. A limit on the depth ends cycles of calls, also across hosts.

/** Depths of running calls that apps of this host receive or make, by the span id of the call's request. */
export class CallDepths {
  readonly #depths = new Map<string, number>();

  /** Returns the depth of a new call. @param parentSpanId span id of the request that causes the call; null if unknown */
  next(parentSpanId: string | null): number {
    return (parentSpanId === null ? 0 : (this.#depths.get(parentSpanId) ?? 0)) + 1;
  }

  /** Records a call. Returns a function to call when it has ended. */
  begin(spanId: string, depth: number): () => void {
    this.#depths.set(spanId, depth);
    return () => this.#depths.delete(spanId);
  }
}
