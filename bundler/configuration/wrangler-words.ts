// Rewrites wrangler's errors and warnings about a configuration file. The results name the line, or the key and its
// likely spelling.
import { stripVTControlCharacters } from 'node:util';
import { nestedKeys, topLevelKeys } from './wrangler-keys.ts';

export type WranglerError = Error & { location?: { line: number; column: number } };

/** Maximum edit distance between a misspelt key and the suggested one. */
const MAX_DISTANCE = 2;
const UNEXPECTED = /^Unexpected fields found in (\S+) field: (.*)$/;

export const NO_PYTHON = 'Workers in Python are not supported: write it in JavaScript or TypeScript';

/** Returns why wrangler could not read a configuration. @param file its path, as shown to the author */
export function explain({ message, location }: WranglerError, file: string): string {
  const text = stripVTControlCharacters(message).trim();
  // wrangler's message advises to set the flag `python_workers`, which has no effect here.
  if (text.includes('python_workers')) return `${file}: ${NO_PYTHON}`;
  if (location) return `${file}:${location.line}:${location.column}: ${spelledOut(text)}`;
  return `${file}: ${text.replace(/^Processing .* configuration:\s*/, '').replace(/^ *- /gm, '')}`;
}

/** Spells out the error codes of wrangler's JSON parser, such as `CommaExpected`. */
function spelledOut(text: string): string {
  if (!/^[A-Z][A-Za-z]+$/.test(text)) return text;
  return text.replace(/(?<!^)[A-Z]/g, ' $&').toLowerCase();
}

/** Keys that Wrangler's format does not have. */
export interface UnknownKeys {
  /** The path of the object that has them, such as `d1_databases[0]`; null: the top level. */
  place: string | null;
  keys: string[];
}

/** Returns the unknown keys that a warning of wrangler names; null for any other warning. */
export function unknownKeysIn(warning: string): UnknownKeys | null {
  const [, place = '', list = ''] = UNEXPECTED.exec(warning) ?? [];
  if (place === '') return null;
  const keys = (list.match(/"[^"]*"/g) ?? []).map((key) => key.slice(1, -1));
  return { place: place === 'top-level' ? null : place, keys };
}

/** Removes indexes, `[]` and `{}` from the path of an object: `d1_databases` for `d1_databases[0]`. */
export function placeOfAny(place: string): string {
  return place.replace(/\[\d*\]|\{\}/g, '');
}

/** Returns a message about unknown keys, with the likely spelling of each. */
export function unknownKeysMessage({ place, keys }: UnknownKeys): string {
  const known = Object.keys(place === null ? topLevelKeys : keysAt(placeOfAny(place)));
  const listed = keys.map((key) => {
    const meant = known.find((candidate) => distance(key, candidate) <= MAX_DISTANCE);
    return meant === undefined ? `"${key}"` : `"${key}" (did you mean "${meant}"?)`;
  });
  return `unknown key${keys.length === 1 ? '' : 's'} ${listed.join(', ')}${place === null ? '' : ` in ${place}`}`;
}

function keysAt(place: string): object {
  return Object.entries(nestedKeys).find(([each]) => placeOfAny(each) === place)?.[1] ?? {};
}

/** Returns the Levenshtein distance: two swapped characters count as two. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, n) => n);
  for (const [i, character] of [...one].entries()) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++)
      next.push(Math.min(row[j + 1]! + 1, next[j]! + 1, row[j]! + (character === other[j] ? 0 : 1)));
    row = next;
  }
  return row[other.length]!;
}
