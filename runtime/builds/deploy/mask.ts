// Cleans text for a log: removes control characters, and hides the values of variables and secrets.
import { plainText } from '../../processes/lines.ts';

const MASK = '***';
/** Minimum length of a hidden value: shorter values occur in too many words. */
const MIN_LENGTH = 4;
/**
 * Maximum hidden lines: enough for a key and a certificate in each value of an app. Of more lines, the shortest stay
 * visible.
 */
const MOST_LINES = 12_000;

/** Returns a function that hides each value in a plain text, and each line of a multi-line value. */
export function maskOf(values: string[]): (text: string) => string {
  const lines = values.flatMap((value) => plainText(value).split('\n'));
  const hidden = [...new Set(lines.map((line) => line.trim()))]
    .filter((line) => line.length >= MIN_LENGTH)
    // Longest first: a value may be part of another.
    .sort((a, b) => b.length - a.length)
    .slice(0, MOST_LINES);
  return (text) => hidden.reduce((masked, value) => masked.replaceAll(value, MASK), text);
}
