// Which errors are the same one.
import { createHash } from 'node:crypto';

/** Raised when the same error gets another fingerprint than before. It is kept with each group. */
export const GROUPING = 1;
/** Frames that count. */
const FRAMES = 3;

/** What differs from one occurrence to the next. In this order: an id may have numbers in it. */
const CHANGING: readonly [RegExp, string][] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<id>'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b/g, '<date>'],
  [
    /\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .{5,20}?\d{4}(?: \d\d:\d\d:\d\d)?(?: GMT)?(?:[+-]\d{4})?/g,
    '<date>',
  ],
  [/\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b/g, '<address>'],
  [/\b(?:0x)?(?=[a-z]*\d)[0-9a-f]{8,}\b/gi, '<id>'],
  [/\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{16,}\b/gi, '<id>'],
  [/\d+(?:\.\d+)?/g, '<n>'],
];

/**
 * The same for each occurrence of one error. By type and uppermost frames; without frames by the message, without what
 * changes in it.
 */
export function fingerprintOf(kind: string, message: string, frames: string[]): string {
  const what = frames.length > 0 ? frames.slice(0, FRAMES) : ['', normalized(message)];
  return createHash('sha256')
    .update(JSON.stringify([kind, ...what]))
    .digest('hex')
    .slice(0, 16);
}

/** A message without ids, numbers and dates. */
export function normalized(message: string): string {
  let text = message.slice(0, 500);
  for (const [pattern, name] of CHANGING) text = text.replace(pattern, name);
  return text;
}
