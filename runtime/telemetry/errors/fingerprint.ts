// Computes the fingerprints of errors. Errors with the same fingerprint form a group.
import { createHash } from 'node:crypto';

/** Version of `fingerprintOf`, stored with each group. Increase it when a change gives errors another fingerprint. */
export const GROUPING = 1;
/** Maximum frames in a fingerprint. */
const FRAMES = 3;

/** Parts of a message that differ between occurrences, with placeholders. The order matters: an id may contain numbers. */
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
 * Returns the same value for each occurrence of an error: a hash of its type and top frames. Without frames, the normalized
 * message is used.
 */
export function fingerprintOf(kind: string, message: string, frames: string[]): string {
  const what = frames.length > 0 ? frames.slice(0, FRAMES) : ['', normalized(message)];
  return createHash('sha256')
    .update(JSON.stringify([kind, ...what]))
    .digest('hex')
    .slice(0, 16);
}

/** Returns the first 500 characters of a message, with placeholders for ids, numbers, dates and e-mail addresses. */
export function normalized(message: string): string {
  let text = message.slice(0, 500);
  for (const [pattern, name] of CHANGING) text = text.replace(pattern, name);
  return text;
}
