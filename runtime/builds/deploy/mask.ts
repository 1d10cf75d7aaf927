// What a log may hold of a text: no control characters, and no values of variables and secrets.
import { plainText } from '../../processes/lines.ts';

const MASK = '***';
/** Shorter values stay: too many words have them. */
const MIN_LENGTH = 4;
/** Lines that are hidden: all of a key's and of a certificate's, in all values that an app may have. Of more, the shortest stay. */
const MOST_LINES = 12_000;

/** Makes what hides each of the values in a plain text, and each line of a value of several lines. */
export function maskOf(values: string[]): (text: string) => string {
  const lines = values.flatMap((value) => plainText(value).split('\n'));
  const hidden = [...new Set(lines.map((line) => line.trim()))]
    .filter((line) => line.length >= MIN_LENGTH)
    // A value may be a part of another.
    .sort((a, b) => b.length - a.length)
    .slice(0, MOST_LINES);
  return (text) => hidden.reduce((masked, value) => masked.replaceAll(value, MASK), text);
}
