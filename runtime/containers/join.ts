// Connects two streams in both directions.
import type { Duplex } from 'node:stream';

/** Passes on the data and the end of each. When one closes, so does the other. */
export function join(one: Duplex, other: Duplex): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
    from.pipe(to);
  }
}
