// The depth of running calls between apps. A limit of it ends cycles of calls, also across hosts.

/** The depth of each running call that an app of this host receives or makes, by the span of its request. */
export class CallDepths {
  readonly #depths = new Map<string, number>();

  /** Returns the depth of a new call. @param parentSpanId of the request that causes it, if known */
  next(parentSpanId: string | null): number {
    return (parentSpanId === null ? 0 : (this.#depths.get(parentSpanId) ?? 0)) + 1;
  }

  /** Records a call. Returns a function to call when it has ended. */
  begin(spanId: string, depth: number): () => void {
    this.#depths.set(spanId, depth);
    return () => this.#depths.delete(spanId);
  }
}
