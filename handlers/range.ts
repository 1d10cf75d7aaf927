// HTTP's byte ranges (RFC 9110, section 14).
import { Problem } from './problem.ts';

/** A byte range: `length` bytes from `offset` on. */
export interface Part {
  offset: number;
  length: number;
}

/**
 * Parses a `Range` header.
 * @param size the size of the object, in bytes
 * @returns the range; null when the header is missing or malformed, has another unit, or several ranges. Then the whole
 *   object is returned.
 * @throws {Problem} `range_not_satisfiable` when the range has no byte of the object
 */
export function partOf(range: string | undefined, size: number): Part | null {
  const [, first = '', last = ''] =
    /^bytes=\s*(?:(\d{1,15})\s*)?-\s*(?:(\d{1,15})\s*)?$/i.exec(range ?? '') ?? [];
  if (first === '' && last === '') return null;
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null;
  const offset = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  if (offset >= end)
    throw new Problem('range_not_satisfiable', `The range is outside the object, which has ${size} bytes.`);
  return { offset, length: end - offset };
}
