// How much memory V8 takes before it looks for garbage.

/**
 * In MiB. workerd frees its own side of requests, responses and streams only where V8 collects old objects, some 30 KB for
 * each request. By V8's own defaults that comes first after some 10,000 requests, when the process has grown by 200 MB and
 * everybody waits for 100 ms. A young generation below 4 would make Workers slower that build large answers.
 */
const BEFORE_COLLECTION = { young: 4, old: 4 };

/** V8's flags for a workerd that may have so many MiB of heap. */
export function heapFlags(heapMb: number): string[] {
  return [
    `--max-old-space-size=${heapMb}`,
    `--max-semi-space-size=${BEFORE_COLLECTION.young}`,
    `--initial-old-space-size=${BEFORE_COLLECTION.old}`,
  ];
}
