// V8's heap settings: how much memory V8 uses before it collects garbage.

/**
 * Limit of each half of V8's young generation, in MiB. Each request uses about 30 KiB of workerd's own memory, for requests,
 * responses and streams. workerd frees this memory only when V8 collects their objects, which a larger young generation
 * delays. Below 4, Workers that build large answers compute up to twice as long. A smaller initial old generation would save
 * more memory, but with its flags V8 rejects workerd's precompiled code, and a Worker with Node's modules starts a third
 * later.
 */
const YOUNG_MB = 4;

/** Returns V8's flags for a workerd process with a heap of `heapMb` MiB. */
export function heapFlags(heapMb: number): string[] {
  return [`--max-old-space-size=${heapMb}`, `--max-semi-space-size=${YOUNG_MB}`];
}
