// Counts requests by a key that clients choose: the frequent keys are kept, all others count together.
import type { BreakdownRow } from '../../../sqlite/telemetry/breakdowns.ts';

/** The key under which the counts of all evicted keys are added up. */
export const OTHER = '';
/** Limit of keys besides `OTHER`. A new key evicts the one with the fewest requests, whose count moves to `OTHER`. */
export const KEYS_MAX = 200;

interface Counts {
  requests: number;
  errors: number;
}

export class Tally {
  readonly #counts = new Map<string, Counts>();
  /** Keys with unwritten counts, evicted ones included. */
  readonly #changed = new Set<string>();

  /** @param rows the stored counts */
  constructor(rows: BreakdownRow[]) {
    for (const { key, requests, errors } of rows) this.#counts.set(key, { requests, errors });
  }

  /** Number of keys in memory. A counted key whose change is not written counts twice. */
  get keys(): number {
    return this.#counts.size + this.#changed.size;
  }

  add(key: string, isError: boolean): void {
    let counts = this.#counts.get(key);
    if (counts === undefined) {
      const named = this.#counts.size - (this.#counts.has(OTHER) ? 1 : 0);
      if (key !== OTHER && named >= KEYS_MAX) this.#makeRoom();
      counts = { requests: 0, errors: 0 };
      this.#counts.set(key, counts);
    }
    counts.requests++;
    if (isError) counts.errors++;
    this.#changed.add(key);
  }

  /** Yields the counts of each changed key; null for an evicted one. */
  *changes(): Generator<[key: string, counts: Counts | null]> {
    for (const key of this.#changed) yield [key, this.#counts.get(key) ?? null];
  }

  written(): void {
    this.#changed.clear();
  }

  #makeRoom(): void {
    let least: string | null = null;
    let fewest = Number.POSITIVE_INFINITY;
    for (const [key, { requests }] of this.#counts) {
      if (key === OTHER || requests >= fewest) continue;
      least = key;
      fewest = requests;
    }
    const gone = this.#counts.get(least!)!;
    this.#counts.delete(least!);
    this.#changed.add(least!).add(OTHER);
    const others = this.#counts.get(OTHER) ?? { requests: 0, errors: 0 };
    others.requests += gone.requests;
    others.errors += gone.errors;
    this.#counts.set(OTHER, others);
  }
}
