// A clock that can be frozen. A system call for the time costs as much as routing a request, and handling one read of a
// socket needs the time often. So the clock is frozen during the read, and the system is asked once.
import { performance } from 'node:perf_hooks';

/** Maximum time until a step of the system clock is noticed, in ms. */
const STEP_SEEN_MS = 1_000;

let stands = false;
/** The frozen time: the first reading since `freezeClock`, in ms; NaN before that reading. */
let stoodAt = Number.NaN;
/** The wall-clock time at which `performance.now()` was 0, in ms since 1970. */
let origin = 0;
/** When `origin` was measured, on the clock of `performance.now()`. */
let foundAt = Number.NEGATIVE_INFINITY;

/** Returns `performance.now()`, which never goes back, in ms. While frozen: its value at the first call since the freeze. */
export function monotonic(): number {
  if (!stands) return performance.now();
  if (Number.isNaN(stoodAt)) stoodAt = performance.now();
  return stoodAt;
}

/** Returns the ms since 1970, rounded down. Follows a step of the system clock within a second. May jump back by 1 ms. */
export function wallClock(): number {
  const now = monotonic();
  if (now - foundAt > STEP_SEEN_MS) {
    foundAt = now;
    // Reads both clocks at the same moment: `now` may be a frozen, older time.
    origin = Date.now() - performance.now();
  }
  return Math.floor(origin + now);
}

/** Freezes the clock until `resumeClock`: for synchronous work of far less than a millisecond. */
export function freezeClock(): void {
  stands = true;
  stoodAt = Number.NaN;
}

export function resumeClock(): void {
  stands = false;
}
