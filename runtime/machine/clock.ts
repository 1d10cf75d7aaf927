// The time. To ask the system for it costs as much as to route a request, and whoever handles what a socket has read asks many
// times: it stands still meanwhile, so that all of them together ask once.
import { performance } from 'node:perf_hooks';

let stands = false;
/** What the clocks said when they were first asked while time stood still; NaN before. */
let monotonicMs = Number.NaN;
let wallMs = Number.NaN;

/** The time on the clock of `performance.now()`, which never goes back, in ms. */
export function monotonic(): number {
  if (!stands) return performance.now();
  if (Number.isNaN(monotonicMs)) monotonicMs = performance.now();
  return monotonicMs;
}

/** The time since 1970, in ms. */
export function wallClock(): number {
  if (!stands) return Date.now();
  if (Number.isNaN(wallMs)) wallMs = Date.now();
  return wallMs;
}

/** Time stands still from here until `goOn`: for what is handled at once, in far less than a millisecond. */
export function standStill(): void {
  stands = true;
  monotonicMs = Number.NaN;
  wallMs = Number.NaN;
}

/** Time goes on. */
export function goOn(): void {
  stands = false;
}
