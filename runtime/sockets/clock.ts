// The time. To ask the system for it costs as much as to route a request, and whoever handles what a socket has read asks many
// times. Time stands still while that is handled, so that all of them together ask once.
import { performance } from 'node:perf_hooks';

/** How long it may take until a step of the system's clock is seen, in ms. */
const STEP_SEEN_MS = 1_000;

let stands = false;
/** What the clock said when it was first asked while time stood still; NaN before. */
let stoodAt = Number.NaN;
/** The time since 1970 at 0 on the clock of `performance.now()`, and when that was found. */
let origin = 0;
let foundAt = Number.NEGATIVE_INFINITY;

/** The time on the clock of `performance.now()`, which never goes back, in ms: while time stands still, of the first call since. */
export function monotonic(): number {
  if (!stands) return performance.now();
  if (Number.isNaN(stoodAt)) stoodAt = performance.now();
  return stoodAt;
}

/** The time since 1970, in whole ms. A step of the system's clock is seen within a second, and may be one of 1 ms where there was none. */
export function wallClock(): number {
  const now = monotonic();
  if (now - foundAt > STEP_SEEN_MS) {
    foundAt = now;
    // Both of this moment: time may have stood still for a while.
    origin = Date.now() - performance.now();
  }
  return Math.floor(origin + now);
}

/** Time stands still from here until `goOn`: for what is handled at once, in far less than a millisecond. */
export function standStill(): void {
  stands = true;
  stoodAt = Number.NaN;
}

/** Time goes on. */
export function goOn(): void {
  stands = false;
}
