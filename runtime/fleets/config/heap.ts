// V8's heap settings: how much memory it takes before a garbage collection.

/**
 * Limit of each half of V8's young generation, in MiB. workerd frees its own part of requests, responses and streams, some 30
 * KiB a request, only when V8 collects their objects. A larger young generation delays that. Below 4, Workers that build large
 * answers compute up to twice as long. A smaller initial old generation would save more memory, but its flags must not be
 * used: V8 then rejects workerd's precompiled code, and a Worker with Node's modules starts a third later.
 */
const YOUNG_MB = 4;

/** V8's flags for a workerd with a heap of `heapMb` MiB. */
export function heapFlags(heapMb: number): string[] {
  return [`--max-old-space-size=${heapMb}`, `--max-semi-space-size=${YOUNG_MB}`];
}
