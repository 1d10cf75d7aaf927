// A cached clock. A system call for the time costs as much as routing a request, and handling a read needs the time often.
// The clock is frozen meanwhile, so all these calls read it once.
import { performance } from 'node:perf_hooks';

/** Time until a step of the system clock is noticed, in ms. */
const STEP_SEEN_MS = 1_000;

let stands = false;
/** The first reading since the clock was frozen; NaN before. */
let stoodAt = Number.NaN;
/** The time since 1970 at 0 of `performance.now()`, and when it was read. */
let origin = 0;
let foundAt = Number.NEGATIVE_INFINITY;

/** Returns the time of `performance.now()`, which never goes back, in ms. While frozen: that of the first call since. */
export function monotonic(): number {
  if (!stands) return performance.now();
  if (Number.isNaN(stoodAt)) stoodAt = performance.now();
  return stoodAt;
}

/** Returns the time since 1970, in whole ms. Follows a step of the system clock within a second, and may itself step by 1 ms. */
export function wallClock(): number {
  const now = monotonic();
  if (now - foundAt > STEP_SEEN_MS) {
    foundAt = now;
    // Read both now: the clock may have been frozen for a while.
    origin = Date.now() - performance.now();
  }
  return Math.floor(origin + now);
}

/** Freezes the clock until `resumeClock`: for synchronous work of far less than a millisecond. */
export function freezeClock(): void {
  stands = true;
  stoodAt = Number.NaN;
}

/** Unfreezes the clock. */
export function resumeClock(): void {
  stands = false;
}
