// Keeps bodies that pass through from piling up. Their chunks lie outside V8's heap, and V8 by itself collects them
// only after 64 MiB; a collection of the young ones takes about a millisecond.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes between two collections. */
const COLLECT_EVERY_BYTES = 16 * 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as (options: { type: 'minor' | 'major' }) => void;
let passed = 0;

/** Says that a chunk of so many bytes was handed on and is garbage now. Not for chunks that are kept. */
export function handedOn(bytes: number): void {
  passed += bytes;
  if (passed < COLLECT_EVERY_BYTES) return;
  passed = 0;
  collect({ type: 'minor' });
}

/** Collects all that is garbage in this thread. That takes some 50 ms. */
export function collectAll(): void {
  collect({ type: 'major' });
}
