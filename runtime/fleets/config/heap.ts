// How much memory V8 takes before it looks for garbage.

/**
 * Most of V8's young generation, in MiB. workerd frees its own side of requests, responses and streams, some 30 KiB for each
 * request, only where V8 finds their objects, and V8 looks the later the larger this is. With less than 4, Workers that build
 * large answers compute up to twice as long. A smaller old generation at the start would spare more, but no flag that sets it
 * may be used: with it, V8 takes none of the code that workerd has compiled beforehand, and a Worker with Node's modules
 * starts a third later.
 */
const YOUNG_MB = 4;

/** V8's flags for a workerd that may have so many MiB of heap. */
export function heapFlags(heapMb: number): string[] {
  return [`--max-old-space-size=${heapMb}`, `--max-semi-space-size=${YOUNG_MB}`];
}
