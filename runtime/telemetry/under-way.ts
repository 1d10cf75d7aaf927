// Tracks the items sent to the telemetry thread that it has not confirmed yet.
import type { Kind } from './protocol.ts';

export const KINDS = ['requests', 'output', 'said', 'failures'] as const;
/** Limits of unwritten items: bytes of requests and of output, characters of the other kinds. Further items are dropped. */
export const PENDING_LIMITS: Record<Kind, number> = {
  requests: 32 * 1024 * 1024,
  output: 16 * 1024 * 1024,
  said: 4 * 1024 * 1024,
  failures: 1024 * 1024,
};
export const none = (): Record<Kind, number> => ({
  requests: 0,
  output: 0,
  said: 0,
  failures: 0,
});

interface Sent {
  seq: number;
  at: number;
  sizes: Record<Kind, number>;
  counts: Record<Kind, number>;
}

export class UnderWay {
  #batches: Sent[] = [];
  /** Total size of the items of each kind, in the units of `PENDING_LIMITS`. */
  readonly sizes = none();

  /** Age of the oldest batch, in ms; 0 without batches. */
  get ageMs(): number {
    const [oldest] = this.#batches;
    return oldest === undefined ? 0 : performance.now() - oldest.at;
  }

  add(seq: number, sizes: Record<Kind, number>, counts: Record<Kind, number>): void {
    this.#batches.push({ seq, at: performance.now(), sizes, counts });
    for (const kind of KINDS) this.sizes[kind] += sizes[kind];
  }

  /** Removes all batches up to `seq`. Call it when the thread has confirmed them. */
  kept(seq: number): void {
    while (this.#batches.length > 0 && this.#batches[0]!.seq <= seq) {
      const { sizes } = this.#batches.shift()!;
      for (const kind of KINDS) this.sizes[kind] -= sizes[kind];
    }
  }

  /** Forgets all batches. @returns the number of lost items of each kind */
  giveUp(): Record<Kind, number> {
    const lost = none();
    for (const { counts } of this.#batches) for (const kind of KINDS) lost[kind] += counts[kind];
    this.#batches = [];
    for (const kind of KINDS) this.sizes[kind] = 0;
    return lost;
  }
}
