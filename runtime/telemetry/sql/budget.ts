// Bounds what a query keeps in memory.
import { SqlError } from './tokens.ts';
import type { Value } from './types.ts';

/** Limit in units. A value costs one unit, and a text one more for each 16 characters. All units take some 150 MB. */
const UNITS = 3_000_000;
const CHARACTERS = 16;

export class Budget {
  #left = UNITS;

  /** @throws {SqlError} when the query keeps too much */
  take(value: Value): void {
    this.#left -= 1 + (typeof value === 'number' ? 0 : value.length / CHARACTERS);
    if (this.#left < 0)
      throw new SqlError(
        'the query keeps too much in memory: narrow it by WHERE, or group by fewer values',
        null,
      );
  }
}
