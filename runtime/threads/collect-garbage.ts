// Keeps chunks of streamed bodies from piling up. They lie outside V8's heap, and V8 collects them only after 64 MiB. A
// collection of the young generation takes about a millisecond.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes between two collections. */
const COLLECT_EVERY_BYTES = 16 * 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;
let passed = 0;

/** Counts the bytes of a chunk that was passed on and is garbage now. Not for chunks that are kept. */
export function countGarbage(bytes: number): void {
  passed += bytes;
  if (passed < COLLECT_EVERY_BYTES) return;
  passed = 0;
  collect({ type: 'minor' });
}
