// What a log may hold of a text: no control characters, and no values of variables and secrets.
import { stripVTControlCharacters } from 'node:util';

/** Any control character but the end of a line. */
const CONTROL = /[^\P{Cc}\n]/u;
const MASK = '***';
/** Shorter values stay: too many words have them. */
const MIN_LENGTH = 4;

/** A text as a log may hold it: no escape sequences, and no control characters but the ends of lines. */
export function plainText(text: string): string {
  // Most lines have none of that, and are many.
  if (!CONTROL.test(text)) return text;
  return stripVTControlCharacters(text)
    .replaceAll('\t', '  ')
    .replace(/[^\P{Cc}\n]/gu, '');
}

/** Makes what hides each of the values in a plain text, and each line of a value of several lines. */
export function maskOf(values: string[]): (text: string) => string {
  const lines = values.flatMap((value) => plainText(value).split('\n'));
  const hidden = [...new Set(lines.map((line) => line.trim()))]
    .filter((line) => line.length >= MIN_LENGTH)
    // A value may be a part of another.
    .sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((masked, value) => masked.replaceAll(value, MASK), text);
}
