// Checks the conditions of a request, and computes its byte range.
import { invalidRange, preconditionFailed } from '../errors.ts';
import type { Condition, RequestOf } from '../requests.ts';

type Etags = NonNullable<Condition['etagMatches']>;

/**
 * Checks a condition.
 * @param object the current object; undefined without one
 * @throws {R2Error} when the condition fails
 */
export function requireCondition(
  condition: Condition | undefined,
  object: { etag: string; uploaded: number } | undefined,
): void {
  if (condition !== undefined && !isMet(condition, object)) throw preconditionFailed();
}

function isMet(condition: Condition, object: { etag: string; uploaded: number } | undefined): boolean {
  const { etagMatches, etagDoesNotMatch, uploadedBefore, uploadedAfter } = condition;
  if (object === undefined) return etagMatches === undefined && uploadedAfter === undefined;
  const time = (ms: number) => (condition.secondsGranularity ? Math.floor(ms / 1000) : ms);
  const uploaded = time(object.uploaded);
  const matches = etagMatches === undefined || has(etagMatches, object.etag, false);
  const differs = etagDoesNotMatch === undefined || !has(etagDoesNotMatch, object.etag, true);
  // As in HTTP, a condition on the etag that is met overrides the condition on the date.
  const isNewer =
    uploadedAfter === undefined ||
    uploaded > time(uploadedAfter) ||
    (etagDoesNotMatch !== undefined && differs);
  const isOlder =
    uploadedBefore === undefined || uploaded < time(uploadedBefore) || (etagMatches !== undefined && matches);
  return matches && differs && isNewer && isOlder;
}

function has(etags: Etags, etag: string, weakCounts: boolean): boolean {
  return etags.some(
    (each) => each.type === 'wildcard' || (each.value === etag && (each.type === 'strong' || weakCounts)),
  );
}

/** A part of an object, in bytes. */
export interface Part {
  offset: number;
  length: number;
}

/**
 * Returns the requested part of an object of `size` bytes; the whole object for a `Range` header that is invalid, has
 * several parts or cannot be satisfied.
 * @throws {R2Error} when the object has no such part, for a `range`
 */
export function partOf({ range, rangeHeader }: RequestOf<'get'>, size: number): Part {
  const whole = { offset: 0, length: size };
  if (rangeHeader !== undefined) return partOfHeader(rangeHeader, size) ?? whole;
  if (range === undefined) return whole;
  if (range.suffix !== undefined) {
    const length = Math.min(range.suffix, size);
    if (length <= 0) throw invalidRange();
    return { offset: size - length, length };
  }
  const offset = range.offset ?? 0;
  const length = Math.min(range.length ?? size, size - offset);
  if (offset < 0 || length <= 0) throw invalidRange();
  return { offset, length };
}

function partOfHeader(header: string, size: number): Part | null {
  const unit = /^ *bytes *=/i.exec(header);
  if (unit === null) return null;
  const parts: Part[] = [];
  for (const each of header.slice(unit[0].length).split(',')) {
    const words = /^ *(?:(\d+) *)?- *(?:(\d+) *)?$/.exec(each);
    if (words === null) return null;
    const [, first = '', last = ''] = words;
    if (first === '') {
      if (last === '' || Number(last) >= size) return null;
      if (Number(last) > 0) parts.push({ offset: size - Number(last), length: Number(last) });
      continue;
    }
    const offset = Number(first);
    const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
    if (offset >= size || end < offset) return null;
    parts.push({ offset, length: end - offset + 1 });
  }
  return parts.length === 1 ? parts[0]! : null;
}
