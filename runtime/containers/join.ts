// Connects two streams in both directions.
import type { Duplex } from 'node:stream';

/** Pipes each stream into the other. When one fails or closes, destroys the other. */
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
